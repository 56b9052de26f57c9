//! Calls with an unknown fate: whether they were carried out, and when.

use std::collections::BTreeSet;

use portcullis_core::{Policy, Retry, State, Timestamp};

use super::super::super::{Call, Correction, Family, Op};
use super::super::clock::Clock;
use super::super::freed::freed_at;
use super::{at, step};

pub(super) struct Doubt<'a> {
    family: Family,
    clock: &'a Clock,
    answered: &'a [&'a Op],
    /// By the time of the question.
    doubtful: &'a [&'a Op],
    /// Instants of units in a log that make a difference to an answer.
    telling: BTreeSet<u64>,
}

impl<'a> Doubt<'a> {
    /// Looks for chains of at most `links` doubtful units in a log, each of which leaves just in time for the next.
    pub(super) fn new(
        family: Family,
        clock: &'a Clock,
        answered: &'a [&'a Op],
        doubtful: &'a [&'a Op],
        links: usize,
    ) -> Self {
        let is_hard = family == Family::Log && !doubtful.is_empty();
        let telling = if is_hard { telling(family.period(), answered, links) } else { BTreeSet::new() };
        Self { family, clock, answered, doubtful, telling }
    }

    pub(super) fn is_too_much(&self) -> bool {
        self.doubtful.len() > 64
    }

    /// The states to which a call in doubt can lead between the instant `since` and an answer, each with the calls that
    /// have been carried out then. Of checks with the same cost only the oldest is tried, as it could run earliest.
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
        // Before the clock was set back it may have been any time.
        let since = if since > at(next) { 0 } else { since };
        // Charges only lower what remains; a refund in doubt may raise it again.
        let may_refund = left.iter().any(|index| self.doubtful[*index].doubtful() == 0);
        let needed = answers.iter().map(|index| before(self.answered[*index])).min().unwrap_or(0);
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
                Call::Check(_) | Call::Settle(_) => instants.range(earliest..=at(next)).copied().collect(),
            };
            for instant in possible {
                let now = Timestamp::from_micros(instant);
                let mut after = state.cloned();
                step::carry_out(policy, &mut after, now, &op.call);
                let now = Timestamp::from_micros(at(next));
                let left = policy.strategy().snapshot(after.as_ref(), now, 0, true).remaining;
                if after.as_ref() != state && u64::from(left) >= needed {
                    found.push((charged | (1 << index), after));
                }
            }
        }
        found
    }

    /// The instants of a correction that make a difference to the next answer: the earliest, the latest, and under a meter
    /// the one at which what the correction still frees accounts for the end of the level in that answer.
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
        instants.extend(self.telling.range(..=answer.at));
        instants
    }
}

/// The least that was remaining before a call.
fn before(op: &Op) -> u64 {
    match op.call {
        Call::Check(_) => op.charged() + op.answer().map_or(0, |answer| u64::from(answer.remaining)),
        Call::Settle(_) => 0,
    }
}

/// The instants of units in a log that the figures give away, and of units that no figure shows but which leave at an
/// instant that matters: the latest for which they are gone.
fn telling(period: u64, answered: &[&Op], links: usize) -> BTreeSet<u64> {
    let answers = || answered.iter().filter_map(|op| op.answer());
    let shown = answers().filter(|answer| answer.reset_after > 0).flat_map(|answer| {
        let retry = match answer.retry {
            Some(Retry::After(wait)) => u64::try_from(wait.as_micros()).unwrap_or(u64::MAX),
            Some(Retry::Never) | None => answer.next_after,
        };
        [answer.reset_after, answer.next_after, retry].map(|wait| answer.at.saturating_add(wait))
    });
    let earlier = |end: u64| end.checked_sub(period);
    let mut telling: BTreeSet<u64> = shown.filter_map(earlier).collect();
    telling.extend(answers().map(|answer| answer.at).filter_map(earlier));
    for _ in 0..links {
        let more: Vec<u64> = telling.iter().copied().filter_map(earlier).collect();
        telling.extend(more);
    }
    telling
}
