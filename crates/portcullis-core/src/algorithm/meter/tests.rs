mod refunds;
mod waiting;

use core::time::Duration;

use proptest::prelude::*;

use super::narrow::Narrow;
use super::*;
use crate::Retry;
use crate::algorithm::Algorithm;
use crate::charge::Run;
use crate::refund::Refund;

/// A meter on its own decides like GCRA and the token bucket.
impl MeterAlgorithm for Meter {
    const QUEUES: bool = false;

    fn meter(&self) -> &Meter {
        self
    }
}

fn forced(meter: &Meter, mut state: Option<Tat>, now: Timestamp, units: u64) -> (Option<Tat>, u64) {
    let forced = meter.force_charge(&mut state, now, units);
    (state, forced.uncharged)
}

fn after_refund(meter: &Meter, mut state: Option<Tat>, now: Timestamp, units: u64) -> Option<Tat> {
    let runs = [Run { units, position: meter.position(state.as_ref(), now) }];
    meter.refund(&mut state, now, Refund::of(&runs));
    state
}

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const MONTH: Duration = Duration::from_hours(30 * 24);

fn after(micros: u64) -> Timestamp {
    NOW.saturating_add(Duration::from_micros(micros))
}

#[test]
fn every_bound_has_its_own_error() {
    let most = Quota::MAX_UNITS;
    let finest = Quota::per_second(most);
    assert_eq!(Meter::new(finest, most).unwrap().denominator(), most);
    assert_eq!(Meter::new(finest, most + 1), Err(QuotaError::TooManyUnits { units: most + 1 }));

    let slow = Quota::new(1, MONTH, None).unwrap();
    let most = u64::try_from((1_u128 << 51) / MONTH.as_micros()).unwrap();
    assert!(Meter::new(slow, most).is_ok());
    assert_eq!(Meter::new(slow, most + 1), Err(QuotaError::FillsTooSlowly { burst: most + 1 }));

    assert_eq!(Meter::new(slow, 0), Err(QuotaError::ZeroBurst));
}

#[test]
fn rates_beyond_one_per_microsecond_are_exact() {
    let meter = Meter::new(Quota::per_second(10_000_000), 10).unwrap();
    assert_eq!(meter.capacity(), Span { micros: 1, remainder: 0 });
    let full = meter.decide(None, NOW, 10);
    assert_eq!(full.after, Some(Tat { micros: NOW.as_micros() + 1, remainder: 0 }));
    assert!(!meter.decide(full.after.as_ref(), NOW, 1).admitted);
    assert!(meter.decide(full.after.as_ref(), after(1), 10).admitted);
}

#[test]
fn largest_quotas_are_exact() {
    let most = Quota::MAX_UNITS;
    let fastest = Quota::new(most, Duration::from_micros(1), None).unwrap();
    let longest = Quota::new(most, Quota::MAX_PERIOD, None).unwrap();
    for quota in [fastest, Quota::per_second(most), longest, Quota::new(most - 1, MONTH, None).unwrap()] {
        let meter = Meter::new(quota, most - 1).unwrap();
        let remaining =
            |state: &Option<Tat>, now| Algorithm::snapshot(&meter, state.as_ref(), now, 0, true).remaining;
        let all_but_one = meter.decide(None, NOW, most - 2).after;
        assert_eq!(remaining(&all_but_one, NOW), 1, "{quota}");
        assert!(!meter.decide(all_but_one.as_ref(), NOW, 2).admitted, "{quota}");
        let full = meter.decide(all_but_one.as_ref(), NOW, 1).after;
        assert_eq!(remaining(&full, NOW), 0, "{quota}");
        let denied = meter.decide(full.as_ref(), NOW, 1);
        let wait = Algorithm::snapshot(&meter, denied.after.as_ref(), NOW, 1, false).next_after;
        assert!(!denied.admitted && remaining(&full, NOW.saturating_add(wait)) > 0, "{quota}");
        assert_eq!(remaining(&after_refund(&meter, full, NOW, most - 2), NOW), most - 2, "{quota}");
        let (debt, uncharged) = forced(&meter, full, NOW, u64::MAX);
        assert_eq!(uncharged, u64::MAX - (most - 1), "{quota}");
        assert_eq!(remaining(&after_refund(&meter, debt, NOW, u64::MAX), NOW), most - 1, "{quota}");
    }
}

#[test]
fn span_is_capped_at_twice_the_burst() {
    let thirds = Meter::new(Quota::per_second(3), 2).unwrap();
    let span = |cost| (thirds.span(cost).micros, thirds.span(cost).remainder);
    assert_eq!((span(0), span(1), span(3)), ((0, 0), (333_333, 1), (1_000_000, 0)));
    assert_eq!((span(4), span(5), span(u64::MAX)), ((1_333_333, 1), (1_333_333, 1), (1_333_333, 1)));
}

#[test]
fn remainder_keeps_a_microseconds_fraction() {
    let thirds = Meter::new(Quota::per_second(3), 1).unwrap();
    let state = thirds.decide(None, NOW, 1).after;
    assert_eq!(state, Some(Tat { micros: NOW.as_micros() + 333_333, remainder: 1 }));
    assert!(!thirds.decide(state.as_ref(), after(333_333), 1).admitted);
    assert!(thirds.decide(state.as_ref(), after(333_334), 1).admitted);
}

#[test]
fn remainder_of_an_older_quota_counts_as_one_microsecond() {
    let meter = Meter::new(Quota::per_second(2), 2).unwrap();
    let stale = Tat { micros: after(10).as_micros(), remainder: 7 };
    let snapshot = Algorithm::snapshot(&meter, Some(&stale), NOW, 0, true);
    assert_eq!(snapshot.reset_after, Duration::from_micros(11));
}

#[test]
fn next_after_and_reset_after_are_exact() {
    let meter = Meter::new(Quota::per_second(2), 4).unwrap();
    let snapshot = |state: Option<&Tat>, micros| Algorithm::snapshot(&meter, state, after(micros), 0, true);
    let idle = snapshot(None, 0);
    assert_eq!((idle.remaining, idle.next_after, idle.reset_after), (4, Duration::ZERO, Duration::ZERO));
    let state = meter.decide(None, NOW, 3).after;
    for (micros, remaining, next) in
        [(0, 1, 500_000), (499_999, 1, 1), (500_000, 2, 500_000), (1_499_999, 3, 1)]
    {
        let snapshot = snapshot(state.as_ref(), micros);
        assert_eq!(
            (snapshot.remaining, snapshot.next_after),
            (remaining, Duration::from_micros(next)),
            "{micros}"
        );
        assert_eq!(snapshot.reset_after, Duration::from_micros(1_500_000 - micros));
    }
}

#[test]
fn only_admitted_requests_have_a_queue_delay() {
    let queue = crate::LeakyBucket::new(Quota::per_second(2)).unwrap();
    let state = queue.decide(None, NOW, 2).after;
    let delay = |cost, admitted| queue.snapshot(state.as_ref(), NOW, cost, admitted).delay;
    assert_eq!((delay(1, true), delay(2, true)), (Duration::from_millis(500), Duration::ZERO));
    assert_eq!((delay(0, true), delay(1, false)), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn level_from_a_clock_step_is_cut_to_the_burst() {
    let meter = Meter::new(Quota::per_second(1), 5).unwrap();
    let at = |seconds: u64| Tat { micros: after(seconds * 1_000_000).as_micros(), remainder: 0 };
    let debt = meter.decide(Some(&at(10)), NOW, 0);
    assert_eq!((debt.before, debt.repaired), (Some(at(10)), false));
    let step = meter.decide(Some(&Tat { micros: at(10).micros + 1, remainder: 0 }), NOW, 1);
    assert_eq!((step.admitted, step.before, step.repaired), (false, Some(at(5)), true));
}

#[test]
fn debt_ends_at_one_burst_and_reports_uncharged_units() {
    let meter = Meter::new(Quota::per_second(1), 5).unwrap();
    let (debt, uncharged) = forced(&meter, None, NOW, 12);
    assert_eq!(uncharged, 2);
    let snapshot = Algorithm::snapshot(&meter, debt.as_ref(), NOW, 0, true);
    assert_eq!(snapshot.reset_after, Duration::from_secs(10));
    assert_eq!(forced(&meter, debt, NOW, u64::MAX), (debt, u64::MAX));
}

#[test]
fn refund_never_goes_below_empty() {
    let meter = Meter::new(Quota::per_second(1), 5).unwrap();
    let charged = meter.decide(None, NOW, 2).after;
    let left = after_refund(&meter, charged, after(500_000), 1);
    assert_eq!(left.map(|tat| tat.micros), Some(after(1_000_000).as_micros()));
    assert_eq!(after_refund(&meter, charged, after(1_500_000), 1), None);
}

#[test]
fn refund_under_an_older_quota_frees_only_its_charge() {
    let (old, new) =
        (Meter::new(Quota::per_second(1), 1).unwrap(), Meter::new(Quota::per_second(1), 1_000).unwrap());
    let state = new.decide(None, NOW, 999).after;
    let left = after_refund(&old, state, NOW, 1);
    assert_eq!(Algorithm::snapshot(&new, left.as_ref(), NOW, 0, true).remaining, 2);
}

fn meters() -> impl Strategy<Value = Meter> {
    let quota = (1_u64..20_000_000, prop_oneof![Just(1), Just(1_000), Just(1_000_000), Just(60_000_000)]);
    (quota, 1_u64..100).prop_filter_map("within bounds", |((limit, period), burst)| {
        Meter::new(Quota::new(limit, Duration::from_micros(period), None).ok()?, burst).ok()
    })
}

proptest! {
    #[test]
    fn announced_wait_is_exact(
        meter in meters(), used in 0_u64..200, passed in 0u64..100_000, cost in 1_u64..100
    ) {
        let (state, _) = forced(&meter, None, NOW, used);
        let now = after(passed);
        let transition = meter.decide(state.as_ref(), now, cost);
        let snapshot = Algorithm::snapshot(&meter, transition.after.as_ref(), now, cost, transition.admitted);
        if let Some(Retry::After(wait)) = snapshot.retry {
            let then = now.saturating_add(wait);
            prop_assert!(meter.decide(state.as_ref(), then, cost).admitted);
            let before = then.saturating_sub(Duration::from_micros(1));
            prop_assert!(!meter.decide(state.as_ref(), before, cost).admitted);
        }
        prop_assert_eq!(snapshot.retry == Some(Retry::Never), cost > meter.burst());
    }

    #[test]
    fn cost_of_n_is_n_requests_of_one(meter in meters(), used in 0_u64..100, cost in 1_u64..100) {
        let state = meter.decide(None, NOW, used).after;
        let at_once = meter.decide(state.as_ref(), NOW, cost);
        let mut one_by_one = state;
        let mut admitted = true;
        for _ in 0..cost {
            let step = meter.decide(one_by_one.as_ref(), NOW, 1);
            admitted &= step.admitted;
            one_by_one = step.after;
        }
        prop_assert_eq!(at_once.admitted, admitted);
        if admitted {
            prop_assert_eq!(at_once.after, one_by_one);
        }
    }

    #[test]
    fn expired_state_decides_like_none(meter in meters(), used in 0_u64..200, late in 0u64..3, cost in 0_u64..110) {
        let (Some(state), _) = forced(&meter, None, NOW, used) else { return Ok(()) };
        let now = Timestamp::from_micros(meter.expires_at(&state) + late);
        prop_assert_eq!(meter.decide(Some(&state), now, cost), meter.decide(None, now, cost));
        let just_before = Timestamp::from_micros(meter.expires_at(&state) - 1);
        prop_assert!(!meter.decide(Some(&state), just_before, meter.burst()).admitted);
    }

    #[test]
    fn decisions_in_64_bits_equal_those_in_128(
        meter in in_debt(), state in any_state(), passed in prop_oneof![0_u64..20, 0_u64..3_000_000],
        cost in prop_oneof![0_u64..300, Just(Quota::MAX_UNITS), Just(u64::MAX)],
        admitted in any::<bool>(), queues in any::<bool>(),
    ) {
        let now = after(passed);
        let Some(narrow) = Narrow::of(&meter) else { return Ok(()) };
        let level = narrow.level(state.as_ref(), now);
        prop_assert_eq!(narrow.evaluate(level, cost), meter.evaluate_wide(state, now, cost));
        prop_assert_eq!(
            narrow.figures(state.as_ref(), now, cost, admitted, queues),
            meter.figures_wide(state, now, cost, admitted, queues)
        );
        let units = cost.min(meter.burst());
        prop_assert_eq!(narrow.charged(level, now, units), meter.charged_wide(state, now, units));
    }

    #[test]
    fn check_is_evaluation_and_charge(
        meter in in_debt(), state in any_state(), passed in 0_u64..3_000_000, cost in 0_u64..300,
    ) {
        crate::algorithm::checking::equals_evaluation_and_charge(&meter, state.as_ref(), after(passed), cost);
    }
}

proptest! {
    #[test]
    fn settlements_reach_the_debt_and_no_step_of_the_clock_more(
        meter in in_debt(), state in any_state(), passed in 0_u64..3_000_000, more in any::<u64>(),
    ) {
        let now = after(passed);
        let (mut state, wait) = (state, meter.wait());
        let forced = meter.force_charge(&mut state, now, more);
        prop_assert!(u128::from(forced.charged) + u128::from(forced.uncharged) <= u128::from(more));
        prop_assert!(more - forced.charged - forced.uncharged <= 1);
        // Charged or cut: the level is one that the next decision keeps.
        prop_assert!(!meter.evaluate(state.as_ref(), now, 1).repair);
        let level = meter.raw_level(state.as_ref(), now);
        prop_assert!(level <= meter.ceiling_level() && meter.deepest_level() <= meter.ceiling_level());
        prop_assert_eq!((meter.wait(), meter.with_debt(meter.debt())), (wait, meter));
        let figures = meter.figures(state.as_ref(), now, 1, false);
        prop_assert!(figures.next_after <= figures.reset_after || figures.remaining == meter.burst());
    }
}

/// Meters of which some have bursts near the bound of 64 bits, and some refill at intervals.
fn narrow_or_not() -> impl Strategy<Value = Meter> {
    let largest = (1_000_000_000_000_u64..=Quota::MAX_UNITS, 1_u64..20_000_000);
    let largest = largest.prop_map(|(limit, burst)| {
        Meter::new(Quota::per_week(limit), burst).expect("a burst that refills within a minute")
    });
    let grain = prop_oneof![Just(1_u64), Just(1_000), Just(1_000_000)];
    let wait = prop_oneof![3 => Just(0_u64), 1 => 1_u64..5_000_000, 1 => Just(3_600_000_000)];
    (prop_oneof![meters(), largest], grain, wait).prop_map(|(meter, grain, wait)| {
        let meter = meter.with_step(Step::interval(NonZeroU64::new(grain).expect("not zero")));
        meter.with_wait(wait - wait % grain).expect("a burst that refills within a minute")
    })
}

/// Such meters with debts and ceilings, up to the largest.
fn in_debt() -> impl Strategy<Value = Meter> {
    let bits = prop_oneof![4 => 0_u32..25, 1 => 25_u32..52];
    let debt = proptest::option::of(bits.clone().prop_flat_map(|bits| (1_u64 << bits) - 1..1 << bits));
    let ceiling = proptest::option::of(bits.prop_flat_map(|bits| 1_u64 << bits..2 << bits));
    (narrow_or_not(), debt, ceiling).prop_map(|(meter, units, ceiling)| {
        let debt = units.map_or(Debt::DEFAULT, |units| Debt::DEFAULT.with_units(units.min(meter.max_debt())));
        let meter = meter.with_debt(debt);
        let ceiling = ceiling.map(|micros| debt.with_ceiling(micros.max(meter.deepest_micros())));
        ceiling.map_or(meter, |debt| meter.with_debt(debt))
    })
}

/// States around the instants of the test, some with a remainder of another quota, and some far ahead.
fn any_state() -> impl Strategy<Value = Option<Tat>> {
    let ahead =
        prop_oneof![0_u64..10, 0_u64..10_000, 0_u64..10_000_000, Just(1_u64 << 52), Just(u64::MAX / 2)];
    let remainder = prop_oneof![Just(0_u64), 0_u64..5, any::<u64>()];
    proptest::option::of(
        (ahead, remainder)
            .prop_map(|(ahead, remainder)| Tat { micros: NOW.as_micros().saturating_add(ahead), remainder }),
    )
}
