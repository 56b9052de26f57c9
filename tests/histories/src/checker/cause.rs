//! Rule 2: every denial has a cause.

use portcullis_core::Retry;

use super::super::{Answer, Call, Family, KeyId, Op};
use super::clock::Clock;
use super::freed::{counts, freed, freed_at};
use super::{Loss, Violation, drift};

/// Returns the first denial without a cause.
pub(super) fn check(key_id: KeyId, ops: &[&Op], losses: &[Loss]) -> Option<Violation> {
    let clock = Clock::of(ops);
    for denied in ops {
        let (Some(answer), Call::Check(cost)) = (denied.answer(), &denied.call) else { continue };
        if !matches!(answer.retry, Some(Retry::After(_))) || is_excused(key_id.family, &clock, denied) {
            continue;
        }
        let usage = Usage { family: key_id.family, clock: &clock, ops, losses, denied, answer };
        if usage.most() + *cost <= key_id.family.capacity() {
            let what = format!("{cost} units were denied at {}, although they fit", answer.at);
            return Some(Violation::at(2, key_id, ops, denied.invoked, what));
        }
    }
    None
}

/// A clock that steps back denies a key for at most two periods. It leaves a meter full at worst, which is no excuse.
fn is_excused(family: Family, clock: &Clock, denied: &Op) -> bool {
    let excuse = if family.interval().is_some() { 0 } else { 2 * family.period() };
    clock.steps().any(|step| denied.completed >= step && denied.invoked <= step.saturating_add(excuse))
}

/// Computes the units that can have been in use at a denial.
struct Usage<'a> {
    family: Family,
    clock: &'a Clock,
    ops: &'a [&'a Op],
    losses: &'a [Loss],
    denied: &'a Op,
    answer: &'a Answer,
}

impl<'a> Usage<'a> {
    /// The most units that can have been in use, with all calls in doubt charged as late as possible.
    fn most(&self) -> u64 {
        match self.family.interval() {
            Some(interval) => self.level(interval).div_ceil(interval),
            None => self.counted(),
        }
    }

    fn counted(&self) -> u64 {
        let still_counts =
            |op: &Op| op.answer().is_none_or(|other| counts(self.family, other.at, self.answer.at));
        let charges = self.charges().filter(|(op, _)| still_counts(op));
        let units: u64 = charges.map(|(_, units)| units).sum();
        let corrections = self.corrections().filter_map(Op::correction);
        units.saturating_sub(corrections.map(|it| freed_at(self.family, it, self.answer.at)).sum())
    }

    /// The highest level of a meter in microseconds: the maximum, over all intervals that end at the denial, of what the interval
    /// has added less its length.
    fn level(&self, interval: u64) -> u64 {
        let span = |instant: u64| self.denied.invoked.saturating_sub(instant);
        let answered = |op: &Op| if op.answer().is_some() { span(op.completed) } else { 0 };
        let raise = |units: u64| i128::from(units * interval);
        // Sorted by time, the latest first; at one instant, charges first. A charge is placed at the end of its call and a
        // refund at the beginning of its call, so every refund placed after a charge did run after it.
        let mut changes: Vec<(u64, bool, i128)> =
            self.charges().map(|(op, units)| (answered(op), false, raise(units))).collect();
        let steps = self.clock.steps().filter(|step| *step <= self.denied.completed);
        changes.extend(steps.map(|step| (span(self.cut_after(step)), false, raise(self.family.capacity()))));
        let lower = |op: &Op| -i128::from(freed(self.family, op));
        changes.extend(self.corrections().map(|op| (span(op.invoked), true, lower(op))));
        changes.sort_unstable();
        let (mut sum, mut level) = (0, 0);
        for (span, _, change) in changes {
            sum += change;
            level = level.max(sum - i128::from(span.saturating_sub(drift(span))));
        }
        u64::try_from(level).unwrap_or(0)
    }

    /// The latest instant at which a level raised by a clock step was cut to the burst: the first call that is not a refund
    /// cuts it.
    fn cut_after(&self, step: u64) -> u64 {
        let refunds = |op: &Op| op.correction().is_some_and(|correction| correction.missing() == 0);
        let cuts = self.ops.iter().filter(|op| op.completed >= step && op.answer().is_some() && !refunds(op));
        cuts.map(|op| op.completed).min().unwrap_or(u64::MAX)
    }

    /// The calls that may have charged units before the denial, with those units.
    fn charges(&self) -> impl Iterator<Item = (&'a Op, u64)> {
        let denied = self.denied;
        let others =
            self.ops.iter().filter(move |op| !std::ptr::eq(**op, denied) && op.invoked <= denied.completed);
        others.map(|op| (*op, op.charged() + op.doubtful())).filter(|(_, units)| *units > 0)
    }

    /// The corrections that had certainly run before the denial and were not lost afterwards. After a clock step there are no
    /// such corrections: the state may be cut after the correction.
    fn corrections(&self) -> impl Iterator<Item = &'a Op> {
        let (denied, losses, steps) = (self.denied, self.losses, self.clock.steps().count());
        self.ops.iter().copied().filter(move |op| {
            let is_kept = losses.iter().all(|loss| loss.to < op.invoked || loss.from > denied.completed);
            steps == 0 && is_kept && op.completed <= denied.invoked && op.answer().is_some()
        })
    }
}
