//! What a state admits while two versions of a policy use it in turn, as during a rollout.

use std::time::Duration;

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{
    Anchor, FixedWindow, Key, Policy, Quota, Refill, Secret, SlidingWindow, Strategy, Timestamp, TokenBucket,
};
use portcullis_memory::MemoryStore;
use portcullis_testing::ManualClock;

/// Returns how many of 2 000 requests at one instant are admitted.
fn admitted(one: &Policy, other: &Policy) -> usize {
    let store =
        MemoryStore::builder().clock(ManualClock::new(Timestamp::from_micros(1_000_000_000_000))).build();
    let is_admitted = |policy: &Policy| {
        let checks = Checks::one(policy.clone(), ada(), 1);
        store.check(checks).into_ready().expect("memory answers at once").unwrap().is_allowed()
    };
    (0..1_000).flat_map(|_| [one, other]).filter(|policy| is_admitted(policy)).count()
}

fn ada() -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"ada");
    hasher.finish().unwrap()
}

#[test]
fn two_limits_admit_no_more_than_the_higher_one() {
    let (few, many) = (Quota::per_hour(100), Quota::per_hour(150));
    for make in [Policy::fixed_window, Policy::sliding_window, Policy::sliding_log] {
        assert_eq!(admitted(&make("p", few), &make("p", many)), 150);
    }
    // Each version keeps the time that the other has charged.
    let gcra = |quota: Quota| Policy::gcra("p", quota.burst(quota.limit()));
    let bucket = |quota| Policy::token_bucket("p", quota);
    for (one, other) in [(gcra(few), gcra(many)), (bucket(few), bucket(many))] {
        assert!((100..=150).contains(&admitted(&one, &other)));
    }
}

/// Each has states of its own, so that neither resets those of the other.
#[test]
fn windows_of_two_lengths_admit_the_limit_of_each() {
    let (hour, day) = (Quota::per_hour(100), Quota::per_day(70));
    for make in [Policy::fixed_window, Policy::sliding_window, Policy::sliding_log] {
        assert_eq!(admitted(&make("p", hour), &make("p", day)), 170);
    }
    let slots = |slots| {
        Policy::literal("p", Strategy::SlidingWindow(SlidingWindow::with_slots(hour, slots).unwrap()))
    };
    assert_eq!(admitted(&slots(6), &slots(60)), 200);
    let anchored = |anchor| {
        Policy::literal("p", Strategy::FixedWindow(FixedWindow::new(hour).unwrap().anchored(anchor)))
    };
    assert_eq!(admitted(&anchored(Anchor::Epoch), &anchored(Anchor::FirstRequest)), 200);
    let bucket = TokenBucket::new(hour).unwrap();
    let refilled = |refill| Policy::literal("p", Strategy::TokenBucket(bucket.refilled(refill)));
    assert_eq!(admitted(&refilled(Refill::Greedy), &refilled(Refill::Interval)), 200);
}

#[test]
fn other_times_to_full_admit_far_more() {
    let gcra = |burst| Policy::gcra("p", Quota::per_hour(100).burst(burst));
    assert!(admitted(&gcra(10), &gcra(100)) > 900);
}

#[test]
fn a_sweep_keeps_what_counts_under_another_interval() {
    let bucket = |quota| {
        let bucket = TokenBucket::new(quota).unwrap().refilled(Refill::Interval);
        Policy::literal("p", Strategy::TokenBucket(bucket))
    };
    let (interval, brief) = (bucket(Quota::per_minute(10)), bucket(Quota::per_second(10)));
    let clock = ManualClock::new(Timestamp::EPOCH);
    // So small that it has one shard, which every check sweeps.
    let store = MemoryStore::builder().capacity(100).clock(clock.clone()).build();
    let remaining = |policy: &Policy, key: Key, cost: u64| {
        let checks = Checks::one(policy.clone(), key, cost);
        let outcome = store.check(checks).into_ready().expect("memory answers at once").unwrap();
        outcome.decision().remaining()
    };
    assert_eq!(remaining(&interval, ada(), 5), 5);
    // The five units have drained at 30 seconds, but are refilled at the end of the minute.
    clock.advance(Duration::from_secs(40));
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"grace");
    let grace = hasher.finish().unwrap();
    for _ in 0..100 {
        remaining(&brief, grace, 1);
    }
    assert_eq!(remaining(&interval, ada(), 0), 5);
    clock.advance(Duration::from_secs(20));
    assert_eq!(remaining(&interval, ada(), 0), 10);
}

/// The shares of more instances than the limit are windows of other lengths. A shard has few of them in small entries, and any number in
/// larger ones.
#[test]
fn shares_of_any_length_admit_a_unit_in_their_window() {
    for make in [Policy::fixed_window, Policy::sliding_window] {
        let clock = ManualClock::new(Timestamp::EPOCH);
        // In one shard.
        let store = MemoryStore::builder().capacity(1_000).clock(clock.clone()).build();
        let policy = make("p", Quota::per_second(1));
        let share = |instances: u32| policy.share_among(instances.try_into().unwrap()).unwrap();
        let key = |instances: u32| {
            let mut hasher = Secret::published().hasher();
            hasher.writer().part("user", &instances.to_be_bytes());
            hasher.finish().unwrap()
        };
        let decide = |checks| store.check(checks).into_ready().expect("memory answers at once").unwrap();
        let of = |instances, cost| decide(Checks::one(share(instances), key(instances), cost));
        let admits = |instances| of(instances, 1).is_allowed();
        for instances in 1..=63 {
            assert!(admits(instances) && !admits(instances), "{instances}");
        }
        // Of one decision, in which the second length is more than fit.
        let both =
            |cost| decide(Checks::one(share(64), key(64), cost).and(share(65), key(65), cost).unwrap());
        assert!(both(1).is_allowed());
        assert!(both(0).decisions().iter().all(|decision| decision.remaining() == 0), "{:?}", both(0));
        for instances in 66..200 {
            assert_eq!(of(instances, 0).decision().remaining(), 1);
            assert!(admits(instances) && !admits(instances), "{instances}");
            assert_eq!(of(instances, 0).decision().remaining(), 0);
        }
        for instances in 2..200 {
            assert!(!admits(instances), "{instances}");
        }
        assert_eq!((store.stats().entries, store.stats().overflow_states), (199, 0));
        clock.advance(Duration::from_secs(400));
        assert!((1..200).all(|instances| admits(instances) && !admits(instances)));
        assert_eq!(store.stats().overflow_states, 0);
    }
}

#[test]
fn policies_under_different_names_have_separate_states() {
    let old = Policy::fixed_window("old", Quota::per_hour(100));
    let new = Policy::fixed_window("new", Quota::per_day(100));
    assert_eq!(admitted(&old, &new), 200);
}
