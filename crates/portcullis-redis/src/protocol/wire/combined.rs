//! Several decisions in one call.

use std::collections::HashMap;

use bytes::Bytes;
use foldhash::fast::RandomState;
use portcullis_core::Strategy;
use portcullis_core::store::Checks;
use smallvec::SmallVec;

use super::guard::CHECK_LOAD;
use super::record::{length_of_records, records_of};
use super::replay::Replies;
use super::reply::number_at;
use super::{
    CALENDAR_WINDOW, CallWords, DOUBLE, FIXED_WINDOW, HEAD, IN_FLIGHT, LAST, METER, OVERRIDE,
    OVERRIDE_NUMBERS, Operation, Record, Replay, SLIDING_WINDOW,
};
use crate::protocol::value::Value;

/// The keys and the request of a call that makes several decisions, one after another.
///
/// Decisions about the same key share it, so that it is read and written once, and checks with equal parameters share a record. Equal
/// decisions that follow each other among those about their key are one check, which is made several times.
///
/// Mirrors: the comment of `lua/driver.lua`.
#[derive(Debug, Default)]
pub(crate) struct CombinedRequest {
    keys: Vec<Bytes>,
    /// The positions of the keys, counted from 1.
    positions: HashMap<Bytes, u8, RandomState>,
    records: Vec<Record>,
    /// By record, what a decision with one check by these parameters is computed from.
    replays: Vec<Option<Replay>>,
    checks: Vec<RepeatedCheck>,
    /// By key, the index of its last check; without one, of a check of another key.
    last_checks: Vec<u8>,
    /// By decision, the index of its last check.
    decisions: Vec<u8>,
}

/// A check, which is made several times if it is a decision of its own.
#[derive(Clone, Copy, Debug)]
struct RepeatedCheck {
    /// The record, plus [`LAST`] if it is the last check of its decision.
    record: u8,
    key: u8,
    times: u8,
    /// Whether it is a decision that is computed from the replay of its record.
    is_repeatable: bool,
}

impl RepeatedCheck {
    fn may_be_repeated(self) -> bool {
        self.is_repeatable && self.times < u8::MAX
    }
}

impl CombinedRequest {
    /// Adds an [encoded](super::encode) decision, which is made several `times`: then it is one with a replay. The [loads](load_of) of all are
    /// at most [`MAX_LOAD`], unless there is only one.
    pub(crate) fn add(&mut self, words: &CallWords, times: usize) {
        let (keys, request, replay) = (&words.keys, &words.args[0], words.replay.as_ref());
        let (checks, records) = request[HEAD..].split_at(2 * usize::from(request[1]));
        let numbers: SmallVec<[u8; 2]> =
            records_of(request[0], records).map(|record| self.number_of(record)).collect();
        for check in checks.chunks_exact(2) {
            let key = self.position_of(&keys[usize::from(check[1]) - 1]);
            let record = numbers[usize::from(check[0] & !LAST)];
            let is_repeatable = replay.is_some_and(|replay| self.replays_as(record, replay));
            for _ in 0..times {
                self.add_check(record | (check[0] & LAST), key, is_repeatable);
            }
        }
    }

    pub(crate) fn keys(&self) -> &[Bytes] {
        &self.keys
    }

    pub(crate) fn request(&self) -> Bytes {
        let (record, flag) = length_of_records(&self.records);
        let repeats = if self.checks.iter().any(|check| check.times > 1) { REPEATS } else { 0 };
        let length = HEAD + 3 * self.checks.len() + record * self.records.len();
        let mut request = Vec::with_capacity(length);
        let operation = Operation::Check.code() | flag | repeats;
        request.extend([operation, byte(self.checks.len()), byte(self.records.len())]);
        request.extend(self.checks.iter().flat_map(|check| [check.record, check.key]));
        if repeats > 0 {
            request.extend(self.checks.iter().map(|check| check.times));
        }
        self.records.iter().for_each(|parameters| request.extend(&parameters[..record]));
        Bytes::from(request)
    }

    /// Divides the reply among the decisions, null for one whose local result differs. Returns `None` for a reply that no script sends.
    pub(crate) fn split(&self, reply: &Bytes) -> Option<Vec<Value>> {
        let at = reply.get(..DOUBLE)?;
        let length = reply.len() + 4 * DOUBLE * self.decisions.len();
        let mut replies = Replies { bytes: Vec::with_capacity(length), ends: Vec::new() };
        // By check, the index of the next reply to it.
        let mut next: SmallVec<[usize; 8]> = SmallVec::with_capacity(self.checks.len());
        let (mut first, mut end) = (DOUBLE, DOUBLE);
        for check in &self.checks {
            next.push(replies.ends.len());
            let record = usize::from(check.record & !LAST);
            let (algorithm, status) = (self.records[record][0], end);
            // A length that a reply states may be any number.
            end = end.checked_add(DOUBLE)?;
            end = end.checked_add(state_length(algorithm, reply, end)?)?;
            if check.times > 1 {
                let before = end;
                end = end.checked_add(state_length(algorithm, reply, end)?)?;
                self.replays[record].as_ref()?.write_replies(
                    reply,
                    check.times,
                    (status, before),
                    &mut replies,
                );
                first = end;
            } else if check.record & LAST != 0 {
                replies.bytes.extend_from_slice(at);
                replies.bytes.extend_from_slice(reply.get(first..end)?);
                replies.ends.push(replies.bytes.len());
                first = end;
            }
        }
        if end != reply.len() {
            return None;
        }
        let Replies { bytes, ends } = replies;
        let bytes = Bytes::from(bytes);
        let own = self.decisions.iter().map(|check| {
            let index = next[usize::from(*check)];
            next[usize::from(*check)] += 1;
            let begin = index.checked_sub(1).map_or(0, |previous| ends[previous]);
            let end = ends[index];
            if begin == end { Value::Null } else { Value::Text(bytes.slice(begin..end)) }
        });
        Some(own.collect())
    }

    /// Adds a check, or repeats the last one of its key.
    fn add_check(&mut self, record: u8, key: u8, is_repeatable: bool) {
        let last = &mut self.last_checks[usize::from(key) - 1];
        let repeated = self.checks.get_mut(usize::from(*last));
        let repeated = repeated.filter(|last| {
            is_repeatable && last.may_be_repeated() && (last.key, last.record) == (key, record)
        });
        if let Some(repeated) = repeated {
            repeated.times += 1;
        } else {
            *last = byte(self.checks.len());
            self.checks.push(RepeatedCheck { record, key, times: 1, is_repeatable });
        }
        if record & LAST != 0 {
            self.decisions.push(*last);
        }
    }

    /// Whether decisions with one check by this record are computed from this replay.
    fn replays_as(&mut self, record: u8, replay: &Replay) -> bool {
        self.replays[usize::from(record)].get_or_insert(*replay) == replay
    }

    fn number_of(&mut self, record: Record) -> u8 {
        let known = self.records.iter().position(|known| *known == record);
        byte(known.unwrap_or_else(|| {
            self.records.push(record);
            self.replays.push(None);
            self.records.len() - 1
        }))
    }

    fn position_of(&mut self, key: &Bytes) -> u8 {
        if let Some(position) = self.positions.get(key) {
            return *position;
        }
        self.keys.push(key.clone());
        self.last_checks.push(0);
        let position = byte(self.keys.len());
        self.positions.insert(key.clone(), position);
        position
    }
}

/// How long a decision blocks the server, in the unit of [`Strategy::work`]; `None` with a sliding log, decided once per call.
pub(crate) fn load_of<'a>(mut strategies: impl Iterator<Item = &'a Strategy>) -> Option<u32> {
    strategies.try_fold(0_u32, |load, strategy| match strategy {
        Strategy::SlidingLog(_) => None,
        strategy => Some(load.saturating_add(CHECK_LOAD).saturating_add(strategy.work())),
    })
}

/// The most load of the decisions of one call: a call blocks the server for about as long as the largest decision does.
pub(crate) const MAX_LOAD: u32 = Checks::MAX_WORK;

/// The bytes of a state in a reply, which begins at `position`.
fn state_length(algorithm: u8, reply: &[u8], position: usize) -> Option<usize> {
    let numbers = match algorithm {
        METER | FIXED_WINDOW => 2,
        CALENDAR_WINDOW => 3,
        IN_FLIGHT => 5,
        OVERRIDE => OVERRIDE_NUMBERS,
        SLIDING_WINDOW => match number_at(reply, position)? {
            0 => 1,
            counts => usize::try_from(counts).ok()?.checked_add(2)?,
        },
        _ => return None,
    };
    numbers.checked_mul(DOUBLE)
}

fn byte(number: usize) -> u8 {
    u8::try_from(number).expect("the load of a call bounds its checks")
}

/// Marks a call in which the number of times follows that each check is made.
pub(crate) const REPEATS: u8 = 64;

const _: () = assert!(MAX_LOAD / (CHECK_LOAD + 1) <= LAST as u32, "the number of a record has seven bits");

#[cfg(test)]
mod tests;
