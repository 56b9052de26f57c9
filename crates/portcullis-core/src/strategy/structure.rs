//! What the states of a strategy depend on, apart from its kind.

use core::fmt;
use core::time::Duration;

use super::Strategy;
use crate::{Anchor, FixedWindow, Refill, WindowTable};

/// What a state cannot follow when a strategy of one kind changes: the length and the start of a window, the slots of a sliding window,
/// the calendar of a calendar window, the period of a log, interval refill.
///
/// Limits, bursts, debts and leases are not part of it: a state is kept when they change. So it is empty for GCRA, leaky bucket,
/// requests in flight and a token bucket with greedy refill. A store keeps the states of two structures apart, under the
/// [digest](crate::Policy::digest) of a policy or under names that end with this text: up to [`MAX_LEN`](Structure::MAX_LEN) lower-case
/// letters, digits and full stops.
///
/// | strategy | text |
/// |---|---|
/// | fixed window | its length, such as `60s` or `1500us`; then `.first` for windows from a key's first request, or the distance of the starts from those at the Unix epoch if there is one, such as `604800s.345600s` |
/// | calendar window | 16 hexadecimal digits of a hash of the [name](WindowTable::name) of its table |
/// | sliding window | its length and the number of slots, such as `60s.6` |
/// | sliding log | its period |
/// | token bucket with interval refill | `interval` |
/// | any other | none |
///
/// ```
/// use portcullis::{Policy, Quota};
///
/// let text = |policy: Policy| policy.strategy().structure().as_str().to_owned();
/// assert_eq!(text(Policy::fixed_window("a", Quota::per_minute(5))), "60s");
/// assert_eq!(text(Policy::fixed_window("a", Quota::per_minute(9))), "60s");
/// assert_eq!(text(Policy::sliding_window("a", Quota::per_hour(5))), "3600s.1");
/// assert_eq!(text(Policy::gcra("a", Quota::per_minute(5))), "");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Structure {
    text: [u8; Self::MAX_LEN],
    len: u8,
}

impl Structure {
    /// The longest text, in characters.
    pub const MAX_LEN: usize = 40;

    const EMPTY: Self = Self { text: [0; Self::MAX_LEN], len: 0 };

    /// The text, which is ASCII.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.bytes()).unwrap_or_default()
    }

    /// Whether states of the strategy follow every change.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The text as bytes.
    #[inline]
    pub const fn bytes(&self) -> &[u8] {
        self.text.split_at(self.len as usize).0
    }

    const fn of_text(text: &str) -> Self {
        Self::EMPTY.then(text.as_bytes())
    }

    const fn of_window(window: &FixedWindow) -> Self {
        let length = Self::EMPTY.then_time(window.period());
        match window.anchor() {
            Anchor::Epoch => length,
            Anchor::FirstRequest => length.then(b".first"),
            Anchor::Instant(start) => match start.as_micros().checked_rem(micros(window.period())) {
                None | Some(0) => length,
                Some(distance) => length.then(b".").then_time(Duration::from_micros(distance)),
            },
        }
    }

    /// By the name alone: the instants of a table differ with the version of the time zone data.
    const fn of_table(table: &WindowTable) -> Self {
        let (mut hash, mut rest) = (FNV_OFFSET_BASIS, table.name().as_bytes());
        while let [first, others @ ..] = rest {
            hash = (hash ^ *first as u64).wrapping_mul(FNV_PRIME);
            rest = others;
        }
        let (mut digits, mut left) = (Self::EMPTY, 16_u32);
        while left > 0 {
            left = left.saturating_sub(1);
            let digit = ((hash >> left.saturating_mul(4)) & 0xf) as usize;
            digits = digits.then(&[DIGITS[digit]]);
        }
        digits
    }

    /// Appends a length of time, in seconds if it is a whole number of them.
    const fn then_time(self, time: Duration) -> Self {
        if time.subsec_nanos() == 0 {
            self.then_number(time.as_secs()).then(b"s")
        } else {
            self.then_number(micros(time)).then(b"us")
        }
    }

    const fn then_number(self, number: u64) -> Self {
        let higher = match number / 10 {
            0 => self,
            higher => self.then_number(higher),
        };
        higher.then(&[DIGITS[(number % 10) as usize]])
    }

    const fn then(mut self, mut text: &[u8]) -> Self {
        while let [first, rest @ ..] = text {
            self.text[self.len as usize] = *first;
            self.len = self.len.saturating_add(1);
            text = rest;
        }
        self
    }
}

impl Strategy {
    /// What of the strategy its states depend on, apart from its kind. See [`Structure`].
    #[inline]
    pub const fn structure(&self) -> Structure {
        match self {
            Self::Gcra(_) | Self::LeakyBucket(_) | Self::InFlight(_) => Structure::EMPTY,
            Self::TokenBucket(bucket) => match bucket.refill() {
                Refill::Greedy => Structure::EMPTY,
                Refill::Interval => Structure::of_text("interval"),
            },
            Self::FixedWindow(window) => Structure::of_window(window),
            Self::CalendarWindow(window) => Structure::of_table(window.table()),
            Self::SlidingWindow(window) => {
                let length = Structure::EMPTY.then_time(window.period());
                length.then(b".").then_number(window.slots() as u64)
            }
            Self::SlidingLog(log) => Structure::EMPTY.then_time(log.period()),
        }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Structure").field(&self.as_str()).finish()
    }
}

const fn micros(time: Duration) -> u64 {
    crate::time::saturating_micros(time)
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";
/// FNV-1a of 64 bits. Source: Fowler, Noll, Vo, Eastlake, RFC 9923.
const FNV_OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests;
