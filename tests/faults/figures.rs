//! Figures on the calls of the workers.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use portcullis_histories::{Call, Failure, Family, Op, Outcome};

use crate::worker::DEADLINE;

/// Figures from the first fault to the return to normal; all times in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) allowed: usize,
    pub(crate) denied: usize,
    pub(crate) failed: usize,
    pub(crate) unknown: usize,
    pub(crate) kinds: BTreeMap<Failure, usize>,
    /// The longest call among those that began before two deadlines of the fault had passed: the call's own and the probe's.
    pub(crate) worst_at_first: u64,
    /// The longest call among those that began later.
    pub(crate) worst_later: u64,
    /// The median duration of the later calls that failed.
    pub(crate) median_failure: Option<u64>,
    /// The later calls that failed, but not at once.
    pub(crate) waited: usize,
    /// The later calls that failed.
    pub(crate) failed_later: usize,
    /// From the last repair until every worker gets ten answers in a row, without those for leased policies.
    pub(crate) normal_after: Option<u64>,
    /// The longest call of the whole run.
    pub(crate) worst: u64,
    pub(crate) corrections: Corrections,
}

/// Refunds and settlements of the whole run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Corrections {
    /// Answered corrections to zero units.
    pub(crate) refunds: usize,
    /// Answered corrections to fewer units.
    pub(crate) lowered: usize,
    /// Answered corrections to more units.
    pub(crate) raised: usize,
    /// Answered corrections of a receipt with several runs.
    pub(crate) joined: usize,
    pub(crate) failed: usize,
    pub(crate) unknown: usize,
}

impl Figures {
    /// Counts the calls of a fault that began at `begin` and was repaired at `end`.
    pub(crate) fn new(ops: &[Op], begin: u64, end: u64) -> Self {
        let mut figures = Self { normal_after: normal_after(ops, end), ..Self::default() };
        let detected = begin + 2 * u64::try_from(DEADLINE.as_micros()).unwrap_or_default();
        let normal = end + figures.normal_after.unwrap_or(u64::MAX / 2);
        let mut failures = Vec::new();
        // Checks under several policies are several operations each, and some of their callers go away.
        let is_counted = |op: &&Op| !Family::MIXED.contains(&op.key_id.family);
        for op in ops.iter().filter(is_counted) {
            figures.worst = figures.worst.max(op.latency());
            figures.corrections.count(op);
            if op.completed < begin || op.invoked > normal {
                continue;
            }
            figures.count(op);
            if op.invoked <= detected {
                figures.worst_at_first = figures.worst_at_first.max(op.latency());
            } else {
                figures.worst_later = figures.worst_later.max(op.latency());
                if !op.is_answered() {
                    failures.push(op.latency());
                }
            }
        }
        failures.sort_unstable();
        figures.median_failure = failures.get(failures.len() / 2).copied();
        figures.waited = failures.iter().filter(|latency| **latency > IMMEDIATE).count();
        figures.failed_later = failures.len();
        figures
    }

    fn count(&mut self, op: &Op) {
        // The shares count checks only, of callers that waited for the answer. What a process enforces by itself, or remembers, is none.
        let is_in_share = matches!(op.call, Call::Check(_)) && !op.is_degraded() && !op.is_remembered();
        if !is_in_share || op.outcome == Outcome::Unknown(Failure::Dropped) {
            return;
        }
        match &op.outcome {
            Outcome::Answered(answer) if answer.retry.is_none() => self.allowed += 1,
            Outcome::Answered(_) => self.denied += 1,
            Outcome::NotDone(failure) => {
                self.failed += 1;
                *self.kinds.entry(*failure).or_default() += 1;
            }
            Outcome::Unknown(_) => self.unknown += 1,
            Outcome::Done(_) => {}
        }
    }
}

impl Corrections {
    fn count(&mut self, op: &Op) {
        let Call::Settle(correction) = &op.call else { return };
        // A release always frees permits, and is counted with them.
        if op.key_id.family == Family::InFlight {
            return;
        }
        match &op.outcome {
            Outcome::NotDone(_) => self.failed += 1,
            Outcome::Unknown(_) => self.unknown += 1,
            Outcome::Done(_) => {}
            Outcome::Answered(_) => {
                self.joined += usize::from(correction.runs.len() > 1);
                match correction.to.cmp(&correction.charged) {
                    _ if correction.to == 0 => self.refunds += 1,
                    Ordering::Less => self.lowered += 1,
                    Ordering::Greater => self.raised += 1,
                    Ordering::Equal => {}
                }
            }
        }
    }
}

impl fmt::Display for Corrections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { refunds, lowered, raised, joined, failed, unknown } = self;
        write!(
            f,
            "{refunds} refunds, {lowered} settlements downwards, {raised} upwards; {joined} of several charges; "
        )?;
        write!(f, "{failed} failed, {unknown} unknown")
    }
}

fn normal_after(ops: &[Op], end: u64) -> Option<u64> {
    let mut by_process: BTreeMap<u16, Vec<&Op>> = BTreeMap::new();
    // An answer to these families may be from a lease or of a remembered denial, which does not show that a server answers.
    let needs_server = |op: &&Op| {
        let family = op.key_id.family;
        family.max_lease() == 0 && family != Family::Remembered && !Family::MIXED.contains(&family)
    };
    for op in ops.iter().filter(|op| op.invoked >= end).filter(needs_server) {
        by_process.entry(op.process).or_default().push(op);
    }
    let mut latest = None;
    for ops in by_process.values_mut() {
        ops.sort_by_key(|op| op.completed);
        let first = ops.windows(10).find(|ops| ops.iter().all(|op| op.is_answered()))?[0];
        latest = latest.max(Some(first.completed - end));
    }
    latest
}

/// The longest duration of a call that fails at once, even on a busy machine.
const IMMEDIATE: u64 = 20_000;
