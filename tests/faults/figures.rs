//! What the callers saw, in numbers.

use std::collections::BTreeMap;

use portcullis_tests::faults::{Failure, Op, Outcome};

use crate::worker::DEADLINE;

/// Of the time from the first harm to the return to normal; all times in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) allowed: usize,
    pub(crate) denied: usize,
    pub(crate) failed: usize,
    pub(crate) unknown: usize,
    pub(crate) kinds: BTreeMap<Failure, usize>,
    /// Of the calls that were under way when it began, or began before anybody could know.
    pub(crate) worst_at_first: u64,
    /// Of those that began later.
    pub(crate) worst_later: u64,
    /// Of those that failed later, how long half of them took at most, and how many took longer than a call that is
    /// refused at once.
    pub(crate) median_failure: Option<u64>,
    pub(crate) waited: usize,
    pub(crate) failed_later: usize,
    /// From the last repair until every process is answered ten times in a row.
    pub(crate) normal_after: Option<u64>,
    /// Of the whole run.
    pub(crate) worst: u64,
}

impl Figures {
    /// Counts what was asked from `begin` on, the repair being over at `end`.
    pub(crate) fn new(ops: &[Op], begin: u64, end: u64) -> Self {
        let mut figures = Self { normal_after: normal_after(ops, end), ..Self::default() };
        let known = begin + u64::try_from(DEADLINE.as_micros()).unwrap_or_default();
        let normal = end + figures.normal_after.unwrap_or(u64::MAX / 2);
        let mut failures = Vec::new();
        for op in ops {
            figures.worst = figures.worst.max(op.latency());
            if op.completed < begin || op.invoked > normal {
                continue;
            }
            figures.count(op);
            if op.invoked <= known {
                figures.worst_at_first = figures.worst_at_first.max(op.latency());
            } else {
                figures.worst_later = figures.worst_later.max(op.latency());
                if op.answer().is_none() {
                    failures.push(op.latency());
                }
            }
        }
        failures.sort_unstable();
        figures.median_failure = failures.get(failures.len() / 2).copied();
        figures.waited = failures.iter().filter(|latency| **latency > AT_ONCE).count();
        figures.failed_later = failures.len();
        figures
    }

    fn count(&mut self, op: &Op) {
        match &op.outcome {
            Outcome::Answered(answer) if answer.retry.is_none() => self.allowed += 1,
            Outcome::Answered(_) => self.denied += 1,
            Outcome::NotDone(failure) => {
                self.failed += 1;
                *self.kinds.entry(*failure).or_default() += 1;
            }
            Outcome::Unknown(_) => self.unknown += 1,
        }
    }
}

fn normal_after(ops: &[Op], end: u64) -> Option<u64> {
    let mut by_process: BTreeMap<u16, Vec<&Op>> = BTreeMap::new();
    for op in ops.iter().filter(|op| op.invoked >= end) {
        by_process.entry(op.process).or_default().push(op);
    }
    let mut latest = None;
    for ops in by_process.values_mut() {
        ops.sort_by_key(|op| op.completed);
        let first = ops.windows(10).find(|ops| ops.iter().all(|op| op.answer().is_some()))?[0];
        latest = latest.max(Some(first.completed - end));
    }
    latest
}

/// A call that is refused at once does not take longer, not even on a machine that is busy.
const AT_ONCE: u64 = 20_000;
