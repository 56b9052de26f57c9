//! Calls in doubt: whether they ran, and when.

use std::collections::BTreeSet;

use portcullis_core::algorithm::State;
use portcullis_core::{Policy, Retry, Timestamp};

use super::super::super::{Call, Correction, Family, Op};
use super::super::clock::Clock;
use super::super::freed::freed_at;
use super::{at, step};

pub(super) struct Doubt<'a> {
    family: Family,
    clock: &'a Clock,
    answered: &'a [&'a Op],
    /// The calls in doubt, by the time of the call.
    doubtful: &'a [&'a Op],
    /// Instants of units in a log that can affect an answer.
    relevant: BTreeSet<u64>,
}

impl<'a> Doubt<'a> {
    /// Prepares the instants to try. For a log that includes chains of at most `links` doubtful units, each of which leaves
    /// just before the next one enters.
    pub(super) fn new(
        family: Family,
        clock: &'a Clock,
        answered: &'a [&'a Op],
        doubtful: &'a [&'a Op],
        links: usize,
    ) -> Self {
        let is_hard = family == Family::Log && !doubtful.is_empty();
        let relevant =
            if is_hard { relevant_instants(family.period(), answered, links) } else { BTreeSet::new() };
        Self { family, clock, answered, doubtful, relevant }
    }

    pub(super) fn is_too_much(&self) -> bool {
        self.doubtful.len() > 64
    }

    /// The states that a call in doubt can produce between the instant `since` and an answer, each with the mask of the calls
    /// that have run then. Among checks with the same cost only the oldest is tried, because it can run earliest.
    pub(super) fn changes(
        &self,
        policy: &Policy,
        charged: u64,
        state: Option<&State>,
        since: u64,
        answers: &[usize],
    ) -> Vec<(u64, Option<State>)> {
        let Some(next) = answers.first().map(|index| self.answered[*index]) else { return Vec::new() };
        let clock = self.clock.index(next);
        let left: Vec<usize> = (0..self.doubtful.len()).filter(|index| charged & (1 << index) == 0).collect();
        let units: u64 = left.iter().map(|index| self.doubtful[*index].doubtful()).sum();
        let instants = self.instants(next, units);
        // If the clock was set back, the call may have run at any instant before.
        let since = if since > at(next) { 0 } else { since };
        // Charges only lower the remaining units; a refund in doubt may raise them again.
        let may_refund = left.iter().any(|index| self.doubtful[*index].doubtful() == 0);
        let needed =
            answers.iter().map(|index| self.remaining_before(self.answered[*index])).min().unwrap_or(0);
        let needed = if may_refund { 0 } else { needed };
        let (mut costs, mut found) = (BTreeSet::new(), Vec::new());
        for index in left {
            let op = self.doubtful[index];
            let earliest = self.clock.earliest(clock, op.invoked).max(since);
            if earliest > at(next) {
                continue;
            }
            let possible = match &op.call {
                Call::Check(cost) if !costs.insert(*cost) => continue,
                Call::Settle(correction) if correction.missing() == 0 => {
                    self.instants_to_free(correction, state, earliest, next, units)
                }
                _ => instants.range(earliest..=at(next)).copied().collect(),
            };
            for instant in possible {
                let now = Timestamp::from_micros(instant);
                let mut after = state.cloned();
                step::apply(policy, &mut after, now, &op.call);
                let now = Timestamp::from_micros(at(next));
                let left = policy.strategy().snapshot(after.as_ref(), now, 0, true).remaining;
                if after.as_ref() != state && left >= needed {
                    found.push((charged | (1 << index), after));
                }
            }
        }
        found
    }

    /// The instants of a correction that can affect the next answer: the earliest, the latest, and for a meter the one at which
    /// the part that the correction still frees explains the end of the level in that answer.
    fn instants_to_free(
        &self,
        correction: &Correction,
        state: Option<&State>,
        earliest: u64,
        next: &Op,
        units: u64,
    ) -> BTreeSet<u64> {
        let mut instants = BTreeSet::from([earliest, at(next)]);
        let (Some(interval), Some(State::Tat(level)), Some(answer)) =
            (self.family.interval(), state, next.answer())
        else {
            return instants;
        };
        let freed_by = |correction: &Correction| freed_at(self.family, correction, answer.at);
        let end = (answer.at + answer.reset_after + next.correction().map_or(0, freed_by))
            .saturating_sub(next.charged() * interval);
        for more in 0..=units {
            let freed = (level.micros + more * interval).checked_sub(end);
            // The later it runs, the less it frees.
            let (mut low, mut high) = (earliest, at(next));
            while low < high {
                let middle = u64::midpoint(low, high + 1);
                let enough = freed.is_some_and(|freed| freed_at(self.family, correction, middle) >= freed);
                (low, high) = if enough { (middle, high) } else { (low, middle - 1) };
            }
            instants.insert(low);
        }
        instants
    }

    /// The instants of the next charge, one of `units` in doubt, that can affect the next answer: the latest possible, and those
    /// that its figures reveal.
    fn instants(&self, next: &Op, units: u64) -> BTreeSet<u64> {
        let mut instants = BTreeSet::from([at(next)]);
        let Some(answer) = next.answer() else { return instants };
        let end = answer.at + answer.reset_after;
        if let Some(interval) = self.family.interval() {
            // A charge on an empty meter raises the level from its own instant on, so the end of the level reveals that instant.
            instants
                .extend((1..=units).filter_map(|more| end.checked_sub((next.charged() + more) * interval)));
            // So does a denial that cuts the level after a step of the clock.
            instants.extend(end.checked_sub((next.charged() + self.family.capacity()) * interval));
        }
        instants.extend(self.relevant.range(..=answer.at));
        instants
    }

    /// The fewest units that remained before a call.
    fn remaining_before(&self, op: &Op) -> u64 {
        let remaining = op.answer().map_or(0, |answer| answer.remaining);
        match op.call {
            // The units may be slots of requests that wait.
            Call::Check(_) if self.family == Family::Waiting && remaining == 0 => 0,
            Call::Check(_) => op.charged() + remaining,
            _ => 0,
        }
    }
}

/// The instants of units in a log that the figures reveal, and of units that no figure shows but that leave at a relevant
/// instant: the latest instant for which they are gone.
fn relevant_instants(period: u64, answered: &[&Op], links: usize) -> BTreeSet<u64> {
    let answers = || answered.iter().filter_map(|op| op.answer());
    let shown = answers().filter(|answer| answer.reset_after > 0).flat_map(|answer| {
        let retry = match answer.retry {
            Some(Retry::After(wait)) => u64::try_from(wait.as_micros()).unwrap_or(u64::MAX),
            Some(Retry::Unknown | Retry::Never) | None => answer.next_after,
        };
        [answer.reset_after, answer.next_after, retry].map(|wait| answer.at.saturating_add(wait))
    });
    let earlier = |end: u64| end.checked_sub(period);
    let mut relevant: BTreeSet<u64> = shown.filter_map(earlier).collect();
    relevant.extend(answers().map(|answer| answer.at).filter_map(earlier));
    for _ in 0..links {
        let more: Vec<u64> = relevant.iter().copied().filter_map(earlier).collect();
        relevant.extend(more);
    }
    relevant
}
