use proptest::prelude::*;

use super::*;
use crate::Retry;
use crate::charge::Run;

fn forced(
    window: FixedWindow,
    mut state: Option<Window>,
    now: Timestamp,
    units: u64,
) -> (Option<Window>, u64) {
    let forced = window.force_charge(&mut state, now, units);
    (state, forced.uncharged)
}

fn after_refund(
    window: FixedWindow,
    mut state: Option<Window>,
    now: Timestamp,
    charged_at: Timestamp,
    units: u64,
) -> Option<Window> {
    let runs = [Run { units, position: Position::at(charged_at.as_micros()) }];
    window.refund(&mut state, now, Refund::of(&runs));
    state
}

const MINUTE: u64 = 60_000_000;
const WEEK: u64 = 604_800_000_000;

fn per_minute(limit: u64) -> FixedWindow {
    FixedWindow::new(Quota::per_minute(limit)).unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

#[test]
fn window_reports_its_limit_period_and_anchor() {
    let window = per_minute(7).anchored(Anchor::FirstRequest);
    assert_eq!((window.limit(), window.period()), (7, Duration::from_mins(1)));
    assert_eq!((window.anchor(), per_minute(7).anchor()), (Anchor::FirstRequest, Anchor::Epoch));
}

#[test]
fn windows_begin_where_they_are_anchored() {
    assert_eq!(per_minute(1).end(0), MINUTE);
    assert_eq!(per_minute(1).end(MINUTE - 1), MINUTE);
    assert_eq!(per_minute(1).end(MINUTE), 2 * MINUTE);
    assert_eq!(per_minute(1).anchored(Anchor::FirstRequest).end(17), MINUTE + 17);

    // 1970-01-05 was the first Monday of the epoch.
    let monday = 4 * 86_400_000_000;
    let weeks =
        FixedWindow::new(Quota::per_week(1)).unwrap().anchored(Anchor::Instant(at(monday + 3 * WEEK)));
    assert_eq!(weeks.phase(), Some(monday));
    assert_eq!(weeks.end(0), monday);
    assert_eq!(weeks.end(monday), monday + WEEK);
    assert_eq!(weeks.end(monday + WEEK - 1), monday + WEEK);
}

#[test]
fn changed_period_or_alignment_starts_a_new_window() {
    let state = per_minute(5).decide(None, at(90_000_000), 5).after.unwrap();
    let half = FixedWindow::new(Quota::new(5, Duration::from_secs(30), None).unwrap()).unwrap();
    assert_eq!(half.decide(Some(&state), at(90_000_001), 1).before, None);
    let shifted = per_minute(5).anchored(Anchor::Instant(at(1)));
    assert_eq!(shifted.decide(Some(&state), at(90_000_001), 1).before, None);
    let larger = per_minute(7);
    assert_eq!(larger.snapshot(Some(&state), at(90_000_001), 0, true).remaining, 2);
    let smaller = per_minute(3);
    assert_eq!(smaller.snapshot(Some(&state), at(90_000_001), 0, true).remaining, 0);
}

#[test]
fn window_without_a_charge_is_ignored() {
    let empty = Window { end: 2 * MINUTE, length: MINUTE, count: 0 };
    let snapshot = per_minute(5).snapshot(Some(&empty), at(90_000_000), 1, true);
    assert_eq!(snapshot, per_minute(5).snapshot(None, at(90_000_000), 1, true));
    assert_eq!((snapshot.reset_after, snapshot.next_after), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn clock_step_back_freezes_time_for_at_most_one_period() {
    let window = per_minute(1);
    let state = window.decide(None, at(10 * MINUTE), 1).after.unwrap();
    let held = window.decide(Some(&state), at(9 * MINUTE), 1);
    assert_eq!((held.admitted, held.repaired, held.before), (false, false, Some(state)));
    assert_eq!(window.snapshot(Some(&state), at(9 * MINUTE), 1, false).reset_after, Duration::from_mins(2));

    let moved = window.decide(Some(&state), at(9 * MINUTE - 1), 1);
    assert!(moved.repaired && !moved.admitted);
    assert_eq!(moved.before, Some(Window { end: 9 * MINUTE, ..state }));
}

#[test]
fn refund_changes_only_its_own_window() {
    let window = per_minute(5);
    let now = at(90_000_000);
    let state = window.decide(None, now, 3).after;
    assert_eq!(after_refund(window, state, now, now, 2).map(|window| window.count), Some(1));
    assert_eq!(after_refund(window, state, now, now, 9), None);
    for other in [MINUTE - 1, 2 * MINUTE] {
        assert_eq!(after_refund(window, state, now, at(other), 2), state);
    }
}

#[test]
fn charge_while_time_is_frozen_can_be_refunded() {
    let window = per_minute(5);
    let ahead = window.decide(None, at(10 * MINUTE), 1).after;
    let charged = window.decide(ahead.as_ref(), at(9 * MINUTE), 2).after;
    let position = window.position(charged.as_ref(), at(9 * MINUTE));
    assert_eq!(position, Position::at(10 * MINUTE));
    let refunded = after_refund(window, charged, at(9 * MINUTE), at(position.micros), 2);
    assert_eq!(refunded, ahead);
}

#[test]
fn debt_ends_at_one_limit_and_reports_uncharged_units() {
    let window = per_minute(5);
    let (debt, uncharged) = forced(window, None, at(0), 12);
    assert_eq!((debt.map(|window| window.count), uncharged), (Some(10), 2));
    assert_eq!(window.snapshot(debt.as_ref(), at(0), 0, true).remaining, 0);
    assert_eq!(forced(window, debt, at(0), u64::MAX), (debt, u64::MAX));
}

#[test]
fn largest_limit_is_exact() {
    let most = Quota::MAX_UNITS;
    let window = per_minute(most);
    let first = window.decide(None, at(0), most - 1).after;
    assert_eq!(window.snapshot(first.as_ref(), at(0), 0, true).remaining, 1);
    assert!(!window.decide(first.as_ref(), at(0), 2).admitted);
    assert!(window.decide(first.as_ref(), at(0), 1).admitted);
    assert!(!window.decide(None, at(0), u64::MAX).admitted);
    let (debt, uncharged) = forced(window, first, at(0), u64::MAX);
    assert_eq!((debt.map(|window| window.count), uncharged), (Some(2 * most), u64::MAX - most - 1));
}

proptest! {
    #[test]
    fn announced_wait_is_exact(
        limit in 1_u64..9, used in 0_u64..20, now in 0u64..5 * MINUTE, ahead in 0u64..3 * MINUTE, cost in 1_u64..10,
        own in any::<bool>(),
    ) {
        let window = per_minute(limit).anchored(if own { Anchor::FirstRequest } else { Anchor::Epoch });
        let (state, _) = forced(window, None, at(now + ahead), used);
        let transition = window.decide(state.as_ref(), at(now), cost);
        let snapshot = window.snapshot(transition.after.as_ref(), at(now), cost, transition.admitted);
        if let Some(Retry::After(wait)) = snapshot.retry {
            prop_assert!(wait <= Duration::from_mins(2));
            let then = at(now).saturating_add(wait);
            prop_assert!(window.decide(transition.before.as_ref(), then, cost).admitted);
            let before = then.saturating_sub(Duration::from_micros(1));
            prop_assert!(!window.decide(transition.before.as_ref(), before, cost).admitted);
        }
        prop_assert_eq!(snapshot.retry == Some(Retry::Never), cost > limit);
        prop_assert!(snapshot.remaining <= snapshot.limit);
    }

    #[test]
    fn check_is_evaluation_and_charge(
        used in 0_u64..20, now in 0u64..5 * MINUTE, ahead in 0u64..5 * MINUTE, cost in 0_u64..7, own in any::<bool>(),
    ) {
        let window = per_minute(5).anchored(if own { Anchor::FirstRequest } else { Anchor::Epoch });
        let (state, _) = forced(window, None, at(now + ahead), used);
        crate::algorithm::checking::equals_evaluation_and_charge(&window, state.as_ref(), at(now), cost);
    }

    #[test]
    fn expired_window_decides_like_none(now in 0u64..5 * MINUTE, late in 0u64..2 * MINUTE, cost in 0_u64..7) {
        let window = per_minute(5);
        let state = window.decide(None, at(now), 3).after.unwrap();
        let then = at(window.expires_at(&state) + late);
        prop_assert_eq!(window.decide(Some(&state), then, cost), window.decide(None, then, cost));
    }
}
