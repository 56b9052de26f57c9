//! Equal decisions about one key, which the script makes in one step: it replies with the state before and after all of them. Here core makes
//! them again, so that each caller gets its own figures and its own position. Both must come to the same state.

use bytes::Bytes;
use portcullis_core::algorithm::{CalendarCount, State};
use portcullis_core::store::Check;
use portcullis_core::{Strategy, Timestamp};

use super::reply::number_at;
use super::{DOUBLE, Guard, Reply, StoredState, double};

/// What a decision with one check is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    strategy: Strategy,
    cost: u64,
}

impl Replay {
    /// Returns `None` for a strategy whose decisions are not repeated: the part of its state in a reply does not suffice.
    pub(crate) fn of(strategy: &Strategy, cost: u64) -> Option<Self> {
        match strategy {
            Strategy::TokenBucket(_)
            | Strategy::Gcra(_)
            | Strategy::LeakyBucket(_)
            | Strategy::FixedWindow(_)
            | Strategy::CalendarWindow(_)
            | Strategy::SlidingWindow(_) => Some(Self { strategy: *strategy, cost }),
            Strategy::SlidingLog(_) | Strategy::InFlight(_) => None,
        }
    }

    /// Returns `None` for a decision with several checks as well.
    pub(crate) fn of_decision<'a>(
        mut checks: impl Iterator<Item = &'a Check>,
        guards: &[Guard],
    ) -> Option<Self> {
        match (checks.next(), checks.next(), guards) {
            (Some(check), None, []) => Self::of(check.policy.strategy(), check.units()),
            _ => None,
        }
    }

    /// Makes the decisions of a check again, and adds the reply to each: an empty one if their last state is not that of the script.
    ///
    /// In the reply of the script is the `status` of the check, which the state after it follows, and the state `before` it. The last reply
    /// has the expiry that was set: its state is the one that was written.
    pub(super) fn write_replies(
        &self,
        reply: &Bytes,
        times: u8,
        (status, before): (usize, usize),
        replies: &mut Replies,
    ) {
        let (bytes, count) = (replies.bytes.len(), replies.ends.len());
        if self.try_write(reply, times, (status, before), replies).is_none() {
            replies.bytes.truncate(bytes);
            replies.ends.truncate(count);
            replies.ends.resize(count + usize::from(times), bytes);
        }
    }

    fn try_write(
        &self,
        reply: &Bytes,
        times: u8,
        (status, before): (usize, usize),
        replies: &mut Replies,
    ) -> Option<()> {
        let (at, last) = (reply.get(..DOUBLE)?, number_at(reply, status)?);
        let now = Timestamp::from_micros(number_at(reply, 0)?);
        let stored = Reply::from_position(reply, before).stored(&self.strategy).ok()?;
        let StoredState::State(_, mut state) = stored else { return None };
        let mut begin = replies.bytes.len();
        let mut is_admitted = false;
        for number in 1..=times {
            begin = replies.bytes.len();
            let evaluation = self.strategy.evaluate(state.as_ref(), now, self.cost);
            is_admitted = evaluation.admitted;
            self.strategy.apply_decision(&mut state, now, self.cost, evaluation, is_admitted);
            let status = if number == times { last } else { u64::from(is_admitted) };
            replies.bytes.extend_from_slice(at);
            replies.bytes.extend_from_slice(&double(status));
            write_state(&mut replies.bytes, &self.strategy, state.as_ref());
            replies.ends.push(replies.bytes.len());
        }
        let is_same = replies.bytes[begin + 2 * DOUBLE..] == *reply.get(status + DOUBLE..before)?;
        (is_same && is_admitted == (last % 2 == 1)).then_some(())
    }
}

/// Replies to decisions, one after another.
#[derive(Debug)]
pub(super) struct Replies {
    pub(super) bytes: Vec<u8>,
    /// Where each of them ends.
    pub(super) ends: Vec<usize>,
}

/// Writes a state as the script does.
fn write_state(bytes: &mut Vec<u8>, strategy: &Strategy, state: Option<&State>) {
    let mut write =
        |numbers: &[u64]| numbers.iter().for_each(|number| bytes.extend_from_slice(&double(*number)));
    match state {
        Some(State::Tat(tat)) => write(&[tat.micros, tat.remainder]),
        Some(State::Window(window)) => write(&[window.end, window.count]),
        // The script cannot state the end of a window that does not end: see `Reply::calendar_count`.
        Some(State::CalendarCount(CalendarCount { window, end, count })) => {
            write(&[*window, (*end).min(Timestamp::MAX.as_micros()), *count]);
        }
        Some(State::Slots(slots)) => match slots.counts().iter().rposition(|count| *count > 0) {
            Some(last) => {
                let held = &slots.counts()[..=last];
                write(&[held.len().try_into().unwrap_or(u64::MAX), slots.end()]);
                write(held);
            }
            None => write(&[0]),
        },
        // No decision under these states is repeated.
        Some(State::Log(_) | State::Permits(_)) => {}
        None => match strategy {
            Strategy::SlidingWindow(_) => write(&[0]),
            Strategy::CalendarWindow(_) => write(&[0; 3]),
            _ => write(&[0; 2]),
        },
    }
}
