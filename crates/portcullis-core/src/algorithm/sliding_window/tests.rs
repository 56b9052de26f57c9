use proptest::prelude::*;

use super::*;
use crate::algorithm::{Snapshot, waits};
use crate::charge::Run;

const MINUTE: u64 = 60_000_000;

fn window(limit: u64, slots: u32) -> SlidingWindow {
    SlidingWindow::with_slots(Quota::per_minute(limit), slots).unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn refund(window: &SlidingWindow, state: &mut Option<Slots>, now: u64, charged_at: u64, units: u64) -> bool {
    let runs = [Run { units, position: Position::at(charged_at) }];
    window.refund(state, at(now), Refund::of(&runs))
}

fn remaining(window: &SlidingWindow, state: Option<&Slots>, micros: u64) -> u64 {
    window.snapshot(state, at(micros), 0, true).remaining
}

#[test]
fn error_for_uneven_slots_names_them() {
    let odd = Quota::new(5, Duration::from_micros(1_001), None).unwrap();
    for slots in [0, 2, 1_001] {
        let error = SlidingWindow::with_slots(odd, slots).unwrap_err();
        assert_eq!(error, QuotaError::UnevenSlots { slots, period: odd.period() });
    }
    assert!(SlidingWindow::with_slots(odd, 7).is_ok());
    assert!(SlidingWindow::with_slots(Quota::new(5, Duration::from_millis(1), None).unwrap(), 1_000).is_ok());
    let limit = SlidingWindow::MAX_LIMIT;
    assert!(SlidingWindow::new(Quota::per_second(limit)).is_ok());
    let error = SlidingWindow::new(Quota::per_second(limit + 1)).unwrap_err();
    assert_eq!(error, QuotaError::WindowTooLarge { limit: limit + 1 });
    let error = SlidingWindow::new(Quota::per_second(1).burst(2)).unwrap_err();
    assert_eq!(error, QuotaError::BurstNotSupported { burst: 2 });
}

#[test]
fn window_reports_its_limit_period_and_slots() {
    let window = window(7, 6);
    assert_eq!((window.limit(), window.slots()), (7, 6));
    assert_eq!((window.period(), window.slot()), (Duration::from_mins(1), Duration::from_secs(10)));
}

#[test]
fn the_oldest_slot_is_weighted_by_its_overlap() {
    let window = window(100, 2);
    let state = window.decide(None, at(10_000_000), 100).after;
    assert_eq!(remaining(&window, state.as_ref(), 59_999_999), 0);
    // The slot from 0 s to 30 s leaves the window from 60 s to 90 s.
    for (micros, left) in [(60_000_000, 0), (60_000_001, 1), (75_000_000, 50), (89_999_999, 100)] {
        assert_eq!(remaining(&window, state.as_ref(), micros), left, "{micros}");
    }
    let expiry = window.expires_at(state.as_ref().unwrap());
    // In the last hundredth of the slot less than one unit of the hundred is left.
    assert_eq!(expiry, 89_700_001);
}

#[test]
fn slot_with_more_units_than_micros_counts_to_its_end() {
    let window = SlidingWindow::new(Quota::new(1_000, Duration::from_micros(10), None).unwrap()).unwrap();
    let state = window.decide(None, at(100), 1_000).after;
    assert_eq!(window.expires_at(state.as_ref().unwrap()), 120);
    assert_eq!(remaining(&window, state.as_ref(), 119), 900);
}

#[test]
fn new_slots_start_over_and_a_new_limit_keeps_the_counts() {
    let state = window(10, 2).decide(None, at(90_000_000), 6).after;
    assert_eq!(remaining(&window(10, 6), state.as_ref(), 90_000_000), 10);
    assert_eq!(remaining(&window(8, 2), state.as_ref(), 90_000_000), 2);
    assert_eq!(remaining(&window(3, 2), state.as_ref(), 90_000_000), 0);
    let crooked = Slots::new(90_000_001, 30_000_000, [6, 0, 0]);
    assert_eq!(remaining(&window(10, 2), Some(&crooked), 80_000_000), 10);
}

#[test]
fn slots_of_another_window_count_as_expired() {
    let window = window(10, 2);
    for (end, width, counts) in [(90_000_000, 30_000_000, &[6, 0][..]), (9, 0, &[1, 1, 1]), (0, 1, &[])] {
        let foreign = Slots::new(end, width, counts.iter().copied());
        assert_eq!(window.expires_at(&foreign), 0, "{foreign:?}");
        assert_eq!(window.decide(Some(&foreign), at(80_000_000), 1), window.decide(None, at(80_000_000), 1));
    }
}

#[test]
fn clock_step_back_freezes_time_for_at_most_one_period() {
    let window = window(5, 1);
    let state = window.decide(None, at(10 * MINUTE), 5).after;
    let held = window.decide(state.as_ref(), at(9 * MINUTE), 1);
    assert_eq!((held.admitted, held.repaired, &held.before), (false, false, &state));
    let moved = window.decide(state.as_ref(), at(9 * MINUTE - 1), 1);
    assert!(moved.repaired && !moved.admitted);
    assert_eq!(moved.before, Some(Slots::new(9 * MINUTE, MINUTE, [5, 0])));
}

#[test]
fn refund_changes_only_its_own_slot() {
    let window = window(9, 2);
    let mut state = window.decide(None, at(5_000_000), 4).after;
    window.charge(&mut state, at(35_000_000), 3);
    let full = state.clone();
    assert!(!refund(&window, &mut state, 40_000_000, 95_000_000, 1));
    assert!(!refund(&window, &mut state, 40_000_000, 5_000_000, 0));
    assert_eq!(state, full);
    assert!(refund(&window, &mut state, 65_000_000, 5_000_000, 3));
    assert_eq!(state, Some(Slots::new(90_000_000, 30_000_000, [0, 3, 1])));
    assert!(refund(&window, &mut state, 65_000_000, 35_000_000, 9));
    assert_eq!(state, None);
}

#[test]
fn refund_of_an_empty_slot_changes_nothing() {
    let slots = window(9, 2);
    let mut state = slots.decide(None, at(5_000_000), 4).after;
    slots.charge(&mut state, at(65_000_000), 3);
    let held = state.clone();
    assert!(!refund(&slots, &mut state, 66_000_000, 35_000_000, 1), "nothing was charged there");
    assert_eq!(state, held);

    let minutes = window(9, 1);
    let mut state = minutes.decide(None, at(5_000_000), 4).after;
    minutes.charge(&mut state, at(65_000_000), 3);
    let held = state.clone();
    assert!(!refund(&minutes, &mut state, 2 * MINUTE, 5_000_000, 1), "it has just left the window");
    assert_eq!(state, held);
}

#[test]
fn forced_charge_of_nothing_keeps_the_slots() {
    let window = window(5, 1);
    let mut nothing = None;
    assert_eq!(
        window.force_charge(&mut nothing, at(5), 0),
        ForcedCharge { charged: 0, uncharged: 0, changed: false }
    );
    assert_eq!(nothing, None);
    let mut state = window.decide(None, at(5), 3).after;
    let held = state.clone();
    assert_eq!(
        window.force_charge(&mut state, at(MINUTE), 0),
        ForcedCharge { charged: 0, uncharged: 0, changed: false }
    );
    assert_eq!(state, held);
}

#[test]
fn next_after_and_reset_after_are_exact() {
    let window = window(6, 1);
    let waits = |state: Option<&Slots>, seconds: u64| {
        let snapshot = window.snapshot(state, at(seconds * 1_000_000), 0, true);
        (snapshot.remaining, snapshot.next_after, snapshot.reset_after)
    };
    assert_eq!(waits(None, 30), (6, Duration::ZERO, Duration::ZERO));
    let state = window.decide(None, at(30_000_000), 3).after;
    // One of the three units is available after the first microsecond of the next minute, all after forty seconds.
    assert_eq!(
        waits(state.as_ref(), 30),
        (3, Duration::from_micros(30_000_001), Duration::from_micros(70_000_001))
    );
    assert_eq!(
        waits(state.as_ref(), 90),
        (5, Duration::from_micros(10_000_001), Duration::from_micros(10_000_001))
    );
}

#[test]
fn debt_ends_at_one_limit_and_reports_uncharged_units() {
    let window = window(5, 6);
    let mut state = None;
    assert_eq!(
        window.force_charge(&mut state, at(0), 12),
        ForcedCharge { charged: 10, uncharged: 2, changed: true }
    );
    assert_eq!(remaining(&window, state.as_ref(), 0), 0);
    assert_eq!(
        window.force_charge(&mut state, at(0), u64::MAX),
        ForcedCharge { charged: 0, uncharged: u64::MAX, changed: false }
    );
}

proptest! {
    #[test]
    fn waits_are_sufficient_and_tight(
        limit in 1u64..40, slots in prop_oneof![Just(1u32), Just(2), Just(6), Just(60)],
        charges in proptest::collection::vec((0u64..2 * MINUTE, 1u64..9), 1..9), later in 0u64..3 * MINUTE,
        cost in 1u64..45,
    ) {
        let window = window(limit, slots);
        let (mut state, mut now) = (None, 0);
        for (wait, units) in charges {
            now += wait;
            let _ = window.force_charge(&mut state, at(now), units);
        }
        now += later;
        waits::are_sufficient_and_tight(&window, state.as_ref(), at(now), cost);
    }

    #[test]
    fn a_check_in_place_equals_its_steps(
        limit in 1u64..40, slots in prop_oneof![Just(1u32), Just(2), Just(6), Just(60)],
        checks in proptest::collection::vec((0u64..4 * MINUTE, 0u64..45, any::<bool>()), 1..20),
    ) {
        let window = window(limit, slots);
        let mut state = None;
        for (micros, cost, force) in checks {
            let now = at(micros);
            let before = state.clone();
            let Evaluation { admitted, repair } = window.evaluate(state.as_ref(), now, cost);
            if admitted && cost > 0 {
                window.charge(&mut state, now, cost);
            } else if repair {
                window.advance(&mut state, now);
            }
            let snapshot = window.snapshot(state.as_ref(), now, cost, admitted);
            let position = window.position(state.as_ref(), now);
            if let Some(mut slots) = before {
                let unchanged = slots.clone();
                if let Some((figures, found, expires_at)) = window.check_in_place(&mut slots, now, cost) {
                    let reported = Snapshot::from(figures);
                    prop_assert_eq!((reported.retry.is_none(), reported), (admitted, snapshot));
                    prop_assert_eq!(found, position);
                    prop_assert_eq!(Some(&slots), state.as_ref());
                    let charged = admitted && cost > 0;
                    prop_assert_eq!(expires_at, charged.then(|| window.expires_at(&slots)));
                } else {
                    prop_assert_eq!(slots, unchanged);
                }
            }
            if force {
                let _ = window.force_charge(&mut state, now, cost);
            }
        }
    }
}
