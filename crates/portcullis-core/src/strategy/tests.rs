use core::time::Duration;

use alloc::vec::Vec;

use super::*;
use crate::charge::Run;
use crate::{Quota, Retry, WindowTable};

const NOW: Timestamp = Timestamp::from_micros(1_000_500_000);

fn after(micros: u64) -> Timestamp {
    NOW.saturating_add(Duration::from_micros(micros))
}

/// Windows of ten seconds.
static STARTS: [Timestamp; 3] = [
    Timestamp::from_micros(990_000_000),
    Timestamp::from_micros(1_000_000_000),
    Timestamp::from_micros(1_010_000_000),
];
static TABLE: WindowTable = match WindowTable::new("ten seconds", 1, &STARTS) {
    Ok(table) => table,
    Err(_) => panic!("the starts ascend"),
};

/// Four units per ten seconds.
fn all() -> [Strategy; 8] {
    let quota = Quota::new(4, Duration::from_secs(10), None).unwrap();
    [
        Strategy::TokenBucket(TokenBucket::new(quota).unwrap()),
        Strategy::Gcra(Gcra::new(quota.burst(4)).unwrap()),
        Strategy::LeakyBucket(LeakyBucket::new(quota).unwrap()),
        Strategy::FixedWindow(FixedWindow::new(quota).unwrap()),
        Strategy::CalendarWindow(CalendarWindow::new(4, &TABLE).unwrap()),
        Strategy::SlidingWindow(SlidingWindow::new(quota).unwrap()),
        Strategy::SlidingLog(SlidingLog::new(quota).unwrap()),
        Strategy::InFlight(InFlight::new(4).unwrap()),
    ]
}

fn remaining(strategy: &Strategy, state: Option<&State>, now: Timestamp) -> u64 {
    strategy.snapshot(state, now, 0, true).remaining
}

#[test]
fn an_optional_state_takes_40_bytes() {
    assert_eq!(size_of::<Option<State>>(), 40);
}

#[test]
fn every_strategy_has_a_tag_and_a_limit() {
    let names: Vec<_> = all().iter().map(Strategy::tag).collect();
    assert_eq!(
        names,
        [
            "token_bucket",
            "gcra",
            "leaky_bucket",
            "fixed_window",
            "calendar_window",
            "sliding_window",
            "sliding_log",
            "in_flight"
        ]
    );
    assert!(all().iter().all(|strategy| strategy.limit() == 4));
}

#[test]
fn every_strategy_charges_denies_and_refunds() {
    for strategy in all() {
        let mut state = None;
        assert_eq!(remaining(&strategy, None, NOW), 4);
        strategy.charge(&mut state, NOW, 3);
        assert_eq!(remaining(&strategy, state.as_ref(), NOW), 1);
        let evaluation = |cost| strategy.evaluate(state.as_ref(), NOW, cost);
        assert!(
            evaluation(1).admitted
                && !evaluation(2).admitted
                && evaluation(0).admitted
                && !evaluation(1).repair
        );
        let denied = strategy.snapshot(state.as_ref(), NOW, 2, false);
        match strategy {
            Strategy::InFlight(_) => assert_eq!(denied.retry, Some(Retry::Unknown)),
            _ => assert!(
                denied.retry > Some(Retry::After(Duration::ZERO)) && denied.retry < Some(Retry::Unknown)
            ),
        }

        let decided = strategy.decide(state.as_ref(), NOW, 1);
        assert!(decided.admitted && !decided.repaired);
        assert_eq!(decided.before.as_ref().map(|before| remaining(&strategy, Some(before), NOW)), Some(1));
        assert_eq!(decided.after.as_ref().map(|after| remaining(&strategy, Some(after), NOW)), Some(0));
        let denied = strategy.decide(state.as_ref(), NOW, 2);
        assert!(!denied.admitted && denied.after == denied.before);
        let peeked = strategy.decide(state.as_ref(), NOW, 0);
        assert!(peeked.admitted && peeked.after == state);
        assert_eq!(strategy.decide(None, NOW, 0).after, None);

        let forced = strategy.force_charge(&mut state, NOW, 7);
        assert_eq!((forced.charged, forced.uncharged, forced.changed), (5, 2, true));
        let debt = state.clone();
        let run = |units| [Run { units, position: strategy.position(debt.as_ref(), NOW) }];
        assert!(!strategy.refund(&mut state, after(40_000_000), Refund::of(&run(1))), "{strategy:?}");
        assert!(strategy.refund(&mut state, NOW, Refund::of(&run(7))), "{strategy:?}");
        assert_eq!(remaining(&strategy, state.as_ref(), NOW), 3);

        let end = strategy.expires_at(state.as_ref().unwrap());
        assert!(end > NOW.as_micros());
        assert_eq!(remaining(&strategy, state.as_ref(), Timestamp::from_micros(end)), 4);
        assert!(remaining(&strategy, state.as_ref(), Timestamp::from_micros(end - 1)) < 4);
        strategy.advance(&mut state, Timestamp::from_micros(end));
        assert_eq!(state, None);
    }
}

#[test]
fn apply_decision_writes_only_charges_and_repairs() {
    for strategy in all() {
        let mut state = None;
        let apply = |state: &mut Option<State>, now, cost, charge| {
            let evaluation = strategy.evaluate(state.as_ref(), now, cost);
            (strategy.apply_decision(state, now, cost, evaluation, charge), evaluation.repair)
        };
        assert_eq!(apply(&mut state, NOW, 0, true), (false, false));
        assert_eq!(apply(&mut state, NOW, 3, false), (false, false));
        assert_eq!(state, None);
        assert_eq!(apply(&mut state, NOW, 3, true), (true, false));
        let charged = state.clone();
        assert_eq!(apply(&mut state, NOW, 0, true), (false, false));
        assert_eq!(apply(&mut state, after(1), 1, false), (false, false));
        assert_eq!(state, charged);

        // The clock was set back far enough that even a peek writes.
        let back = Timestamp::from_micros(500_000);
        assert_eq!(apply(&mut state, back, 0, true), (true, true));
        assert_ne!(state, charged);
        let moved = state.clone();
        assert_eq!(apply(&mut state, back, 0, true), (false, false));
        assert_eq!(state, moved);
    }
}

#[test]
fn state_of_another_strategy_is_ignored() {
    for strategy in all() {
        for other in all() {
            let mut state = None;
            other.charge(&mut state, NOW, 4);
            let own = core::mem::discriminant(state.as_ref().unwrap());
            let mut mine = None;
            strategy.charge(&mut mine, NOW, 1);
            if own != core::mem::discriminant(mine.as_ref().unwrap()) {
                assert_eq!(remaining(&strategy, state.as_ref(), NOW), 4);
                assert_eq!(strategy.expires_at(state.as_ref().unwrap()), 0);
                strategy.charge(&mut state, NOW, 1);
                assert_eq!(state, mine);
            }
        }
    }
}

#[test]
fn states_ahead_of_the_clock_are_repaired() {
    let back = Timestamp::from_micros(500_000);
    for strategy in all() {
        let mut far = None;
        let _ = strategy.force_charge(&mut far, NOW, 8);
        let mut moved = far.clone();
        strategy.advance(&mut moved, back);
        assert_ne!(moved, far);
        assert_eq!(strategy.evaluate(far.as_ref(), back, 1), Evaluation { admitted: false, repair: true });
        assert_eq!(strategy.evaluate(moved.as_ref(), back, 1), Evaluation { admitted: false, repair: false });
        assert_eq!(
            strategy.snapshot(far.as_ref(), back, 1, false),
            strategy.snapshot(moved.as_ref(), back, 1, false)
        );

        let mut state = far.clone();
        assert_eq!(
            strategy.force_charge(&mut state, back, 0),
            ForcedCharge { charged: 0, uncharged: 0, changed: true }
        );
        assert_eq!(state, moved);
        assert_eq!(
            strategy.force_charge(&mut state, back, 0),
            ForcedCharge { charged: 0, uncharged: 0, changed: false }
        );
        assert_eq!(state, moved);

        let (mut state, meter) = (far.clone(), matches!(far, Some(State::Tat(_))));
        // A rate-based algorithm leaves the repair to the next decision: a refund frees only what was charged.
        assert_eq!(strategy.refund(&mut state, back, Refund::of(&[])), !meter);
        assert_eq!(state, if meter { far } else { moved.clone() });
        assert!(!strategy.refund(&mut moved, back, Refund::of(&[])));
    }
}
