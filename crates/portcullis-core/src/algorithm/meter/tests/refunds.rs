//! What a refund frees: as much as the charge still raises the level, and no more.

use alloc::vec::Vec;

use super::*;
use crate::{LeakyBucket, Refill, TokenBucket};

fn per_second(burst: u64) -> Meter {
    Meter::new(Quota::per_second(1), burst).unwrap()
}

fn seconds(count: u64) -> Timestamp {
    after(count * 1_000_000)
}

/// The state of a key under a rate-based algorithm.
struct Key<A> {
    meter: A,
    state: Option<Tat>,
}

impl<A: MeterAlgorithm> Key<A> {
    fn new(meter: A) -> Self {
        Self { meter, state: None }
    }

    fn charge(&mut self, now: Timestamp, units: u64) -> Run {
        assert!(self.meter.evaluate(self.state.as_ref(), now, units).admitted);
        self.meter.charge(&mut self.state, now, units);
        Run { units, position: self.meter.position(self.state.as_ref(), now) }
    }

    fn refund(&mut self, now: Timestamp, refund: Refund<'_>) -> bool {
        self.meter.refund(&mut self.state, now, refund)
    }

    fn used(&self, now: Timestamp) -> u64 {
        self.meter.meter().burst()
            - Algorithm::snapshot(&self.meter, self.state.as_ref(), now, 0, true).remaining
    }
}

#[test]
fn refunds_of_replenished_charges_free_nothing() {
    let mut key = Key::new(per_second(1));
    let collected: Vec<Run> = (0..300).map(|second| key.charge(seconds(second), 1)).collect();
    let mut admitted = 0;
    for run in collected {
        if key.meter.evaluate(key.state.as_ref(), seconds(300), 1).admitted {
            key.charge(seconds(300), 1);
            admitted += 1;
        }
        assert!(!key.refund(seconds(300), Refund::of(&[run])), "nothing is written either");
    }
    assert_eq!(admitted, 1);
}

#[test]
fn a_refund_frees_the_part_that_lies_after_now() {
    let mut key = Key::new(per_second(10));
    let (first, second) = (key.charge(NOW, 4), key.charge(NOW, 4));
    // The first run ends at the fourth second, the second one at the eighth.
    assert!(key.refund(after(2_500_000), Refund::of(&[first])));
    assert_eq!(key.state, Some(Tat { micros: after(6_500_000).as_micros(), remainder: 0 }));
    assert!(key.refund(after(2_500_000), Refund::of(&[second])));
    assert_eq!(key.state, None);
}

#[test]
fn refunding_runs_together_or_in_turn_is_the_same() {
    let charged = || {
        let mut key = Key::new(per_second(9));
        let runs = [key.charge(NOW, 2), key.charge(NOW, 3), key.charge(seconds(1), 4)];
        (key, runs)
    };
    for passed in [0, 1_000_000, 2_000_000, 2_700_000, 7_999_999, 8_000_000] {
        let now = after(1_000_000 + passed);
        let (mut at_once, runs) = charged();
        assert_eq!(at_once.refund(now, Refund::of(&runs)), passed < 8_000_000);
        let (mut one_by_one, runs) = charged();
        for run in runs {
            one_by_one.refund(now, Refund::of(&[run]));
        }
        assert_eq!(at_once.state, one_by_one.state, "{passed}");
        assert_eq!(at_once.used(now), 0, "{passed}");
    }
}

#[test]
fn settlement_refunds_the_newest_units_first() {
    let charged = || {
        let mut key = Key::new(per_second(9));
        let runs = [key.charge(NOW, 4), key.charge(NOW, 3)];
        (key, runs)
    };
    // After five seconds the second run has two units left, the first is replenished.
    for (units, used) in [(0, 2), (1, 1), (2, 0), (5, 0)] {
        let (mut key, runs) = charged();
        key.refund(seconds(5), Refund::of(&runs).at_most(units));
        assert_eq!(key.used(seconds(5)), used, "{units}");
    }
    let (_, runs) = charged();
    let units: Vec<u64> = Refund::of(&runs).at_most(5).runs().map(|run| run.units).collect();
    assert_eq!(units, [3, 2]);
}

#[test]
fn a_fraction_of_a_microsecond_is_freed_exactly() {
    let mut key = Key::new(Meter::new(Quota::per_second(3), 7).unwrap());
    let (first, second) = (key.charge(NOW, 1), key.charge(NOW, 1));
    assert_eq!((first.position.remainder, second.position.remainder), (1, 2));
    // A third of a microsecond of the first run is left.
    key.refund(after(333_333), Refund::of(&[first]));
    assert_eq!(key.state, Some(Tat { micros: after(666_666).as_micros(), remainder: 1 }));
}

#[test]
fn refund_between_refills_frees_whole_tokens() {
    let bucket = TokenBucket::new(Quota::per_minute(2).burst(6)).unwrap().refilled(Refill::Interval);
    let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
    let mut key = Key::new(bucket);
    let runs = [key.charge(at(50), 6)];
    for (second, used) in [(59, 6), (60, 4), (119, 4), (120, 2)] {
        assert_eq!(key.used(at(second)), used, "{second}");
    }
    // Four tokens have been refilled, whatever part of the minute has passed.
    assert!(key.refund(at(179), Refund::of(&runs).at_most(1)));
    assert_eq!(key.used(at(179)), 1);
    assert!(key.refund(at(179), Refund::of(&runs)));
    assert_eq!(key.state, None);
    assert!(!key.refund(at(180), Refund::of(&runs)));
}

#[test]
fn if_newest_frees_a_slot_only_without_later_charges() {
    let queue = || Key::new(LeakyBucket::new(Quota::per_second(1).burst(5)).unwrap());
    let leave = |queue: &mut Key<LeakyBucket>, runs: &[Run]| queue.refund(NOW, Refund::of(runs).if_newest());
    let mut one_each = queue();
    let [first, second, third] = [(); 3].map(|()| one_each.charge(NOW, 1));
    assert!(!leave(&mut one_each, &[second]), "the third slot builds on it");
    assert!(leave(&mut one_each, &[third]));
    assert!(leave(&mut one_each, &[second]), "now it is the newest");
    assert_eq!(one_each.charge(NOW, 1).position, second.position);
    assert!(!leave(&mut one_each, &[first]));
    assert_eq!(one_each.used(NOW), 2);

    // Several runs are freed from the newest on, as long as no later charge builds on them.
    let mut several = queue();
    let [first, other, third, fourth] = [(); 4].map(|()| several.charge(NOW, 1));
    assert!(leave(&mut several, &[first, third, fourth]));
    assert_eq!(several.used(NOW), 2);
    assert!(leave(&mut several, &[other]));
}

#[test]
fn run_of_an_older_quota_ends_where_the_state_does() {
    let mut key = Key::new(Meter::new(Quota::per_second(3), 2).unwrap());
    let runs = [key.charge(NOW, 2)];
    assert_eq!(runs[0].position.remainder, 2);
    let mut state = key.state;
    assert!(per_second(2).refund(&mut state, NOW, Refund::of(&runs).if_newest()));
    assert_eq!(state, None);
}

#[test]
fn refund_after_a_clock_step_frees_only_its_charge() {
    let mut key = Key::new(per_second(5));
    let run = key.charge(seconds(1_000), 1);
    let before = key.state.unwrap();
    assert!(key.refund(NOW, Refund::of(&[run])));
    assert_eq!(before.micros - key.state.unwrap().micros, 1_000_000);
}

proptest! {
    /// At any instant and in any order, a refund of a run lowers the level by its units or by its part after now, whichever is
    /// less, and never below empty.
    #[test]
    fn a_refund_never_frees_more_than_its_units(
        meter in meters(), charges in proptest::collection::vec((1_u64..9, 0u64..40_000), 1..9),
        refunds in proptest::collection::vec((any::<prop::sample::Index>(), 0u64..40_000), 1..12),
    ) {
        let (mut state, mut now, mut runs) = (None, NOW, Vec::new());
        for (units, wait) in charges {
            now = now.saturating_add(Duration::from_micros(wait));
            if meter.evaluate(state.as_ref(), now, units).admitted {
                meter.charge(&mut state, now, units);
                runs.push(Run { units, position: meter.position(state.as_ref(), now) });
            }
        }
        for (index, wait) in refunds {
            if runs.is_empty() {
                break;
            }
            now = now.saturating_add(Duration::from_micros(wait));
            let run = runs.swap_remove(index.index(runs.len()));
            let before = meter.raw_level(state.as_ref(), now);
            let changed = meter.refund(&mut state, now, Refund::of(&[run]));
            let freed = before - meter.raw_level(state.as_ref(), now);
            let after_now = meter.ahead(run.position.micros, run.position.remainder, now);
            prop_assert_eq!(freed, meter.units(run.units).min(after_now).min(before));
            prop_assert_eq!(changed, freed > 0);
        }
    }
}
