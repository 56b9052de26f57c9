use alloc::string::ToString as _;

use proptest::prelude::*;

use super::*;
use crate::Retry;
use crate::algorithm::waits;
use crate::charge::Run;

const MINUTE: u64 = 60_000_000;

fn log(limit: u64) -> SlidingLog {
    SlidingLog::new(Quota::per_minute(limit)).unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn charged(log: SlidingLog, charges: &[(u64, u64)]) -> Option<Log> {
    let mut state = None;
    for (micros, units) in charges {
        log.charge(&mut state, at(*micros), *units);
    }
    state
}

fn refund(log: SlidingLog, state: &mut Option<Log>, now: u64, charged_at: u64, units: u64) -> bool {
    let runs = [Run { units, position: Position::at(charged_at) }];
    log.refund(state, at(now), Refund::of(&runs))
}

fn remaining(log: SlidingLog, state: Option<&Log>, micros: u64) -> u64 {
    log.snapshot(state, at(micros), 0, true).remaining
}

#[test]
fn error_for_a_too_long_log_suggests_a_sliding_window() {
    let error = SlidingLog::new(Quota::per_day(100_001)).unwrap_err();
    assert_eq!(error, QuotaError::LogTooLong { limit: 100_001 });
    assert!(error.to_string().contains("sliding window"));
    assert!(SlidingLog::new(Quota::per_day(100_000)).is_ok());
    assert!(SlidingLog::new(Quota::per_day(1).burst(1)).is_err());
}

#[test]
fn units_count_for_exactly_one_period() {
    let state = charged(log(3), &[(0, 1), (10, 2)]);
    for (micros, left) in [(10, 0), (MINUTE - 1, 0), (MINUTE, 1), (MINUTE + 9, 1), (MINUTE + 10, 3)] {
        assert_eq!(remaining(log(3), state.as_ref(), micros), left, "{micros}");
    }
    assert_eq!(log(3).expires_at(state.as_ref().unwrap()), MINUTE + 10);
}

#[test]
fn shorter_period_expires_units_and_lower_limit_denies() {
    let state = charged(log(5), &[(0, 3), (30_000_000, 2)]);
    let shorter = SlidingLog::new(Quota::new(5, Duration::from_secs(30), None).unwrap()).unwrap();
    assert_eq!(remaining(shorter, state.as_ref(), 31_000_000), 3);
    let snapshot = log(2).snapshot(state.as_ref(), at(31_000_000), 1, false);
    assert_eq!((snapshot.remaining, snapshot.next_after), (0, Duration::from_secs(59)));
    assert_eq!(snapshot.retry, Some(Retry::After(Duration::from_secs(59))));
}

#[test]
fn clock_step_back_freezes_time_for_at_most_one_period() {
    let state = charged(log(2), &[(10 * MINUTE - 5, 1), (10 * MINUTE, 1)]);
    let held = log(2).decide(state.as_ref(), at(9 * MINUTE), 1);
    assert_eq!((held.admitted, held.repaired, &held.before), (false, false, &state));
    let moved = log(2).decide(state.as_ref(), at(9 * MINUTE - 1), 1);
    assert!(moved.repaired && !moved.admitted);
    assert_eq!(moved.before, charged(log(2), &[(9 * MINUTE - 6, 1), (9 * MINUTE - 1, 1)]));
}

#[test]
fn refund_removes_only_its_own_stamps() {
    let log = log(9);
    let mut state = charged(log, &[(5, 2), (7, 3), (7, 1)]);
    assert!(!refund(log, &mut state, 8, 6, 2));
    assert!(!refund(log, &mut state, 8, 7, 0));
    assert!(refund(log, &mut state, 8, 7, 3));
    assert_eq!(state, charged(log, &[(5, 2), (7, 1)]));
    assert!(refund(log, &mut state, 8, 5, 9));
    assert!(!refund(log, &mut state, 7 + MINUTE, 7, 1), "it has expired");
    assert!(refund(log, &mut state, 8, 7, 1));
    assert_eq!(state, None);
}

#[test]
fn refund_finds_its_stamps_after_a_step_to_the_epoch() {
    let log = log(9);
    let mut state = charged(log, &[(5, 1), (7, 1), (MINUTE + 2, 2)]);
    assert!(refund(log, &mut state, 1, 1, 1), "all stamps are lowered until the newest is 1");
    assert_eq!(state, Some(Log::new([0, 0, 1])));
}

#[test]
fn a_view_agrees_with_its_log() {
    let log = log(3);
    let state = charged(log, &[(5, 2), (9, 1)]);
    for (micros, cost) in [(9, 2), (7, 1), (MINUTE + 5, 2), (MINUTE + 9, 1)] {
        let (now, held) = (at(micros), state.as_ref());
        let view = log.view(held, now, cost);
        let admitted = log.evaluate(held, now, cost).admitted;
        assert_eq!(log.snapshot_of(view, now, cost, admitted), log.snapshot(held, now, cost, admitted));
        assert_eq!(log.position_of(view, now), log.position(held, now));
        assert!(view.is_none_or(|view| log.expiry_of(view) == MINUTE + 9));
    }
    assert_eq!(log.position_of(log.view(state.as_ref(), at(7), 1), at(7)), Position::at(9));
    assert_eq!(log.position_of(None, at(7)), Position::at(7));
    // Close to the epoch a default stamp of 0 would still count.
    let idle = log.snapshot_of(None, at(7), 0, true);
    assert_eq!((idle.remaining, idle.reset_after, idle.next_after), (3, Duration::ZERO, Duration::ZERO));
}

#[test]
fn charge_after_all_units_have_expired_starts_a_new_log() {
    let mut state = charged(log(3), &[(5, 2)]);
    log(3).charge(&mut state, at(MINUTE + 5), 1);
    assert_eq!(state, charged(log(3), &[(MINUTE + 5, 1)]));
}

#[test]
fn forced_charge_of_nothing_keeps_the_log() {
    let mut state = charged(log(1), &[(5, 1), (MINUTE, 1), (MINUTE, 1)]);
    let held = state.clone();
    assert_eq!(
        log(1).force_charge(&mut state, at(MINUTE + 5), 0),
        ForcedCharge { charged: 0, uncharged: 0, changed: false }
    );
    assert_eq!(
        log(1).force_charge(&mut state, at(MINUTE + 5), 7),
        ForcedCharge { charged: 0, uncharged: 7, changed: false }
    );
    assert_eq!(state, held);
    let mut nothing = None;
    assert_eq!(
        log(1).force_charge(&mut nothing, at(5), 0),
        ForcedCharge { charged: 0, uncharged: 0, changed: false }
    );
    assert_eq!(nothing, None);
}

#[test]
fn debt_ends_at_one_limit_and_reports_uncharged_units() {
    let log = log(5);
    let mut state = charged(log, &[(0, 3)]);
    assert_eq!(
        log.force_charge(&mut state, at(1), 9),
        ForcedCharge { charged: 7, uncharged: 2, changed: true }
    );
    assert_eq!(
        log.force_charge(&mut state, at(1), 9),
        ForcedCharge { charged: 0, uncharged: 9, changed: false }
    );
    let snapshot = log.snapshot(state.as_ref(), at(1), 1, false);
    assert_eq!((snapshot.remaining, snapshot.next_after), (0, Duration::from_mins(1)));
}

proptest! {
    #[test]
    fn waits_are_sufficient_and_tight(
        limit in 1_u64..40, charges in proptest::collection::vec((0u64..30_000_000, 1_u64..9), 1..9),
        later in 0u64..2 * MINUTE, cost in 1_u64..45,
    ) {
        let log = log(limit);
        let (mut state, mut now) = (None, 0);
        for (wait, units) in charges {
            now += wait;
            let _ = log.force_charge(&mut state, at(now), units);
        }
        now += later;
        waits::are_sufficient_and_tight(&log, state.as_ref(), at(now), cost);
    }
}
