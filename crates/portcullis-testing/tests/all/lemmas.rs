//! What holds for every state, wherever a timeline has led it.

use std::time::Duration;

use portcullis_core::{
    Anchor, FixedWindow, Gcra, Quota, Report, Retry, State, Strategy as Limiting, Timestamp, Transition,
};
use proptest::prelude::*;

fn limits() -> impl Strategy<Value = u32> {
    prop_oneof![1_u32..=5, 1_u32..=1_000, Just(30_000), Just(10_000_000)]
}

fn quotas() -> impl Strategy<Value = Quota> {
    let periods = prop_oneof![
        Just(1_u64),
        Just(1_000_000),
        Just(30 * 86_400_000_000),
        1_u64..10_000_000,
        1_u64..86_400_000_000
    ];
    (limits(), periods).prop_map(|(limit, period)| Quota::new(limit, Duration::from_micros(period)).unwrap())
}

fn strategies() -> impl Strategy<Value = Limiting> {
    let gcra = (quotas(), limits()).prop_filter_map("too slow or too fine", |(quota, burst)| {
        Gcra::new(quota.burst(burst)).ok().map(Limiting::Gcra)
    });
    let anchors = prop_oneof![
        Just(Anchor::Epoch),
        Just(Anchor::FirstRequest),
        (0_u64..1 << 51).prop_map(|micros| Anchor::Instant(Timestamp::from_micros(micros))),
    ];
    let windows = (quotas(), anchors)
        .prop_map(|(quota, anchor)| Limiting::FixedWindow(FixedWindow::new(quota).unwrap().anchored(anchor)));
    prop_oneof![gcra, windows]
}

/// A strategy, an instant, and the state that charges of so many sixteenths, each so much later, have led to.
fn charged() -> impl Strategy<Value = (Limiting, Timestamp, Option<State>)> {
    let charges = proptest::collection::vec((1_u64..=16, 0_u64..1_000_000), 1..8);
    (strategies(), 0_u64..1 << 51, charges).prop_map(|(strategy, start, charges)| {
        let (mut now, mut state) = (Timestamp::from_micros(start), None);
        for (sixteenths, later) in charges {
            now = now.saturating_add(Duration::from_micros(later));
            let cost = u32::try_from(u64::from(strategy.limit()) * sixteenths / 16).unwrap();
            let transition = strategy.decide(state.as_ref(), now, cost.max(1));
            state = if transition.admitted { transition.after } else { transition.before };
        }
        (strategy, now, state)
    })
}

fn costs(limit: u32) -> [u32; 6] {
    [0, 1, limit / 2, limit, limit.saturating_add(1), u32::MAX]
}

fn later(now: Timestamp, micros: u64) -> Timestamp {
    Timestamp::from_micros(now.as_micros() + micros)
}

/// Everything that a check says and does.
fn check(
    strategy: &Limiting,
    state: Option<&State>,
    now: Timestamp,
    cost: u32,
) -> (Transition<State>, Report) {
    let transition = strategy.decide(state, now, cost);
    let report = strategy.report(transition.after.as_ref(), now, cost, transition.admitted);
    (transition, report)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// The lemma that expiry, sweeps and evictions stand on.
    #[test]
    fn at_or_after_its_expiry_a_state_decides_like_none(
        (strategy, now, state) in charged(), late in prop_oneof![Just(0_u64), Just(1), 0_u64..1 << 50],
    ) {
        let Some(state) = state else { return Ok(()) };
        let expiry = Timestamp::from_micros(strategy.expires_at(&state));
        prop_assert!(expiry > now);
        for cost in costs(strategy.limit()) {
            let at = later(expiry, late);
            prop_assert_eq!(check(&strategy, Some(&state), at, cost), check(&strategy, None, at, cost));
            prop_assert_eq!(
                strategy.refund(Some(&state), at, now, cost),
                strategy.refund(None, at, now, cost)
            );
            prop_assert_eq!(strategy.force(Some(&state), at, cost), strategy.force(None, at, cost));
        }
        let before = later(expiry, 0).saturating_sub(Duration::from_micros(1));
        let full = strategy.limit();
        prop_assert!(!strategy.decide(Some(&state), before, full).admitted, "it could have expired earlier");
        let report = strategy.report(Some(&state), now, 0, true);
        prop_assert_eq!(now.saturating_add(report.reset_after), expiry);
    }

    #[test]
    fn a_wait_is_enough_and_a_microsecond_less_is_not((strategy, now, state) in charged()) {
        for cost in costs(strategy.limit()) {
            let transition = strategy.decide(state.as_ref(), now, cost);
            let report = strategy.report(transition.after.as_ref(), now, cost, transition.admitted);
            match report.retry {
                None => prop_assert!(transition.admitted),
                Some(Retry::Never) => prop_assert!(cost > strategy.limit()),
                Some(Retry::After(wait)) => {
                    prop_assert!(cost <= strategy.limit() && !wait.is_zero());
                    let then = now.saturating_add(wait);
                    prop_assert!(strategy.decide(state.as_ref(), then, cost).admitted);
                    let earlier = then.saturating_sub(Duration::from_micros(1));
                    prop_assert!(!strategy.decide(state.as_ref(), earlier, cost).admitted);
                }
            }
        }
    }

    #[test]
    fn what_remains_fits_and_one_more_does_not_until_it_is_announced((strategy, now, state) in charged()) {
        let report = strategy.report(state.as_ref(), now, 0, true);
        let limit = strategy.limit();
        prop_assert!(report.limit == limit && report.remaining <= limit);
        prop_assert!(strategy.decide(state.as_ref(), now, report.remaining).admitted);
        if report.remaining == limit {
            prop_assert!(report.next_after.is_zero());
            return Ok(());
        }
        let more = report.remaining + 1;
        prop_assert!(!strategy.decide(state.as_ref(), now, more).admitted);
        let then = now.saturating_add(report.next_after);
        prop_assert!(strategy.decide(state.as_ref(), then, more).admitted);
        let earlier = then.saturating_sub(Duration::from_micros(1));
        prop_assert!(!strategy.decide(state.as_ref(), earlier, more).admitted);
        prop_assert!(report.next_after <= report.reset_after);
    }

    #[test]
    fn a_cost_of_n_leaves_the_state_of_n_units((strategy, now, state) in charged(), n in 1_u32..50) {
        let at_once = strategy.decide(state.as_ref(), now, n);
        let (mut each, mut all) = (state, true);
        for _ in 0..n {
            let transition = strategy.decide(each.as_ref(), now, 1);
            all &= transition.admitted;
            each = if transition.admitted { transition.after } else { transition.before };
        }
        prop_assert_eq!(at_once.admitted, all);
        if all {
            prop_assert_eq!(at_once.after, each);
        }
    }

    #[test]
    fn a_denial_and_a_peek_change_nothing((strategy, now, state) in charged(), wait in 0_u64..1 << 40) {
        let then = later(now, wait);
        for cost in costs(strategy.limit()) {
            let transition = strategy.decide(state.as_ref(), then, cost);
            prop_assert!(!transition.repaired);
            if cost == 0 || !transition.admitted {
                prop_assert_eq!(transition.before, transition.after);
                prop_assert_eq!(transition.admitted, cost == 0);
            }
        }
    }

    #[test]
    fn a_refund_at_the_instant_of_the_charge_undoes_it((strategy, now, state) in charged()) {
        let before = strategy.decide(state.as_ref(), now, 0).after;
        for cost in costs(strategy.limit()) {
            let charged = strategy.decide(state.as_ref(), now, cost);
            if charged.admitted {
                let charged_at = strategy.charged_at(charged.after.as_ref(), now);
                let refunded = strategy.refund(charged.after.as_ref(), now, charged_at, cost);
                prop_assert_eq!(refunded.after, before);
            }
        }
    }

    #[test]
    fn a_debt_ends_at_one_burst_and_the_rest_is_counted((strategy, now, state) in charged(), cost: u32) {
        let limit = strategy.limit();
        let forced = strategy.force(state.as_ref(), now, cost);
        prop_assert!(forced.uncharged <= cost);
        let twice = strategy.force(forced.transition.after.as_ref(), now, 1);
        if forced.uncharged > 0 {
            prop_assert!(twice.uncharged <= 1);
            prop_assert_eq!(strategy.report(forced.transition.after.as_ref(), now, 0, true).remaining, 0);
        }
        if let Limiting::Gcra(gcra) = strategy {
            let report = strategy.report(forced.transition.after.as_ref(), now, 0, true);
            let deepest = Duration::from_micros(2 * (gcra.meter().capacity().micros + 1));
            prop_assert!(report.reset_after <= deepest, "{:?} of {limit}", report.reset_after);
        }
        prop_assert!(!strategy.decide(forced.transition.after.as_ref(), now, 0).repaired, "a debt is no clock step");
    }
}
