use core::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::Retry;
use crate::algorithm::waits;
use crate::charge::Run;

const HOUR: u64 = 3_600_000_000;

const fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Windows of 28 to 31 hours, the first with the number 5.
static STARTS: [Timestamp; 7] = [
    at(10 * HOUR),
    at(41 * HOUR),
    at(69 * HOUR),
    at(100 * HOUR),
    at(130 * HOUR),
    at(161 * HOUR),
    at(191 * HOUR),
];
/// Like [`STARTS`], but from other time zone data: the window that ends after 69 hours is an hour longer.
static LATER: [Timestamp; 7] = [
    at(10 * HOUR),
    at(41 * HOUR),
    at(70 * HOUR),
    at(100 * HOUR),
    at(130 * HOUR),
    at(161 * HOUR),
    at(191 * HOUR),
];
static TABLE: WindowTable = table(&STARTS);
static LATER_TABLE: WindowTable = table(&LATER);

const fn table(starts: &'static [Timestamp]) -> WindowTable {
    match WindowTable::new("test", 5, starts) {
        Ok(table) => table,
        Err(_) => panic!("the starts ascend"),
    }
}

fn window(limit: u64) -> CalendarWindow {
    CalendarWindow::new(limit, &TABLE).unwrap()
}

fn later(limit: u64) -> CalendarWindow {
    CalendarWindow::new(limit, &LATER_TABLE).unwrap()
}

fn remaining(window: CalendarWindow, state: Option<&CalendarCount>, hours: u64) -> u64 {
    window.snapshot(state, at(hours * HOUR), 0, true).remaining
}

fn after_refund(
    window: CalendarWindow,
    state: Option<CalendarCount>,
    now: u64,
    charged_at: u64,
) -> Option<CalendarCount> {
    let mut state = state;
    let runs = [Run { units: 2, position: Position::at(charged_at) }];
    window.refund(&mut state, at(now), Refund::of(&runs));
    state
}

#[test]
fn count_ends_with_its_window() {
    let window = window(5);
    let state = window.decide(None, at(12 * HOUR), 5).after;
    assert_eq!(state, Some(CalendarCount { window: 5, end: 41 * HOUR, count: 5 }));
    let denied = window.snapshot(state.as_ref(), at(40 * HOUR), 1, false);
    assert_eq!(denied.retry, Some(Retry::After(Duration::from_hours(1))));
    assert!(!window.decide(state.as_ref(), at(41 * HOUR - 1), 1).admitted);
    let next = window.decide(state.as_ref(), at(41 * HOUR), 5);
    assert_eq!(next.after, Some(CalendarCount { window: 6, end: 69 * HOUR, count: 5 }));
    assert!(next.admitted && !next.repaired);
}

#[test]
fn windows_outside_the_table_are_long() {
    let window = window(5);
    let first = window.decide(None, at(0), 5).after.unwrap();
    assert_eq!((first.window, first.end), (4, 10 * HOUR));
    let last = window.decide(None, at(1 << 52), 5).after.unwrap();
    assert_eq!((last.window, last.end), (11, 1 << 53));
    assert!(!window.decide(Some(&last), Timestamp::MAX, 1).admitted);
}

#[test]
fn step_into_the_last_window_freezes_time() {
    let window = window(1);
    let state = window.decide(None, at(50 * HOUR), 1).after.unwrap();
    let held = window.decide(Some(&state), at(20 * HOUR), 1);
    assert_eq!((held.admitted, held.repaired, held.before), (false, false, Some(state)));
    let snapshot = window.snapshot(Some(&state), at(20 * HOUR), 1, false);
    assert_eq!(snapshot.reset_after, Duration::from_hours(49));

    let far = window.decide(None, at(120 * HOUR), 1).after.unwrap();
    let moved = window.decide(Some(&far), at(20 * HOUR), 1);
    assert!(moved.repaired && !moved.admitted);
    assert_eq!(moved.before, Some(CalendarCount { window: 5, end: 41 * HOUR, count: 1 }));
}

#[test]
fn other_time_zone_data_neither_resets_nor_shortens() {
    let (old, new) = (window(5), later(5));
    // Both charge the window that ends after 69 hours in one table and after 70 in the other.
    let state = old.decide(None, at(50 * HOUR), 2).after;
    let state = new.decide(state.as_ref(), at(51 * HOUR), 2).after;
    assert_eq!(state, Some(CalendarCount { window: 6, end: 70 * HOUR, count: 4 }));
    let state = old.decide(state.as_ref(), at(52 * HOUR), 1).after;
    assert_eq!(state, Some(CalendarCount { window: 6, end: 70 * HOUR, count: 5 }));
    assert_eq!(old.snapshot(state.as_ref(), at(52 * HOUR), 0, true).reset_after, Duration::from_hours(17));

    // In the hour between, one is in the next window and the other is not: neither has more than one limit.
    let between = at(69 * HOUR + HOUR / 2);
    assert!(!new.decide(state.as_ref(), between, 1).admitted);
    let state = old.decide(state.as_ref(), between, 3).after;
    assert_eq!(state.map(|held| (held.window, held.count)), Some((7, 3)));
    let state = new.decide(state.as_ref(), between, 2).after;
    assert_eq!(state.map(|held| (held.window, held.count)), Some((7, 5)));
    for both in [old, new] {
        assert!(!both.decide(state.as_ref(), between, 1).admitted);
        assert_eq!(remaining(both, state.as_ref(), 75), 0);
    }
}

#[test]
fn denial_extends_windows_that_end_early() {
    let state = window(5).decide(None, at(50 * HOUR), 5).after;
    let denied = later(5).decide(state.as_ref(), at(60 * HOUR), 1);
    assert!(denied.repaired && !denied.admitted);
    assert_eq!(denied.after.map(|held| held.end), Some(70 * HOUR));
    assert!(!window(5).decide(denied.after.as_ref(), at(60 * HOUR), 1).repaired);
}

#[test]
fn unseen_key_ends_with_the_end_of_another() {
    let state = window(5).decide(None, at(50 * HOUR), 5).after;
    assert!(later(5).decide(state.as_ref(), at(69 * HOUR), 5).admitted);
}

#[test]
fn refund_changes_only_its_own_window() {
    let window = window(5);
    let (now, own) = (50 * HOUR, 41 * HOUR);
    let state = window.decide(None, at(now), 3).after;
    assert_eq!(window.position(state.as_ref(), at(now)), Position::at(own));
    assert_eq!(after_refund(window, state, now, own).map(|held| held.count), Some(1));
    for other in [own - 1, 69 * HOUR] {
        assert_eq!(after_refund(window, state, now, other), state);
    }
    assert_eq!(after_refund(window, window.decide(None, at(now), 2).after, now, own), None);
    assert_eq!(window.position(None, at(now)), Position::default());
}

#[test]
fn debt_ends_at_one_limit_and_reports_uncharged_units() {
    let (window, mut state) = (window(5), None);
    let forced = window.force_charge(&mut state, at(50 * HOUR), 12);
    assert_eq!((forced.charged, forced.uncharged, forced.changed), (10, 2, true));
    assert_eq!(remaining(window, state.as_ref(), 50), 0);
    assert!(!window.force_charge(&mut state, at(50 * HOUR), 1).changed);
    assert_eq!(remaining(window, state.as_ref(), 69), 5);
}

#[test]
fn largest_limit_is_exact() {
    let most = Quota::MAX_UNITS;
    let first = window(most).decide(None, at(0), most - 1).after;
    assert!(!window(most).decide(first.as_ref(), at(0), 2).admitted);
    assert!(window(most).decide(first.as_ref(), at(0), 1).admitted);
    assert!(!window(most).decide(None, at(0), u64::MAX).admitted);
}

#[test]
fn empty_and_odd_windows_are_harmless() {
    let empty = CalendarCount { window: 6, end: 70 * HOUR, count: 0 };
    assert_eq!(remaining(window(5), Some(&empty), 50), 5);
    for number in [0, 4, 9, u64::MAX] {
        for end in [0, 51 * HOUR, u64::MAX] {
            let odd = CalendarCount { window: number, end, count: u64::MAX };
            let mut state = Some(odd);
            let snapshot = window(5).snapshot(state.as_ref(), at(50 * HOUR), 1, false);
            assert!(snapshot.reset_after <= Duration::from_hours(60), "{odd:?}: {snapshot:?}");
            window(5).charge(&mut state, at(50 * HOUR), 1);
            let _ = window(5).position(Some(&odd), at(50 * HOUR));
        }
    }
}

proptest! {
    #[test]
    fn announced_wait_is_exact(
        limit in 1_u64..9, used in 0_u64..20, now in 0_u64..150 * HOUR, ahead in 0_u64..28 * HOUR, cost in 1_u64..10,
    ) {
        let (window, mut state) = (window(limit), None);
        let _ = window.force_charge(&mut state, at(now + ahead), used);
        waits::are_sufficient_and_tight(&window, state.as_ref(), at(now), cost);
    }

    #[test]
    fn different_data_admit_one_limit(
        steps in proptest::collection::vec((any::<bool>(), 0_u64..3 * HOUR, 1_u64..4), 1..120),
    ) {
        let (mut state, mut now) = (None, 40 * HOUR);
        let mut admitted: Option<(u64, u64)> = None;
        for (is_old, wait, cost) in steps {
            now += wait;
            let own = if is_old { window(5) } else { later(5) };
            // Each process has seen the key, so that neither drops it before the other does.
            let other = if is_old { later(5) } else { window(5) };
            let seen = other.decide(state.as_ref(), at(now), 0);
            let seen = if seen.repaired { seen.after } else { state };
            let decided = own.decide(seen.as_ref(), at(now), cost);
            let held = decided.after.map_or(0, |held| held.window);
            prop_assert!(admitted.is_none_or(|(window, _)| held >= window), "no window comes back");
            let before = admitted.filter(|(window, _)| *window == held).map_or(0, |(_, units)| units);
            let units = before + if decided.admitted { cost } else { 0 };
            prop_assert!(units <= 5, "{units} units in window {held}");
            admitted = Some((held, units));
            state = decided.after;
        }
    }

    #[test]
    fn expired_window_decides_like_none(now in 0_u64..150 * HOUR, late in 0_u64..40 * HOUR, cost in 0_u64..7) {
        let window = window(5);
        let state = window.decide(None, at(now), 3).after.unwrap();
        let then = at(window.expires_at(&state) + late);
        prop_assert_eq!(window.decide(Some(&state), then, cost), window.decide(None, then, cost));
    }
}
