//! The byte form of states.

use alloc::vec::Vec;

use super::State;
use crate::algorithm::{CalendarCount, Log, Permit, Permits, Slots, Tat, Window};
use crate::{InFlight, SlidingLog, SlidingWindow};

impl State {
    /// The state as bytes, for stores that keep bytes.
    ///
    /// The format is stable: a later version reads what an earlier one has written. The first byte is the kind of the state
    /// and the version of its layout. Numbers follow, each of 64 bits in big-endian order:
    ///
    /// | state | first byte | numbers | bytes |
    /// |---|---|---|---|
    /// | [`Tat`](State::Tat) | `0x11` | `micros`, `remainder` | 17 |
    /// | [`Window`](State::Window) | `0x12` | `end`, `length`, `count` | 25 |
    /// | [`Slots`](State::Slots) | `0x13` | `end`, `width`, then the counts, the newest first: one per slot and one for the slot that leaves the window | 17 + 8 per count, at most 8,025 |
    /// | [`Log`](State::Log) | `0x14` | for each run, the oldest first: its stamp and its units | 1 + 16 per run, at most 3,200,001 |
    /// | [`CalendarCount`](State::CalendarCount) | `0x15` | `window`, `end`, `count` | 25 |
    /// | [`Permits`](State::Permits) | `0x16` | `epoch`, `next`, `expires_at`, then for each permit, the one that expires first in front: its expiry and its serial number | 25 + 16 per permit, at most 32,025 |
    ///
    /// Instants and lengths are in microseconds, instants since the Unix epoch. Equal states have equal bytes.
    ///
    /// The bytes do not contain the policy: a store keeps them under a key that names the policy and the strategy. They do not
    /// contain the expiry either: it is [`Strategy::expires_at`](crate::Strategy::expires_at).
    ///
    /// ```
    /// use portcullis::store::State;
    /// use portcullis::{Policy, Quota, Timestamp};
    ///
    /// let pages = Policy::gcra("pages", Quota::per_second(1));
    /// let now = Timestamp::from_micros(1_000_000);
    /// let state = pages.strategy().decide(None, now, 1).after.ok_or("charged")?;
    /// let bytes = state.encode();
    /// assert_eq!(bytes.len(), 17);
    /// assert_eq!(State::decode(&bytes)?, state);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Tat(Tat { micros, remainder }) => concat(TAT, 2, [*micros, *remainder]),
            Self::Window(Window { end, length, count }) => concat(WINDOW, 3, [*end, *length, *count]),
            Self::CalendarCount(CalendarCount { window, end, count }) => {
                concat(CALENDAR_COUNT, 3, [*window, *end, *count])
            }
            Self::Slots(slots) => {
                let counts = slots.counts();
                let numbers = [slots.end(), slots.width()].into_iter().chain(counts.iter().copied());
                concat(SLOTS, counts.len().saturating_add(2), numbers)
            }
            Self::Log(log) => {
                let runs = log.runs();
                let count = runs.len().saturating_mul(2);
                concat(LOG, count, runs.flat_map(|(stamp, units)| [stamp, units]))
            }
            Self::Permits(permits) => {
                let held = permits.held();
                let first = [permits.epoch(), permits.next(), permits.expires_at()];
                let numbers = held.iter().flat_map(|permit| [permit.expires, permit.serial]);
                concat(
                    PERMITS,
                    held.len().saturating_mul(2).saturating_add(3),
                    first.into_iter().chain(numbers),
                )
            }
        }
    }

    /// Reads what [`encode`](State::encode) has written.
    ///
    /// The memory of the state is proportional to the length of `bytes`.
    ///
    /// # Errors
    ///
    /// If the bytes are not the encoding of a state that an algorithm can have left. A state with
    /// odd instants or counts is not an error: under any strategy it decides like a state from another clock or quota.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeStateError> {
        let (&kind, fields) = bytes.split_first().ok_or(DecodeStateError::Empty)?;
        let wrong_length = DecodeStateError::Length { kind, bytes: bytes.len() };
        let (words, rest) = fields.as_chunks::<8>();
        match (kind, words) {
            (TAT | WINDOW | SLOTS | LOG | CALENDAR_COUNT | PERMITS, _) if !rest.is_empty() => {
                Err(wrong_length)
            }
            (TAT, &[micros, remainder]) => {
                Ok(Self::Tat(Tat { micros: number(micros), remainder: number(remainder) }))
            }
            (WINDOW, &[end, length, count]) => window(number(end), number(length), number(count)),
            (CALENDAR_COUNT, &[_, _, count]) if number(count) == 0 => Err(DecodeStateError::ZeroUnits),
            (CALENDAR_COUNT, &[window, end, count]) => {
                let (window, end, count) = (number(window), number(end), number(count));
                Ok(Self::CalendarCount(CalendarCount { window, end, count }))
            }
            (SLOTS, [end, width, counts @ ..]) if COUNTS.contains(&counts.len()) => {
                slots(number(*end), number(*width), counts)
            }
            (LOG, words) => log(words, wrong_length),
            (PERMITS, [epoch, next, expires_at, words @ ..]) => {
                permits([epoch, next, expires_at].map(|word| number(*word)), words, wrong_length)
            }
            (TAT | WINDOW | SLOTS | CALENDAR_COUNT | PERMITS, _) => Err(wrong_length),
            _ => Err(DecodeStateError::UnknownKind(kind)),
        }
    }
}

/// Why bytes are not a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeStateError {
    /// There are no bytes.
    #[error("the encoding of a state has at least one byte")]
    Empty,
    /// This version does not know the first byte.
    #[error("a state cannot begin with the byte {0:#04x}")]
    UnknownKind(u8),
    /// A state that begins with this byte cannot have this number of bytes.
    #[error("a state that begins with the byte {kind:#04x} cannot have {bytes} bytes")]
    Length {
        /// The first byte.
        kind: u8,
        /// The number of bytes, the first one included.
        bytes: usize,
    },
    /// A window or a slot has no length.
    #[error("the length of a window or slot is zero")]
    ZeroLength,
    /// A window or a run of a log has no units.
    #[error("a window or a run of a log has zero units")]
    ZeroUnits,
    /// The stamps of a log are not in ascending order, each of them once.
    #[error("the stamps of a log are not in ascending order")]
    UnorderedStamps,
    /// A log has more units than the longest log in debt: twice [`SlidingLog::MAX_LIMIT`].
    #[error("a log has more than 200000 units")]
    TooManyUnits,
    /// A serial number of permits is out of range, or a permit expires after its state.
    #[error("a permit has an invalid serial number, or expires after its state")]
    InvalidPermit,
    /// Permits are not in ascending order of their expiry, then of their serial numbers.
    #[error("the permits are not in ascending order")]
    UnorderedPermits,
}

fn window(end: u64, length: u64, count: u64) -> Result<State, DecodeStateError> {
    match (length, count) {
        (0, _) => Err(DecodeStateError::ZeroLength),
        (_, 0) => Err(DecodeStateError::ZeroUnits),
        _ => Ok(State::Window(Window { end, length, count })),
    }
}

fn slots(end: u64, width: u64, counts: &[[u8; 8]]) -> Result<State, DecodeStateError> {
    if width == 0 {
        return Err(DecodeStateError::ZeroLength);
    }
    Ok(State::Slots(Slots::new(end, width, counts.iter().copied().map(number))))
}

/// Checks the runs before it allocates memory for them.
fn log(words: &[[u8; 8]], wrong_length: DecodeStateError) -> Result<State, DecodeStateError> {
    let (pairs, []) = words.as_chunks::<2>() else { return Err(wrong_length) };
    if pairs.is_empty() {
        return Err(wrong_length);
    }
    let runs = pairs.iter().map(|[stamp, units]| (number(*stamp), number(*units)));
    if !runs.clone().is_sorted_by(|(earlier, _), (later, _)| earlier < later) {
        return Err(DecodeStateError::UnorderedStamps);
    }
    if runs.clone().any(|(_, units)| units == 0) {
        return Err(DecodeStateError::ZeroUnits);
    }
    if runs.clone().fold(0_u64, |sum, (_, units)| sum.saturating_add(units)) > MAX_UNITS {
        return Err(DecodeStateError::TooManyUnits);
    }
    Ok(State::Log(Log::from_runs(runs)))
}

fn permits(
    head: [u64; 3],
    words: &[[u8; 8]],
    wrong_length: DecodeStateError,
) -> Result<State, DecodeStateError> {
    let (pairs, []) = words.as_chunks::<2>() else { return Err(wrong_length) };
    if pairs.len() as u64 > MAX_PERMITS {
        return Err(wrong_length);
    }
    let [epoch, next, expires_at] = head;
    let permits =
        pairs.iter().map(|[expires, serial]| Permit { expires: number(*expires), serial: number(*serial) });
    let is_held = |permit: Permit| (1..next).contains(&permit.serial) && permit.expires <= expires_at;
    if !(1..=MAX_NEXT).contains(&next) || !permits.clone().all(is_held) {
        return Err(DecodeStateError::InvalidPermit);
    }
    if !permits.clone().is_sorted_by(|earlier, later| earlier < later) {
        return Err(DecodeStateError::UnorderedPermits);
    }
    Ok(State::Permits(Permits::new(epoch, next, expires_at, permits)))
}

fn concat(kind: u8, count: usize, numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count.saturating_mul(8).saturating_add(1));
    bytes.push(kind);
    bytes.extend(numbers.into_iter().flat_map(u64::to_be_bytes));
    bytes
}

fn number(word: [u8; 8]) -> u64 {
    u64::from_be_bytes(word)
}

const TAT: u8 = 0x11;
const WINDOW: u8 = 0x12;
const SLOTS: u8 = 0x13;
const LOG: u8 = 0x14;
const CALENDAR_COUNT: u8 = 0x15;
const PERMITS: u8 = 0x16;
/// The permits of the highest limit, and as many that were charged beyond it.
const MAX_PERMITS: u64 = InFlight::MAX_LIMIT * 2;
/// After the last serial number.
const MAX_NEXT: u64 = 1 << 53;
/// The numbers of counts that a sliding window can have.
const COUNTS: core::ops::RangeInclusive<usize> = 2..=SlidingWindow::MAX_SLOTS as usize + 1;
/// The units of the longest log in debt.
const MAX_UNITS: u64 = SlidingLog::MAX_LIMIT * 2;

#[cfg(test)]
mod tests;
