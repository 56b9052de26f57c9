//! Rules 1 and 5: the bound on admitted units.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use portcullis_core::FailureMode;

use super::super::{Call, Family, KeyId, Op};
use super::freed::max_freed_units;
use super::{Loss, Violation, drift};

/// Returns the largest excess over the allowed units in any interval, and a violation if losses of state do not excuse it.
pub(super) fn check(key_id: KeyId, ops: &[&Op], losses: &[Loss]) -> (u64, Option<Violation>) {
    let in_lease = max_in_lease(key_id.family, ops) + max_pending(key_id.family, ops);
    let ops: &[&Op] = &ops.iter().copied().filter(|op| !op.is_degraded()).collect::<Vec<_>>();
    let allowed = |span| allowed_units(key_id.family, span) + in_lease;
    let Some(excess) = worst(key_id.family, ops, allowed) else { return (0, None) };
    let excused = key_id.family.capacity() * losses.len() as u64;
    let violation = (excess.units > excused).then(|| {
        let what = format!(
            "{excess}, {in_lease} of the allowed units in lease, and {} losses of state excuse {excused} more",
            losses.len()
        );
        let rule = if key_id.family.max_lease() == 0 { 1 } else { 5 };
        Violation::at(rule, key_id, ops, excess.to, what)
    });
    (excess.units, violation)
}

/// Returns the first process that has admitted more by itself than its share of the policy allows.
pub(super) fn check_local(key_id: KeyId, ops: &[&Op]) -> Option<Violation> {
    let family = key_id.family;
    let FailureMode::Local { instances } = family.policy().failure_mode() else { return None };
    let (burst, interval) = (family.policy().share()?.strategy().limit(), family.interval()?);
    let allowed = |span| burst + span / (interval * u64::from(instances.get()));
    let processes: BTreeSet<u16> = ops.iter().map(|op| op.process).collect();
    processes.into_iter().find_map(|process| {
        let own: Vec<&Op> =
            ops.iter().copied().filter(|op| op.process == process && op.is_degraded()).collect();
        let excess = worst(family, &own, allowed)?;
        let what = format!("{excess}, by process {process} while the servers failed");
        Some(Violation::at(5, key_id, &own, excess.to, what))
    })
}

/// The interval with the largest excess over the allowed units.
struct Excess {
    units: u64,
    from: u64,
    to: u64,
    admitted: u64,
    allowed: u64,
    freed: u64,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, admitted, allowed, freed, .. } = self;
        write!(
            f,
            "{admitted} units were admitted within {} us from {from}; the policy allows {allowed}, refunds freed at most \
             {freed}",
            to - from
        )
    }
}

/// Returns the interval with the largest excess, if any, over what is `allowed` in one of its length.
fn worst(family: Family, ops: &[&Op], allowed: impl Fn(u64) -> u64) -> Option<Excess> {
    let mut admitted: Vec<&Op> = ops.iter().copied().filter(|op| op.admitted() > 0).collect();
    admitted.sort_by_key(|op| op.completed);
    let freed: Vec<(&Op, u64)> =
        ops.iter().map(|op| (*op, max_freed_units(family, op))).filter(|(_, units)| *units > 0).collect();
    // Units freed in an interval may be admitted again in it.
    let freed_within = |from: u64, to: u64| -> u64 {
        let within = |op: &Op| op.invoked <= to && (op.completed >= from || op.is_unknown());
        freed.iter().filter(|(op, _)| within(op)).map(|(_, units)| units).sum()
    };
    let mut worst = None;
    for first in &admitted {
        let mut sum = 0;
        // Only calls that began and ended within the interval were certainly charged within it.
        for op in admitted.iter().filter(|op| op.invoked >= first.invoked) {
            sum += op.admitted();
            let (from, to) = (first.invoked, op.completed);
            let allowed = allowed(to - from + drift(to - from));
            let known = worst.as_ref().map_or(0, |excess: &Excess| excess.units);
            if sum.saturating_sub(allowed) <= known {
                continue;
            }
            let freed = freed_within(from, to);
            let units = sum.saturating_sub(allowed + freed);
            if units > known {
                worst = Some(Excess { units, from, to, admitted: sum, allowed, freed });
            }
        }
    }
    worst
}

/// The most units of requests that were paid from leases, or charged together with one, and that a policy without a lease has yet to
/// decide about. They count in addition to what the processes have in lease.
pub(super) fn max_pending(family: Family, ops: &[&Op]) -> u64 {
    if family.max_lease() == 0 || !Family::MIXED.contains(&family) {
        return 0;
    }
    let mut by_process: BTreeMap<u16, Vec<(u64, bool, u64)>> = BTreeMap::new();
    for op in ops {
        let Call::Check(cost) = op.call else { continue };
        // A decision goes on without its caller.
        let end = if op.answer().is_some() { op.completed } else { op.completed.saturating_add(PENDING) };
        let changes = by_process.entry(op.process).or_default();
        changes.extend([(op.invoked, false, cost), (end, true, cost)]);
    }
    let most = |changes: &mut Vec<(u64, bool, u64)>| {
        // At one instant, beginnings first.
        changes.sort_unstable();
        let (mut pending, mut most) = (0, 0);
        for (_, ends, cost) in changes {
            pending = if *ends { pending - *cost } else { pending + *cost };
            most = most.max(pending);
        }
        most
    };
    by_process.values_mut().map(most).sum()
}

/// The time after which a decision has ended whose caller has gone away, or which has failed, with the refunds of its charges.
const PENDING: u64 = 1_000_000;

/// The most units that the callers together have in lease at one instant. A process with a call that has failed, or that it has
/// decided by itself, may have a return in doubt, which still runs when it has another lease.
pub(super) fn max_in_lease(family: Family, ops: &[&Op]) -> u64 {
    let mut failed: BTreeMap<u16, bool> = BTreeMap::new();
    for op in ops {
        *failed.entry(op.process).or_default() |= op.answer().is_none() || op.is_degraded();
    }
    failed.values().map(|failed| family.max_lease() * (1 + u64::from(*failed))).sum()
}

/// The most units that a policy allows in an interval of `span` microseconds.
fn allowed_units(family: Family, span: u64) -> u64 {
    let most = family.capacity();
    match (family, family.interval()) {
        (_, Some(interval)) => most + span / interval,
        (Family::Log, _) => most * (span / family.period() + 1),
        // At most the limit in all slots but one, and no more than in other windows, which are the next arm.
        (Family::LeasedSliding, _) => {
            let slots = u64::from(Family::SLOTS);
            let exact = family.period() / slots * (slots - 1);
            most * (span / exact + 1).min(span / family.period() + 2)
        }
        // The interval may overlap one window more than fits into it.
        _ => most * (span / family.period() + 2),
    }
}
