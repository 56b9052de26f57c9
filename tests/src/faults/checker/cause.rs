//! Rule 2: no denial without a cause.

use portcullis_core::Retry;

use super::super::{Answer, Call, Family, KeyId, Op};
use super::clock::Clock;
use super::freed::{counts, freed, freed_at};
use super::{Loss, Violation, drift};

/// Finds the first denial that nothing accounts for.
pub(super) fn check(spot: KeyId, ops: &[&Op], losses: &[Loss]) -> Option<Violation> {
    let clock = Clock::of(ops);
    for denied in ops {
        let (Some(answer), Call::Check(cost)) = (denied.answer(), &denied.call) else { continue };
        if !matches!(answer.retry, Some(Retry::After(_))) || is_excused(spot.family, &clock, denied) {
            continue;
        }
        let used = Use { family: spot.family, clock: &clock, ops, losses, denied, answer };
        if used.most() + u64::from(*cost) <= spot.family.most() {
            let what = format!("{cost} units were denied at {}, although they fit", answer.at);
            return Some(Violation::at(2, spot, ops, denied.invoked, what));
        }
    }
    None
}

/// A clock that is set back shuts no key for more than two periods; a meter it leaves full at worst.
fn is_excused(family: Family, clock: &Clock, denied: &Op) -> bool {
    let excuse = if family.interval().is_some() { 0 } else { 2 * family.period() };
    clock.steps().any(|step| denied.completed >= step && denied.invoked <= step.saturating_add(excuse))
}

/// The units that can have been in use when something was denied.
struct Use<'a> {
    family: Family,
    clock: &'a Clock,
    ops: &'a [&'a Op],
    losses: &'a [Loss],
    denied: &'a Op,
    answer: &'a Answer,
}

impl<'a> Use<'a> {
    /// The most units that can have been in use, with everything in doubt charged as late as can be.
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

    /// In microseconds. The level is what any stretch of time up to the denial has added at most, less its length.
    fn level(&self, interval: u64) -> u64 {
        let span = |instant: u64| self.denied.invoked.saturating_sub(instant);
        let answered = |op: &Op| if op.answer().is_some() { span(op.completed) } else { 0 };
        let raise = |units: u64| i128::from(units * interval);
        // The latest first; at one instant, charges first. A charge is placed at the end of its call and a refund at the
        // beginning of its own, so every refund that is placed after a charge did run after it.
        let mut changes: Vec<(u64, bool, i128)> =
            self.charges().map(|(op, units)| (answered(op), false, raise(units))).collect();
        let steps = self.clock.steps().filter(|step| *step <= self.denied.completed);
        changes.extend(steps.map(|step| (span(self.cut_after(step)), false, raise(self.family.most()))));
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

    /// When a level that only a step of the clock explains was cut to the burst at the latest: by the first call that is
    /// not a refund.
    fn cut_after(&self, step: u64) -> u64 {
        let refunds = |op: &Op| op.correction().is_some_and(|correction| correction.missing() == 0);
        let cuts = self.ops.iter().filter(|op| op.completed >= step && op.answer().is_some() && !refunds(op));
        cuts.map(|op| op.completed).min().unwrap_or(u64::MAX)
    }

    /// Everything that may have been charged by then, and how much.
    fn charges(&self) -> impl Iterator<Item = (&'a Op, u64)> {
        let denied = self.denied;
        let others =
            self.ops.iter().filter(move |op| !std::ptr::eq(**op, denied) && op.invoked <= denied.completed);
        others.map(|op| (*op, op.charged() + op.doubtful())).filter(|(_, units)| *units > 0)
    }

    /// The corrections that had certainly run by then and were not lost afterwards. If the clock has stepped, none is
    /// certain: a state that the step cuts may be cut after the correction.
    fn corrections(&self) -> impl Iterator<Item = &'a Op> {
        let (denied, losses, steps) = (self.denied, self.losses, self.clock.steps().count());
        self.ops.iter().copied().filter(move |op| {
            let is_kept = losses.iter().all(|loss| loss.to < op.invoked || loss.from > denied.completed);
            steps == 0 && is_kept && op.completed <= denied.invoked && op.answer().is_some()
        })
    }
}
