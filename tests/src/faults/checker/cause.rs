//! Rule 2: no denial without a cause.

use portcullis_core::Retry;

use super::super::{Answer, Family, Op, Spot};
use super::clock::Clock;
use super::{Violation, drift};

/// Finds the first denial that nothing accounts for.
pub(super) fn check(spot: Spot, ops: &[&Op]) -> Option<Violation> {
    let clock = Clock::of(ops);
    let excuse = 2 * spot.family.interval().map_or(spot.family.period(), |each| each * spot.family.most());
    for denied in ops {
        let Some(answer) = denied.answer() else { continue };
        // A clock that steps back holds time still: no key is shut for more than two periods, or twice the time to full.
        let stepped = clock
            .steps()
            .any(|step| denied.completed >= step && denied.invoked <= step.saturating_add(excuse));
        if !matches!(answer.retry, Some(Retry::After(_))) || stepped {
            continue;
        }
        let most = spot.family.most();
        if used(spot.family, ops, denied, answer) + u64::from(denied.cost) <= most {
            let what = format!("{} units were denied at {}, although they fit", denied.cost, answer.at);
            return Some(Violation::at(2, spot, ops, denied.invoked, what));
        }
    }
    None
}

/// The most units that can have been in use, with everything in doubt charged as late as can be.
fn used(family: Family, ops: &[&Op], denied: &Op, answer: &Answer) -> u64 {
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
    let gap = |op: &Op| {
        let span = denied.invoked.saturating_sub(op.completed);
        if op.answer().is_some() { span.saturating_sub(drift(span)) } else { 0 }
    };
    let mut charges: Vec<(u64, u64)> =
        earlier().map(|(op, charged, doubtful)| (gap(op), charged + doubtful)).collect();
    charges.sort_unstable();
    let (mut sum, mut level) = (0, 0_u64);
    for (gap, units) in charges {
        sum += units * interval;
        level = level.max(sum.saturating_sub(gap));
    }
    level.div_ceil(interval)
}
