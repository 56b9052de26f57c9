use alloc::vec::Vec;
use core::iter::repeat_n;
use core::time::Duration;

use proptest::prelude::*;

use crate::algorithm::{Algorithm, Log};
use crate::charge::{Position, Run};
use crate::refund::Refund;
use crate::{Quota, SlidingLog, Timestamp};

const PERIOD: u64 = 1_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn index(units: u64) -> usize {
    units.try_into().unwrap()
}

fn algorithm(limit: u64) -> SlidingLog {
    SlidingLog::new(Quota::new(limit, Duration::from_micros(PERIOD), None).unwrap()).unwrap()
}

/// A model of a log: one stamp per unit, searched linearly.
#[derive(Clone, Debug, Default)]
struct Stamps(Vec<u64>);

impl Stamps {
    fn advance(&mut self, now: u64) -> bool {
        let Some(newest) = self.0.last().copied() else { return false };
        let lowered = if newest > now + PERIOD { newest - now } else { 0 };
        self.0.iter_mut().for_each(|stamp| *stamp = stamp.saturating_sub(lowered));
        let time = now.max(newest - lowered);
        self.0.retain(|stamp| stamp + PERIOD > time);
        lowered > 0
    }

    fn charge(&mut self, now: u64, units: u64) -> u64 {
        self.advance(now);
        let stamp = self.0.last().map_or(now, |newest| now.max(*newest));
        self.0.extend(repeat_n(stamp, index(units)));
        stamp
    }

    fn refund(&mut self, now: u64, charged_at: u64, units: u64) {
        self.advance(now);
        for _ in 0..units {
            let Some(index) = self.0.iter().position(|stamp| *stamp == charged_at) else { return };
            self.0.remove(index);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Check(u64),
    ForceCharge(u64),
    /// The charge to refund, counted from the newest one, and the units.
    Refund(usize, u64),
}

fn steps() -> impl Strategy<Value = Vec<(i64, Step)>> {
    let step = prop_oneof![
        4 => (0_u64..12).prop_map(Step::Check),
        1 => (0_u64..30).prop_map(Step::ForceCharge),
        2 => (0_usize..6, 0_u64..9).prop_map(|(back, units)| Step::Refund(back, units)),
    ];
    let later = prop_oneof![Just(0_i64), 1_i64..50, 1_i64..1_500, -50_i64..0, -3_000_i64..0];
    proptest::collection::vec((later, step), 1..80)
}

proptest! {
    #[test]
    fn runs_agree_with_a_model_of_stamps(limit in 1_u64..20, steps in steps()) {
        let algorithm = algorithm(limit);
        let (mut log, mut stamps, mut charges) = (None::<Log>, Stamps::default(), Vec::new());
        let mut now = 5_000_u64;
        for (later, step) in steps {
            now = now.saturating_add_signed(later).max(1);
            let mut live = stamps.clone();
            let repair = live.advance(now);
            let used = u64::try_from(live.0.len()).unwrap();
            match step {
                Step::Check(cost) => {
                    let fits = cost == 0 || used + cost <= limit;
                    let evaluation = algorithm.evaluate(log.as_ref(), at(now), cost);
                    prop_assert_eq!((evaluation.admitted, evaluation.repair), (fits, repair));
                    let snapshot = algorithm.snapshot(log.as_ref(), at(now), cost, fits);
                    let until = |index: usize| {
                        let held = live.0.get(index).map_or(0, |stamp| (stamp + PERIOD).saturating_sub(now));
                        Duration::from_micros(held)
                    };
                    prop_assert_eq!(snapshot.remaining, limit.saturating_sub(used));
                    prop_assert_eq!(snapshot.reset_after, until(live.0.len().wrapping_sub(1)));
                    prop_assert_eq!(snapshot.next_after, until(index(used.saturating_sub(limit))));
                    if !fits && cost <= limit {
                        let wait = until(index(used + cost - limit - 1));
                        prop_assert_eq!(snapshot.retry, Some(crate::Retry::After(wait)));
                    }
                    if fits && cost > 0 {
                        algorithm.charge(&mut log, at(now), cost);
                        charges.push(stamps.charge(now, cost));
                        prop_assert_eq!(algorithm.position(log.as_ref(), at(now)), Position::at(charges[charges.len() - 1]));
                    }
                }
                Step::ForceCharge(units) => {
                    let charged = units.min((2 * limit).saturating_sub(used));
                    let forced = algorithm.force_charge(&mut log, at(now), units);
                    prop_assert_eq!(forced.uncharged, units - charged);
                    stamps.charge(now, charged);
                }
                Step::Refund(back, units) => {
                    let Some(charged_at) = charges.iter().rev().nth(back) else { continue };
                    let run = [Run { units, position: Position::at(*charged_at) }];
                    if algorithm.refund(&mut log, at(now), Refund::of(&run)) {
                        stamps.refund(now, *charged_at, units);
                    }
                }
            }
            algorithm.advance(&mut log, at(now));
            stamps.advance(now);
            let held: Vec<u64> = log.iter().flat_map(Log::stamps).collect();
            prop_assert_eq!(&held, &stamps.0);
            prop_assert!(log.as_ref().is_none_or(|log| *log == Log::new(held)));
        }
    }

    #[test]
    fn merged_runs_expire_no_earlier_and_little_later(
        limit in 8_u64..200, capacity in 2_u64..7, waits in proptest::collection::vec(0_u64..120, 1..400),
    ) {
        let (algorithm, capacity) = (algorithm(limit), 1_usize << capacity);
        let (mut log, mut admitted, mut now) = (None::<Log>, Vec::new(), 5_000);
        for wait in waits {
            now += wait;
            if log.as_ref().is_some_and(|log: &Log| log.runs.capacity() >= capacity) {
                algorithm.compact(&mut log, at(now));
                prop_assert!(log.is_none() || algorithm.growth(log.as_ref(), at(now)) == 0);
            }
            let remaining = algorithm.snapshot(log.as_ref(), at(now), 0, true).remaining;
            let left_by = |then: u64| {
                u64::try_from(admitted.iter().filter(|stamp| **stamp + PERIOD <= then).count()).unwrap()
            };
            let charged = u64::try_from(admitted.len()).unwrap();
            prop_assert!(remaining <= limit - (charged - left_by(now)), "a unit has expired too early");
            let late = now.saturating_sub(4 * PERIOD / capacity as u64 + 1);
            prop_assert!(remaining + (charged - left_by(late)) >= limit, "a unit expires too late");
            if algorithm.evaluate(log.as_ref(), at(now), 1).admitted {
                algorithm.charge(&mut log, at(now), 1);
                admitted.push(now);
            }
            prop_assert!(log.as_ref().is_none_or(|log| log.runs.capacity() <= capacity));
        }
    }
}

#[test]
fn a_burst_at_one_instant_is_one_run() {
    let algorithm = algorithm(100_000);
    let mut log = None;
    for _ in 0..10 {
        algorithm.charge(&mut log, at(7), 10_000);
    }
    let log = log.unwrap();
    assert!(log.runs().eq([(7, 100_000)]) && log.stamps().count() == 100_000);
    assert_eq!(log.heap_bytes(), 64);
}

#[test]
fn a_log_takes_16_bytes_per_instant() {
    let algorithm = algorithm(1_000);
    let (mut log, mut bytes) = (None, 0);
    for micros in 0..1_000 {
        bytes += algorithm.growth(log.as_ref(), at(micros / 2 * 2));
        algorithm.charge(&mut log, at(micros / 2 * 2), 1);
        assert_eq!(log.as_ref().map_or(0, Log::heap_bytes), bytes);
    }
    assert_eq!(bytes, 16 * 512);
    for micros in 0..500 {
        bytes += algorithm.growth(log.as_ref(), at(998 + micros));
        let _ = algorithm.force_charge(&mut log, at(998 + micros), 1);
        assert_eq!(log.as_ref().map_or(0, Log::heap_bytes), bytes);
    }
    assert_eq!(bytes, 16 * 1_000, "at most its limit, while there are no more instants");
}

#[test]
fn memory_of_a_past_burst_is_freed() {
    let algorithm = algorithm(1_000);
    let mut log = None;
    (0..1_000).for_each(|micros| algorithm.charge(&mut log, at(micros), 1));
    algorithm.charge(&mut log, at(10 * PERIOD), 1);
    assert_eq!(log.map(|log| log.heap_bytes()), Some(16 * 64));
}

#[test]
fn logs_are_equal_regardless_of_expired_units() {
    let algorithm = algorithm(9);
    let mut old = None;
    for micros in [1, 2, 1_500] {
        algorithm.charge(&mut old, at(micros), 3);
    }
    let mut fresh = None;
    algorithm.charge(&mut fresh, at(1_500), 3);
    assert_eq!(old, fresh);
    assert_ne!(old, None);
}
