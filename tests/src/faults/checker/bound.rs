//! Rule 1: how much was admitted.

use super::super::{Family, KeyId, Op};
use super::freed::most_units;
use super::{Loss, Violation, drift};

/// The most units beyond the promise in any stretch, and the violation if no loss of state excuses them.
pub(super) fn check(spot: KeyId, ops: &[&Op], losses: &[Loss]) -> (u64, Option<Violation>) {
    let mut admitted: Vec<&Op> = ops.iter().copied().filter(|op| op.admitted() > 0).collect();
    admitted.sort_by_key(|op| op.completed);
    let freed: Vec<(&Op, u64)> =
        ops.iter().map(|op| (*op, most_units(spot.family, op))).filter(|(_, units)| *units > 0).collect();
    // Units freed in a stretch may be admitted again in it.
    let freed_within = |from: u64, to: u64| -> u64 {
        let within = |op: &Op| op.invoked <= to && (op.completed >= from || op.is_unknown());
        freed.iter().filter(|(op, _)| within(op)).map(|(_, units)| units).sum()
    };
    let (mut beyond, mut worst) = (0, None);
    for first in &admitted {
        let mut sum = 0;
        // Only what was asked and answered within the stretch was certainly charged within it.
        for op in admitted.iter().filter(|op| op.invoked >= first.invoked) {
            sum += op.admitted();
            let span = op.completed - first.invoked;
            let promised = promise(spot.family, span + drift(span));
            if sum.saturating_sub(promised) <= beyond {
                continue;
            }
            let freed = freed_within(first.invoked, op.completed);
            if sum.saturating_sub(promised + freed) > beyond {
                beyond = sum - promised - freed;
                worst = Some((first.invoked, op.completed, sum, promised, freed));
            }
        }
    }
    let excused = spot.family.most() * losses.len() as u64;
    let violation = worst.filter(|_| beyond > excused).map(|(from, to, sum, promised, freed)| {
        let what = format!(
            "{sum} units were admitted within {} us from {from}, promised are {promised}, at most {freed} were freed \
             by refunds, and {} losses of state excuse {excused} more",
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
