//! Properties of every reachable state.

use std::time::Duration;

use portcullis_core::algorithm::{ForcedCharge, Snapshot, State, Transition};
use portcullis_core::store::{Position, Refund, Run};
use portcullis_core::{Retry, Strategy as Limiting, Timestamp};
use portcullis_testing::timeline::steps;
use proptest::prelude::*;

use crate::states::{Charged, charged, longest_denial};

fn costs(limit: u64) -> [u64; 6] {
    [0, 1, limit / 2, limit, limit.saturating_add(1), u64::MAX]
}

fn later(now: Timestamp, micros: u64) -> Timestamp {
    Timestamp::from_micros(now.as_micros() + micros)
}

fn a_microsecond_before(then: Timestamp) -> Timestamp {
    then.saturating_sub(Duration::from_micros(1))
}

/// The transition and the figures of a check.
fn check(
    strategy: &Limiting,
    state: Option<&State>,
    now: Timestamp,
    cost: u64,
) -> (Transition<State>, Snapshot) {
    let transition = strategy.decide(state, now, cost);
    let snapshot = strategy.snapshot(transition.after.as_ref(), now, cost, transition.admitted);
    (transition, snapshot)
}

fn remaining(strategy: &Limiting, state: Option<&State>, now: Timestamp) -> u64 {
    strategy.snapshot(state, now, 0, true).remaining
}

/// The state after a refund, advanced to `now`, and whether a store would have written it.
fn refunded(
    Charged { strategy, now, state }: &Charged,
    position: Position,
    cost: u64,
) -> (Option<State>, bool) {
    let mut state = state.clone();
    let before = state.clone();
    let runs = [Run { units: cost, position }];
    let changed = strategy.refund(&mut state, *now, Refund::of(&runs));
    assert!(changed || state == before, "an unwritten state is unchanged");
    strategy.advance(&mut state, *now);
    (state, changed)
}

fn force(Charged { strategy, now, state }: &Charged, cost: u64) -> (Option<State>, ForcedCharge) {
    let mut state = state.clone();
    let before = state.clone();
    let forced = strategy.force_charge(&mut state, *now, cost);
    assert!(forced.changed || state == before, "an unwritten state is unchanged");
    strategy.advance(&mut state, *now);
    (state, forced)
}

/// 1 000 by default, 4 000 in `cargo xtask test --all`.
fn cases() -> u32 {
    u32::try_from(steps() / 10).map_or(4_000, |cases| cases.min(4_000))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Expiry, sweeps and evictions rely on this property.
    #[test]
    fn an_expired_state_decides_like_no_state(
        Charged { strategy, now, state } in charged(),
        late in prop_oneof![Just(0_u64), Just(1), 0_u64..1 << 50],
    ) {
        let Some(state) = state else { return Ok(()) };
        let expiry = Timestamp::from_micros(strategy.expires_at(&state));
        let full = strategy.limit();
        if remaining(&strategy, Some(&state), now) == full {
            prop_assert!(expiry <= now, "it has expired already");
            return Ok(());
        }
        prop_assert!(expiry > now);
        for cost in costs(full) {
            let now = later(expiry, late);
            prop_assert_eq!(check(&strategy, Some(&state), now, cost), check(&strategy, None, now, cost));
            let expired = Charged { strategy, now, state: Some(state.clone()) };
            let none = Charged { strategy, now, state: None };
            let position = strategy.position(Some(&state), now);
            prop_assert_eq!(refunded(&expired, position, cost), (None, false));
            prop_assert_eq!(refunded(&none, position, cost), (None, false));
            let ((left, from_expired), (from_none, none)) = (force(&expired, cost), force(&none, cost));
            prop_assert_eq!((left, from_expired.uncharged), (from_none, none.uncharged));
        }
        let before = a_microsecond_before(expiry);
        prop_assert!(!strategy.evaluate(Some(&state), before, full).admitted, "it could have expired earlier");
        let snapshot = strategy.snapshot(Some(&state), now, 0, true);
        prop_assert_eq!(now.saturating_add(snapshot.reset_after), expiry);
    }

    #[test]
    fn announced_waits_are_exact_to_the_microsecond(Charged { strategy, now, state } in charged()) {
        for cost in costs(strategy.limit()) {
            let admitted = strategy.evaluate(state.as_ref(), now, cost).admitted;
            match strategy.snapshot(state.as_ref(), now, cost, admitted).retry {
                None => prop_assert!(admitted),
                Some(Retry::Unknown) => prop_assert!(false, "every wait is known here"),
                Some(Retry::Never) => prop_assert!(cost > strategy.limit()),
                Some(Retry::After(wait)) => {
                    prop_assert!(cost <= strategy.limit() && !wait.is_zero());
                    let then = now.saturating_add(wait);
                    prop_assert!(strategy.evaluate(state.as_ref(), then, cost).admitted);
                    prop_assert!(!strategy.evaluate(state.as_ref(), a_microsecond_before(then), cost).admitted);
                }
            }
        }
    }

    #[test]
    fn remaining_and_next_after_are_exact(
        Charged { strategy, now, state } in charged(),
    ) {
        let snapshot = strategy.snapshot(state.as_ref(), now, 0, true);
        let limit = strategy.limit();
        prop_assert!(snapshot.limit == limit && snapshot.remaining <= limit);
        prop_assert!(strategy.evaluate(state.as_ref(), now, snapshot.remaining).admitted);
        if snapshot.remaining == limit {
            prop_assert!(snapshot.next_after.is_zero());
            return Ok(());
        }
        let more = snapshot.remaining + 1;
        prop_assert!(!strategy.evaluate(state.as_ref(), now, more).admitted);
        let then = now.saturating_add(snapshot.next_after);
        prop_assert!(strategy.evaluate(state.as_ref(), then, more).admitted);
        prop_assert!(!strategy.evaluate(state.as_ref(), a_microsecond_before(then), more).admitted);
        prop_assert!(snapshot.next_after <= snapshot.reset_after);
    }

    #[test]
    fn one_charge_of_n_equals_n_charges_of_one(
        Charged { strategy, now, state } in charged(), n in 1_u64..50,
    ) {
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
    fn denials_and_peeks_change_nothing(
        Charged { strategy, now, state } in charged(), wait in 0_u64..1 << 40,
    ) {
        let then = later(now, wait);
        for cost in costs(strategy.limit()) {
            let evaluation = strategy.evaluate(state.as_ref(), then, cost);
            prop_assert!(!evaluation.repair);
            if cost == 0 || !evaluation.admitted {
                prop_assert_eq!(evaluation.admitted, cost == 0);
                let mut kept = state.clone();
                prop_assert!(!strategy.apply_decision(&mut kept, then, cost, evaluation, evaluation.admitted));
                prop_assert_eq!(&kept, &state);
                let transition = strategy.decide(state.as_ref(), then, cost);
                prop_assert_eq!(transition.before, transition.after);
            }
        }
    }

    #[test]
    fn an_immediate_refund_undoes_the_charge(Charged { strategy, now, state } in charged()) {
        let before = strategy.decide(state.as_ref(), now, 0).before;
        for cost in costs(strategy.limit()) {
            let charged = strategy.decide(state.as_ref(), now, cost);
            if charged.admitted {
                let position = strategy.position(charged.after.as_ref(), now);
                let after = Charged { strategy, now, state: charged.after };
                prop_assert_eq!(refunded(&after, position, cost), (before.clone(), cost > 0));
            }
        }
    }

    #[test]
    fn a_refund_frees_at_most_the_charged_units(
        Charged { strategy, now, state } in charged(), cost in 1_u64..20, wait in 0_u64..100_000_000,
    ) {
        let charged = strategy.decide(state.as_ref(), now, cost);
        if charged.admitted {
            let position = strategy.position(charged.after.as_ref(), now);
            let now = later(now, wait);
            let after = Charged { strategy, now, state: charged.after };
            let (left, _) = refunded(&after, position, cost);
            let kept = remaining(&strategy, after.state.as_ref(), now);
            let given = remaining(&strategy, left.as_ref(), now);
            prop_assert!((kept..=kept.saturating_add(cost)).contains(&given), "{kept} {given}");
            let never_charged = remaining(&strategy, state.as_ref(), now);
            prop_assert!(given <= never_charged.max(kept), "{given} {never_charged} {kept}");
        }
    }

    #[test]
    fn forced_and_admitted_charges_leave_the_same_state(Charged { strategy, now, state } in charged()) {
        for cost in costs(strategy.limit()) {
            let transition = strategy.decide(state.as_ref(), now, cost);
            if transition.admitted {
                let (forced, charge) = force(&Charged { strategy, now, state: state.clone() }, cost);
                prop_assert_eq!((forced, charge.uncharged), (transition.after, 0));
                prop_assert_eq!(charge.changed, cost > 0);
            }
        }
    }

    #[test]
    fn debt_is_bounded_and_the_rest_is_reported(
        Charged { strategy, now, state } in charged(), cost: u64,
    ) {
        let (forced, charge) = force(&Charged { strategy, now, state }, cost);
        prop_assert!(charge.uncharged <= cost);
        let snapshot = strategy.snapshot(forced.as_ref(), now, 0, true);
        let (_, again) = force(&Charged { strategy, now, state: forced.clone() }, 1);
        if charge.uncharged > 0 {
            prop_assert!(again.uncharged <= 1);
            prop_assert_eq!(snapshot.remaining, 0);
        }
        let deepest = Duration::from_micros(longest_denial(&strategy));
        prop_assert!(snapshot.reset_after <= deepest, "{:?}", snapshot.reset_after);
        prop_assert!(!strategy.evaluate(forced.as_ref(), now, 0).repair, "a debt is not a clock step");
    }

    /// Steps of any size, in any state.
    #[test]
    fn clock_steps_deny_for_a_bounded_time_and_are_repaired_once(
        Charged { strategy, now, state } in charged(), forth: bool,
        by in prop_oneof![0_u64..3, 0_u64..100_000_000, 0_u64..1 << 46, 0_u64..1 << 51],
    ) {
        let then = if forth { later(now, by) } else { now.saturating_sub(Duration::from_micros(by)) };
        let evaluation = strategy.evaluate(state.as_ref(), then, strategy.limit());
        let snapshot = strategy.snapshot(state.as_ref(), then, strategy.limit(), evaluation.admitted);
        let longest = Duration::from_micros(longest_denial(&strategy));
        prop_assert!(snapshot.reset_after <= longest, "{:?}", snapshot.reset_after);
        if let Some(retry) = snapshot.retry {
            prop_assert!(retry <= Retry::After(longest), "{:?}", retry);
        }
        // After the repair, the announced figures still hold.
        let mut repaired = state.clone();
        let changed = strategy.apply_decision(&mut repaired, then, 0, evaluation, true);
        prop_assert_eq!(changed, evaluation.repair);
        prop_assert!(!strategy.evaluate(repaired.as_ref(), then, 1).repair);
        let again = strategy.snapshot(repaired.as_ref(), then, strategy.limit(), evaluation.admitted);
        prop_assert_eq!(again, snapshot);
    }

    /// The only units that a step back can free are those of the fading slot, because its end moves. Slots that count in full
    /// still do.
    #[test]
    fn backward_clock_steps_free_no_units(
        Charged { strategy, now, state } in charged(),
        by in prop_oneof![0_u64..3, 0_u64..100_000_000, 0_u64..1 << 46, 0_u64..1 << 51],
    ) {
        let then = now.saturating_sub(Duration::from_micros(by));
        let most = match strategy.decide(state.as_ref(), now, 0).before {
            Some(State::Slots(slots)) => {
                let (_, in_full) = slots.counts().split_last().unwrap();
                let used: u64 = in_full.iter().sum();
                strategy.limit().saturating_sub(used)
            }
            before => remaining(&strategy, before.as_ref(), now),
        };
        prop_assert!(remaining(&strategy, state.as_ref(), then) <= most);
    }
}
