//! Rule 1: how much was admitted.

use super::super::{Family, Op, Spot};
use super::{Loss, Violation, drift};

/// The most units beyond the promise in any stretch, and the violation if no loss of state excuses them.
pub(super) fn check(spot: Spot, ops: &[&Op], losses: &[Loss]) -> (u64, Option<Violation>) {
    let mut charged: Vec<&Op> = ops.iter().copied().filter(|op| op.charged() > 0).collect();
    charged.sort_by_key(|op| op.completed);
    let (mut beyond, mut worst) = (0, None);
    for first in &charged {
        let mut sum = 0;
        // Only what was asked and answered within the stretch was certainly charged within it.
        for op in charged.iter().filter(|op| op.invoked >= first.invoked) {
            sum += op.charged();
            let span = op.completed - first.invoked;
            let promised = promise(spot.family, span + drift(span));
            if sum.saturating_sub(promised) > beyond {
                beyond = sum - promised;
                worst = Some((first.invoked, op.completed, sum, promised));
            }
        }
    }
    let excused = spot.family.most() * losses.len() as u64;
    let violation = worst.filter(|_| beyond > excused).map(|(from, to, sum, promised)| {
        let what = format!(
            "{sum} units were admitted within {} us from {from}, promised are {promised}, and {} losses of state \
             excuse {excused} more",
            to - from,
            losses.len()
        );
        Violation::at(1, spot, ops, to, what)
    });
    (beyond, violation)
}

/// The most in a stretch of `span` microseconds.
fn promise(family: Family, span: u64) -> u64 {
    let most = family.most();
    match (family, family.interval()) {
        (_, Some(interval)) => most + span / interval,
        (Family::Log, _) => most * (span / family.period() + 1),
        // It may touch one window more than fit into it.
        _ => most * (span / family.period() + 2),
    }
}
