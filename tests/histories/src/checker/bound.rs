//! Rules 1 and 5: the bound on admitted units.

use std::collections::BTreeMap;

use super::super::{Family, KeyId, Op};
use super::freed::max_freed_units;
use super::{Loss, Violation, drift};

/// Returns the largest excess over the allowed units in any interval, and a violation if losses of state do not excuse it.
pub(super) fn check(key_id: KeyId, ops: &[&Op], losses: &[Loss]) -> (u64, Option<Violation>) {
    let mut admitted: Vec<&Op> = ops.iter().copied().filter(|op| op.admitted() > 0).collect();
    admitted.sort_by_key(|op| op.completed);
    let freed: Vec<(&Op, u64)> = ops
        .iter()
        .map(|op| (*op, max_freed_units(key_id.family, op)))
        .filter(|(_, units)| *units > 0)
        .collect();
    // Units freed in an interval may be admitted again in it.
    let freed_within = |from: u64, to: u64| -> u64 {
        let within = |op: &Op| op.invoked <= to && (op.completed >= from || op.is_unknown());
        freed.iter().filter(|(op, _)| within(op)).map(|(_, units)| units).sum()
    };
    let in_lease = max_in_lease(key_id.family, ops);
    let (mut excess, mut worst) = (0, None);
    for first in &admitted {
        let mut sum = 0;
        // Only calls that began and ended within the interval were certainly charged within it.
        for op in admitted.iter().filter(|op| op.invoked >= first.invoked) {
            sum += op.admitted();
            let span = op.completed - first.invoked;
            let allowed = allowed_units(key_id.family, span + drift(span)) + in_lease;
            if sum.saturating_sub(allowed) <= excess {
                continue;
            }
            let freed = freed_within(first.invoked, op.completed);
            if sum.saturating_sub(allowed + freed) > excess {
                excess = sum - allowed - freed;
                worst = Some((first.invoked, op.completed, sum, allowed, freed));
            }
        }
    }
    let excused = key_id.family.capacity() * losses.len() as u64;
    let violation = worst.filter(|_| excess > excused).map(|(from, to, sum, allowed, freed)| {
        let what = format!(
            "{sum} units were admitted within {} us from {from}; the policy allows {allowed}, {in_lease} of them in \
             lease, refunds freed at most {freed}, and {} losses of state excuse {excused} more",
            to - from,
            losses.len()
        );
        let rule = if key_id.family.max_lease() == 0 { 1 } else { 5 };
        Violation::at(rule, key_id, ops, to, what)
    });
    (excess, violation)
}

/// The most units that the callers together have in lease at one instant. A process of which a call failed may have a return in
/// doubt, which still runs when it has another lease.
fn max_in_lease(family: Family, ops: &[&Op]) -> u64 {
    let mut failed: BTreeMap<u16, bool> = BTreeMap::new();
    for op in ops {
        *failed.entry(op.process).or_default() |= op.answer().is_none();
    }
    failed.values().map(|failed| family.max_lease() * (1 + u64::from(*failed))).sum()
}

/// The most units that a policy allows in an interval of `span` microseconds.
fn allowed_units(family: Family, span: u64) -> u64 {
    let most = family.capacity();
    match (family, family.interval()) {
        (_, Some(interval)) => most + span / interval,
        (Family::Log, _) => most * (span / family.period() + 1),
        // The interval may overlap one window more than fits into it.
        _ => most * (span / family.period() + 2),
    }
}
