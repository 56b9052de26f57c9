//! A longest wait: a charge beyond the burst has a delay, and everything else is as without a wait.

use alloc::vec::Vec;

use super::*;
use crate::algorithm::waits;
use crate::{Refill, TokenBucket};

const SECOND: u64 = 1_000_000;

fn waiting(quota: Quota, burst: u64, micros: u64) -> Meter {
    Meter::new(quota, burst).unwrap().with_wait(micros).unwrap()
}

/// The delays in microseconds of the costs that are admitted at one instant.
fn delays(algorithm: &impl Algorithm<State = Tat>, state: &mut Option<Tat>, now: Timestamp) -> Vec<u64> {
    let mut delays = Vec::new();
    while algorithm.evaluate(state.as_ref(), now, 1).admitted {
        algorithm.charge(state, now, 1);
        let snapshot = algorithm.snapshot(state.as_ref(), now, 1, true);
        delays.push(u64::try_from(snapshot.delay.as_micros()).unwrap());
    }
    delays
}

#[test]
fn units_beyond_the_burst_have_a_delay() {
    let meter = waiting(Quota::per_second(2), 3, SECOND);
    let mut state = None;
    assert_eq!(delays(&meter, &mut state, NOW), [0, 0, 0, SECOND / 2, SECOND]);
    let snapshot = |state: &Option<Tat>, cost, admitted| {
        Algorithm::snapshot(&meter, state.as_ref(), NOW, cost, admitted)
    };
    let denied = snapshot(&state, 1, false);
    assert_eq!((denied.limit, denied.remaining), (3, 0));
    assert_eq!(denied.retry, Some(Retry::After(Duration::from_millis(500))));
    assert_eq!(denied.next_after, Duration::from_millis(1_500), "one unit fits without a delay");
    assert_eq!(denied.reset_after, Duration::from_millis(2_500));
    // A second later there is one slot of half a second, and one of a second.
    assert_eq!(delays(&meter, &mut state, after(SECOND)), [SECOND / 2, SECOND]);
}

#[test]
fn a_wait_just_as_long_as_the_longest_is_admitted() {
    let exact = waiting(Quota::per_second(3), 1, 333_334);
    let state = exact.decide(None, NOW, 1).after;
    assert!(exact.decide(state.as_ref(), NOW, 1).admitted);
    let short = waiting(Quota::per_second(3), 1, 333_333);
    assert!(!short.decide(state.as_ref(), NOW, 1).admitted, "a third of a microsecond is missing");
}

#[test]
fn a_cost_above_the_burst_never_fits() {
    let meter = waiting(Quota::per_second(10), 5, 60 * SECOND);
    let denied = meter.decide(None, NOW, 6);
    let snapshot = Algorithm::snapshot(&meter, denied.after.as_ref(), NOW, 6, denied.admitted);
    assert_eq!((denied.admitted, snapshot.retry), (false, Some(Retry::Never)));
    assert!(meter.span_to_check(6).micros > meter.highest().micros);
    assert!(meter.span(6).micros < meter.highest().micros);
    assert_eq!(meter.span_to_check(5), meter.span(5));
}

#[test]
fn interval_refill_waits_for_the_next_refills() {
    let bucket = TokenBucket::new(Quota::per_second(2)).unwrap().refilled(Refill::Interval);
    let bucket = bucket.with_wait(2 * SECOND + SECOND / 2).unwrap();
    let mut state = None;
    let at = Timestamp::from_micros(NOW.as_micros() + SECOND / 4);
    let (next, last) = (SECOND * 3 / 4, SECOND * 7 / 4);
    assert_eq!(delays(&bucket, &mut state, at), [0, 0, next, next, last, last]);
    let denied = bucket.snapshot(state.as_ref(), at, 1, false);
    assert_eq!(denied.retry, Some(Retry::After(Duration::from_micros(next))));
}

#[test]
fn the_refund_of_the_last_waiter_costs_nothing() {
    let meter = waiting(Quota::per_second(1), 1, 5 * SECOND);
    let mut state = None;
    let charge = |state: &mut Option<Tat>| {
        meter.charge(state, NOW, 1);
        Run { units: 1, position: meter.position(state.as_ref(), NOW) }
    };
    let (_, second, third) = (charge(&mut state), charge(&mut state), charge(&mut state));
    let before = state;
    assert!(!meter.refund(&mut state, NOW, Refund::of(&[second]).if_newest()), "its slot stays empty");
    assert_eq!(state, before);
    assert!(meter.refund(&mut state, NOW, Refund::of(&[third]).if_newest()));
    assert_eq!(delays(&meter, &mut state, NOW)[0], 2 * SECOND);
}

#[test]
fn level_from_a_clock_step_is_cut_to_the_highest() {
    let meter = waiting(Quota::per_second(1), 2, 3 * SECOND);
    let at = |seconds: u64| Tat { micros: after(seconds * SECOND).as_micros(), remainder: 0 };
    let debt = meter.decide(Some(&at(10)), NOW, 0);
    assert_eq!((debt.before, debt.repaired), (Some(at(10)), false));
    let step = meter.decide(Some(&Tat { micros: at(10).micros + 1, remainder: 0 }), NOW, 1);
    assert_eq!((step.admitted, step.before, step.repaired), (false, Some(at(5)), true));
    let (debt, uncharged) = forced(&meter, None, NOW, 12);
    assert_eq!((debt, uncharged), (Some(at(10)), 2));
}

#[test]
fn a_wait_is_kept_where_64_bits_are_too_few() {
    let finest = Quota::new(Quota::MAX_UNITS, Duration::from_micros(7), None).unwrap();
    let meter = waiting(finest, 1, 3_600 * SECOND);
    assert_eq!((Narrow::of(&meter).is_none(), meter.wait()), (true, 3_600 * SECOND));
    assert_eq!(meter.highest().micros, 3_600 * SECOND);
    assert!(waiting(Quota::per(1, MONTH), 800, 0).with_wait(60 * SECOND).is_ok());
    let most = u64::try_from((1_u128 << 51) / MONTH.as_micros()).unwrap();
    let full = Meter::new(Quota::per(1, MONTH), most).unwrap();
    assert_eq!(full.with_wait(u64::from(u32::MAX) << 16), Err(QuotaError::FillsTooSlowly { burst: most }));
}

proptest! {
    #[test]
    fn figures_are_exact_with_a_wait(
        meter in narrow_or_not(), used in 0_u64..300, passed in 0_u64..100_000, cost in 1_u64..110,
    ) {
        let (state, _) = forced(&meter, None, NOW, used);
        waits::are_sufficient_and_tight(&meter, state.as_ref(), after(passed), cost);
    }

    #[test]
    fn requests_proceed_as_those_without_a_wait_fit(
        meter in meters(), micros in 1_u64..3_000_000,
        steps in proptest::collection::vec((0_u64..200_000, 1_u64..5), 1..60),
    ) {
        let Ok(patient) = meter.with_wait(micros) else { return Ok(()) };
        let (mut state, mut other, mut now, mut last) = (None, None, NOW, NOW);
        for (passed, cost) in steps {
            now = now.saturating_add(Duration::from_micros(passed));
            let evaluation = patient.evaluate(state.as_ref(), now, cost);
            if !evaluation.admitted {
                continue;
            }
            patient.charge(&mut state, now, cost);
            let delay = Algorithm::snapshot(&patient, state.as_ref(), now, cost, true).delay;
            prop_assert!(delay <= Duration::from_micros(micros));
            let then = now.saturating_add(delay);
            prop_assert!(then >= last, "requests proceed in the order of their decisions");
            last = then;
            // Without a wait, a request at that instant fits, and one a microsecond earlier does not.
            prop_assert!(meter.evaluate(other.as_ref(), then, cost).admitted);
            let earlier = then.saturating_sub(Duration::from_micros(1));
            if !delay.is_zero() {
                prop_assert!(!meter.evaluate(other.as_ref(), earlier, cost).admitted);
            }
            meter.charge(&mut other, then, cost);
        }
    }
}
