//! The units that a correction frees.

use super::super::{Correction, Family, Op};

/// The maximum that an answered correction has freed. For a meter in microseconds: the part of each run after the instant at
/// which the server ran the correction. Otherwise in units: the units of the runs that counted at that instant.
pub(super) fn freed(family: Family, op: &Op) -> u64 {
    let (Some(correction), Some(answer)) = (op.correction(), op.answer()) else { return 0 };
    freed_at(family, correction, answer.at)
}

/// The maximum that a correction has freed if it ran at the given instant of the store's clock.
pub(super) fn freed_at(family: Family, correction: &Correction, at: u64) -> u64 {
    let runs = correction.refund().runs();
    runs.map(|run| {
        let units = run.units;
        match family.interval() {
            Some(interval) => run.position.micros.saturating_sub(at).min(units * interval),
            None if counts(family, run.position.micros, at) => units,
            None => 0,
        }
    })
    .sum()
}

/// The most units that a correction has freed, rounded up; all units of its runs if it is unknown whether it ran, or if they may
/// have returned to a lease, from which they are spent again even if the store has replenished them.
pub(super) fn max_freed_units(family: Family, op: &Op) -> u64 {
    let named = || op.correction().map_or(0, |it| it.refund().runs().map(|run| run.units).sum());
    match (op.answer(), family.interval()) {
        (None, _) => named(),
        (Some(_), _) if family.max_lease() > 0 => named(),
        (Some(_), Some(interval)) => freed(family, op).div_ceil(interval),
        (Some(_), None) => freed(family, op),
    }
}

/// Whether units charged at a position still count at an instant, for windows and the log.
pub(super) fn counts(family: Family, position: u64, at: u64) -> bool {
    match family {
        Family::Log => position + family.period() > at,
        _ => position / family.period() == at / family.period(),
    }
}
