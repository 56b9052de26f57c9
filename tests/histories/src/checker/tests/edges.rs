//! Rules 1 to 3 at their exact bounds, one microsecond and one unit to either side.

use portcullis_core::Retry;

use super::super::super::{Answer, AnsweredBy};
use super::*;

const ELAPSED: u64 = 1_000_000;
/// An instant of the store's clock, at a boundary of all windows.
const NOON: u64 = 1_767_225_600_000_000;

fn op(family: Family, cost: u64, invoked: u64, completed: u64, outcome: Outcome) -> Op {
    let key_id = KeyId { rotation: 0, family, caller: 0 };
    Op { process: 0, key_id, call: Call::Check(cost), invoked, completed, outcome }
}

fn answered(at: u64, retry: Option<Retry>) -> Outcome {
    let charged = retry.is_none();
    let (limit, remaining, reset_after, next_after) = (0, 0, 0, 0);
    let (position, uncharged) = (Position::default(), 0);
    Outcome::Answered(Answer {
        at,
        charged,
        by: AnsweredBy::Server,
        blocked: false,
        position,
        uncharged,
        delay: None,
        retry,
        limit,
        remaining,
        reset_after,
        next_after,
    })
}

/// Applies rule 1 to two charges at the two ends of an interval. Returns the excess and whether it is a violation.
fn excess(family: Family, span: u64, units: u64, losses: &[Loss]) -> (u64, bool) {
    let charge = |cost, invoked, completed| op(family, cost, invoked, completed, answered(NOON, None));
    let first = charge(units / 2, ELAPSED, ELAPSED + 1);
    let last = charge(units.div_ceil(2), ELAPSED + span - 1, ELAPSED + span);
    let (excess, violation) = bound::check(first.key_id, &[&last, &first], losses);
    (excess, violation.is_some())
}

#[test]
fn the_bound_is_exact_to_the_unit_and_microsecond() {
    // At `brings` the span and its drift add up to an interval or a period.
    for (family, brings, at_once, later) in [
        (Family::Spaced, 248_752, 5, 6),
        (Family::Bucket, 123_877, 12, 13),
        (Family::Slow, 48_952, 1, 2),
        (Family::Waiting, 123_877, 12, 13),
        (Family::Window, 1_997_003, 20, 30),
        (Family::Log, 2_996_004, 80, 160),
    ] {
        assert_eq!(excess(family, brings - 1, at_once + 1, &[]), (1, true), "{family:?}");
        assert_eq!(excess(family, brings, later, &[]), (0, false), "{family:?}");
        assert_eq!(excess(family, brings, later + 1, &[]), (1, true), "{family:?}");
    }
}

#[test]
fn a_loss_excuses_exactly_one_burst() {
    let loss = at_any_time(Extent::All);
    for (family, at_once) in [
        (Family::Spaced, 5),
        (Family::Bucket, 12),
        (Family::Slow, 1),
        (Family::Waiting, 12),
        (Family::Window, 20),
        (Family::Log, 80),
    ] {
        let most = family.capacity();
        for losses in [&[loss][..], &[loss, loss]] {
            let excused = most * losses.len() as u64;
            assert_eq!(excess(family, 10, at_once + excused, losses), (excused, false), "{family:?}");
            assert_eq!(excess(family, 10, at_once + excused + 1, losses), (excused + 1, true), "{family:?}");
        }
    }
}

/// Whether a denial of one unit, `later` microseconds after the charges at noon, violates rule 2.
fn is_without_cause(family: Family, charged: &[(u64, Outcome)], later: u64) -> bool {
    let charge =
        |(units, outcome): &(u64, Outcome)| op(family, *units, ELAPSED - 1, ELAPSED, outcome.clone());
    let earlier: Vec<Op> = charged.iter().map(charge).collect();
    let wait = Retry::After(std::time::Duration::from_millis(1));
    let denied = op(family, 1, ELAPSED + later, ELAPSED + later + 1, answered(NOON + later, Some(wait)));
    let ops: Vec<&Op> = earlier.iter().chain([&denied]).collect();
    cause::check(denied.key_id, &ops, &[]).is_some()
}

#[test]
fn charges_explain_a_denial_to_the_last_microsecond() {
    // A meter refills one unit after its interval and the drift in it.
    for (family, freed) in [
        (Family::Spaced, 251_251),
        (Family::Bucket, 126_126),
        (Family::Slow, 51_051),
        (Family::Waiting, 126_126),
        (Family::Window, 2_000_000),
        (Family::Log, 3_000_000),
    ] {
        let full = [(family.capacity(), answered(NOON, None))];
        assert!(!is_without_cause(family, &full, freed - 1), "{family:?}");
        assert!(is_without_cause(family, &full, freed), "{family:?}");
    }
}

#[test]
fn doubtful_units_explain_a_denial_once() {
    let unknown = || Outcome::Unknown(Failure::TimedOut);
    for family in Family::BUSY {
        let most = family.capacity();
        let almost = [(most - 3, answered(NOON, None)), (2, unknown())];
        assert!(is_without_cause(family, &almost, 10), "{family:?}");
        let full = [(most - 3, answered(NOON, None)), (3, unknown())];
        assert!(!is_without_cause(family, &full, 10), "{family:?}");
        let undone = [(most - 3, answered(NOON, None)), (3, Outcome::NotDone(Failure::Unavailable))];
        assert!(is_without_cause(family, &undone, 10), "{family:?}");
    }
}

#[test]
fn later_calls_do_not_explain_a_denial() {
    let wait = Some(Retry::After(std::time::Duration::from_millis(1)));
    for family in Family::BUSY {
        let denied = op(family, 1, ELAPSED, ELAPSED + 100, answered(NOON, wait));
        for (invoked, explains) in [(ELAPSED + 100, true), (ELAPSED + 101, false)] {
            let charge = op(family, family.capacity(), invoked, invoked + 100, answered(NOON + 100, None));
            let violation = cause::check(denied.key_id, &[&denied, &charge], &[]);
            assert_eq!(violation.is_none(), explains, "{family:?}");
        }
    }
}

#[test]
fn a_clock_step_leaves_a_meter_full_at_worst() {
    let wait = Some(Retry::After(std::time::Duration::from_millis(1)));
    let hour = 3_600_000_000;
    let family = Family::Spaced;
    let before = op(family, 0, ELAPSED - 1, ELAPSED, answered(NOON, None));
    let step = op(family, 0, ELAPSED + 1, ELAPSED + 2, answered(NOON + hour, None));
    for (later, is_explained) in [(251_250, true), (251_251, false)] {
        let instant = ELAPSED + 2 + later;
        let denied = op(family, 1, instant, instant + 1, answered(NOON + hour + later, wait));
        let violation = cause::check(denied.key_id, &[&before, &step, &denied], &[]);
        assert_eq!(violation.is_none(), is_explained, "{later}");
    }
}

#[test]
fn charges_after_a_loss_are_counted() {
    let mut sim = Simulation::new(Family::Count);
    (0..10).for_each(|_| sim.check(1_000, 1));
    let loss = Loss { from: 0, to: sim.ops[5].invoked, extent: Extent::All };
    for (counted, expected) in [(3, &[3][..]), (4, &[]), (10, &[]), (11, &[3])] {
        let ops: Vec<&Op> = sim.ops.iter().collect();
        let violation = count::check(sim.key_id, &ops, &[loss], counted);
        assert_eq!(violation.iter().map(|violation| violation.rule).collect::<Vec<_>>(), expected);
    }
}
