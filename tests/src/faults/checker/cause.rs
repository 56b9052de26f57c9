//! Rule 2: no denial without a cause.

use portcullis_core::Retry;

use super::super::{Answer, Family, Op, Spot};
use super::clock::Clock;
use super::{Violation, drift};

/// Finds the first denial that nothing accounts for.
pub(super) fn check(spot: Spot, ops: &[&Op]) -> Option<Violation> {
    let clock = Clock::of(ops);
    for denied in ops {
        let Some(answer) = denied.answer() else { continue };
        if !matches!(answer.retry, Some(Retry::After(_))) || is_excused(spot.family, &clock, denied) {
            continue;
        }
        if used(spot.family, &clock, ops, denied, answer) + u64::from(denied.cost) <= spot.family.most() {
            let what = format!("{} units were denied at {}, although they fit", denied.cost, answer.at);
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

/// The most units that can have been in use, with everything in doubt charged as late as can be.
fn used(family: Family, clock: &Clock, ops: &[&Op], denied: &Op, answer: &Answer) -> u64 {
    let earlier = || {
        let others = ops.iter().filter(|op| !std::ptr::eq(**op, denied) && op.invoked <= denied.completed);
        others
            .map(|op| (op, op.charged(), op.doubtful()))
            .filter(|(_, charged, doubtful)| charged + doubtful > 0)
    };
    let Some(interval) = family.interval() else {
        let counts = |op: &Op| {
            op.answer().is_none_or(|other| match family {
                Family::Log => other.at + family.period() > answer.at,
                _ => other.at / family.period() == answer.at / family.period(),
            })
        };
        return earlier()
            .filter(|(op, ..)| counts(op))
            .map(|(_, charged, doubtful)| charged + doubtful)
            .sum();
    };
    let gap = |instant: u64| {
        let span = denied.invoked.saturating_sub(instant);
        span.saturating_sub(drift(span))
    };
    let answered = |op: &Op| if op.answer().is_some() { gap(op.completed) } else { 0 };
    let mut charges: Vec<(u64, u64)> =
        earlier().map(|(op, charged, doubtful)| (answered(op), charged + doubtful)).collect();
    let steps = clock.steps().filter(|step| *step <= denied.completed);
    charges.extend(steps.map(|step| (gap(step), family.most())));
    charges.sort_unstable();
    let (mut sum, mut level) = (0, 0_u64);
    for (gap, units) in charges {
        sum += units * interval;
        level = level.max(sum.saturating_sub(gap));
    }
    level.div_ceil(interval)
}
