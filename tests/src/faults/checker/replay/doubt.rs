//! Charges of which nobody knows whether they were made, nor when.

use std::collections::BTreeSet;

use portcullis_core::{Policy, State, Timestamp};

use super::super::super::{Family, Op};
use super::super::clock::Clock;
use super::at;

pub(super) struct Doubt<'a> {
    family: Family,
    clock: &'a Clock,
    answered: &'a [&'a Op],
    /// By the time of the question.
    doubtful: &'a [&'a Op],
    /// Instants of units in a log that no answer accounts for.
    unaccounted: BTreeSet<u64>,
}

impl<'a> Doubt<'a> {
    pub(super) fn new(
        family: Family,
        clock: &'a Clock,
        answered: &'a [&'a Op],
        doubtful: &'a [&'a Op],
    ) -> Self {
        let mut unaccounted = BTreeSet::new();
        if family == Family::Log {
            for answer in answered.iter().filter_map(|op| op.answer()).filter(|answer| answer.reset_after > 0)
            {
                for wait in [answer.reset_after, answer.next_after] {
                    unaccounted.extend((answer.at + wait).checked_sub(family.period()));
                }
            }
            for op in answered.iter().filter(|op| op.charged() > 0) {
                unaccounted.remove(&at(op));
            }
        }
        Self { family, clock, answered, doubtful, unaccounted }
    }

    pub(super) fn is_too_much(&self) -> bool {
        self.doubtful.len() > 64
    }

    /// The states that a doubtful charge between the instant `since` and an answer can lead to, and which were charged
    /// then: of those with one cost always the oldest, which could be charged earliest.
    pub(super) fn charges(
        &self,
        policy: &Policy,
        charged: u64,
        state: Option<&State>,
        since: u64,
        answer: usize,
    ) -> Vec<(u64, Option<State>)> {
        let next = self.answered[answer];
        let clock = self.clock.index(next);
        let left: Vec<usize> = (0..self.doubtful.len()).filter(|index| charged & (1 << index) == 0).collect();
        let units: u64 = left.iter().map(|index| self.doubtful[*index].doubtful()).sum();
        let instants = self.instants(next, units);
        // Before the clock was set back it may have been any time.
        let since = if since > at(next) { 0 } else { since };
        let (mut costs, mut found) = (BTreeSet::new(), Vec::new());
        for index in left {
            let op = self.doubtful[index];
            let earliest = self.clock.earliest(clock, op.invoked).max(since);
            if earliest > at(next) || !costs.insert(op.cost) {
                continue;
            }
            for instant in instants.range(earliest..=at(next)) {
                let now = Timestamp::from_micros(*instant);
                let ruling = policy.strategy().rule(state, now, op.cost);
                if ruling.admitted {
                    let mut after = state.cloned();
                    policy.strategy().conclude(&mut after, now, op.cost, ruling, true);
                    found.push((charged | (1 << index), after));
                }
            }
        }
        found
    }

    /// The instants of the next charge, one of `units` in doubt, that make a difference to the next answer: the latest
    /// possible, and those that its figures give away.
    fn instants(&self, next: &Op, units: u64) -> BTreeSet<u64> {
        let mut instants = BTreeSet::from([at(next)]);
        let Some(answer) = next.answer() else { return instants };
        let end = answer.at + answer.reset_after;
        if let Some(interval) = self.family.interval() {
            // An empty meter is filled from the instant on, and ends so much later.
            instants
                .extend((1..=units).filter_map(|more| end.checked_sub((next.charged() + more) * interval)));
        }
        instants.extend(self.unaccounted.range(..=answer.at));
        instants
    }
}
