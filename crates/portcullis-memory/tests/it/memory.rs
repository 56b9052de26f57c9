//! The memory store through its public API: exact under threads, bounded under a flood, without allocations per check.

mod budget;
mod denials;
mod in_flight;
mod overflow;
mod policies;
mod several;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, Store};
use portcullis_core::{
    Clock, Gcra, Key, Policy, PolicySettings, Quota, Refill, Retry, Secret, SlidingWindow, Strategy,
    Timestamp, TokenBucket,
};
use portcullis_memory::MemoryStore;

#[derive(Clone, Default)]
struct Hand(Arc<AtomicU64>);

impl Hand {
    fn set(&self, at: Duration) {
        self.0.store(u64::try_from(at.as_micros()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::Relaxed))
    }
}

const MINUTE: Policy = Policy::fixed_window("minute", Quota::per_minute(10));
const SECOND: Policy = Policy::gcra("second", Quota::per_second(1).burst(3));

fn key(name: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", name.as_bytes());
    hasher.finish().unwrap()
}

fn check<C: Clock>(store: &MemoryStore<C>, checks: Checks) -> Outcome {
    store.check(checks).into_ready().expect("memory answers at once").unwrap()
}

fn allowed<C: Clock>(store: &MemoryStore<C>, policy: &Policy, name: &str) -> bool {
    check(store, Checks::one(policy.clone(), key(name), 1)).is_allowed()
}

#[test]
fn eight_threads_on_one_key_admit_exactly_the_budget() {
    let budget = 5_000;
    let policy = Policy::gcra("shared", Quota::new(1, Duration::from_hours(720), Some(800)).unwrap());
    let window = Policy::fixed_window("window", Quota::per_week(budget));
    let store = MemoryStore::new();
    let admitted = |policy: &Policy| {
        let count = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        count.fetch_add(u64::from(allowed(&store, policy, "ada")), Ordering::Relaxed);
                    }
                });
            }
        });
        count.into_inner()
    };
    assert_eq!(admitted(&policy), 800);
    assert_eq!(admitted(&window), budget);
}

#[test]
fn two_keys_charged_in_either_order_neither_deadlock_nor_leak() {
    let store = MemoryStore::new();
    let day = Policy::fixed_window("day", Quota::per_week(1_000));
    let count = AtomicU64::new(0);
    thread::scope(|scope| {
        for turn in 0..8 {
            let (store, day, count) = (&store, &day, &count);
            scope.spawn(move || {
                let (one, other) = if turn % 2 == 0 { ("a", "b") } else { ("b", "a") };
                for _ in 0..500 {
                    let checks =
                        Checks::one(day.clone(), key(one), 1).and(day.clone(), key(other), 1).unwrap();
                    count.fetch_add(u64::from(check(store, checks).is_allowed()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 1_000);
    for name in ["a", "b"] {
        assert_eq!(check(&store, Checks::one(day.clone(), key(name), 0)).decision().remaining(), 0);
    }
}

#[test]
fn several_policies_are_charged_together_or_not_at_all() {
    let clock = Hand::default();
    let store = MemoryStore::builder().clock(clock).build();
    let both = |cost| Checks::one(SECOND, key("ada"), cost).and(MINUTE, key("ada"), cost).unwrap();
    assert!(check(&store, both(3)).is_allowed());
    for _ in 0..50 {
        let denied = check(&store, both(1));
        assert_eq!(denied.decision().policy().as_str(), "second");
        assert_eq!(denied.decisions()[1].remaining(), 7);
        assert!(denied.decisions()[1].is_allowed());
        assert_eq!(denied.into_receipts().count(), 0);
    }
    let never = check(&store, both(11));
    assert_eq!(never.decision().retry(), Some(Retry::Never));
}

#[test]
fn keys_of_the_same_parts_are_charged_to_one_state() {
    let shared = || {
        let mut hasher = Secret::published().hasher();
        hasher.writer().shared_part("user", b"ada");
        hasher.finish().unwrap()
    };
    let day = Policy::sliding_log("day", Quota::per_day(10));
    for policy in [&SECOND, &MINUTE, &day] {
        let store = MemoryStore::builder().clock(Hand::default()).build();
        let limit = policy.strategy().limit();
        let both =
            |cost| Checks::one(policy.clone(), key("ada"), cost).and(policy.clone(), shared(), cost).unwrap();
        assert!(!check(&store, both(limit)).is_allowed());
        assert!(check(&store, both(1)).is_allowed());
        for key in [key("ada"), shared()] {
            let peek = check(&store, Checks::one(policy.clone(), key, 0));
            assert_eq!(peek.decision().remaining(), limit - 2);
        }
    }
}

#[test]
fn a_check_on_a_known_key_allocates_nothing() {
    let store = MemoryStore::new();
    let (user, other) = (key("ada"), key("grace"));
    let both = || Checks::one(SECOND, user, 1).and(MINUTE, other, 1).unwrap();
    let _ = check(&store, both());
    let counted = allocation_counter::measure(|| {
        for _ in 0..100 {
            let outcome = check(&store, both());
            assert_eq!(outcome.decisions().len(), 2);
            let _ = outcome.into_decision();
        }
    });
    assert_eq!(counted.count_total, 0);
}

#[test]
fn only_a_growing_log_allocates_for_a_known_key() {
    let quota = Quota::per_minute(50);
    let slots = SlidingWindow::with_slots(quota, 60).unwrap();
    let interval = TokenBucket::new(quota).unwrap().refilled(Refill::Interval);
    for policy in [
        Policy::token_bucket("greedy", quota),
        Policy::literal("interval", Strategy::TokenBucket(interval)),
        Policy::leaky_bucket("queue", quota),
        Policy::sliding_window("two counters", quota),
        Policy::literal("sixty slots", Strategy::SlidingWindow(slots)),
        Policy::sliding_log("log", quota),
    ] {
        let clock = Hand::default();
        // Without sweeping, an expired key stays known.
        let store = MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build();
        let user = key("ada");
        // A log grows to its limit once; from then on it reuses its memory.
        for millis in 0..60 {
            clock.set(Duration::from_millis(millis));
            let _ = check(&store, Checks::one(policy.clone(), user, 1));
        }
        let counted = allocation_counter::measure(|| {
            for second in 1..300 {
                clock.set(Duration::from_secs(second));
                for cost in [0, 1, 2, 49] {
                    let _ = check(&store, Checks::one(policy.clone(), user, cost));
                }
            }
        });
        assert_eq!(counted.count_total, 0, "{}", policy.name());
    }
}

#[test]
fn a_check_of_a_parsed_policy_allocates_nothing() {
    let store = MemoryStore::new();
    let policy =
        Policy::try_new("loaded", Gcra::new("10/s".parse().unwrap()), PolicySettings::default()).unwrap();
    let user = key("ada");
    let _ = check(&store, Checks::one(policy.clone(), user, 1));
    let counted = allocation_counter::measure(|| {
        let _ = check(&store, Checks::one(policy.clone(), user, 1));
    });
    assert_eq!(counted.count_total, 0);
}

#[test]
fn checks_sweep_the_expired_keys_of_others() {
    let clock = Hand::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    for number in 0..50_000 {
        assert!(allowed(&store, &SECOND, &number.to_string()));
        clock.set(Duration::from_millis(number));
    }
    assert!(store.stats().entries < 10_000, "{:?}", store.stats());
}

#[test]
fn a_receipt_is_refunded_or_settled_once() {
    let store = MemoryStore::builder().clock(Hand::default()).build();
    let charge = |cost| {
        let mut receipts = check(&store, Checks::one(MINUTE, key("ada"), cost)).into_receipts();
        receipts.next().unwrap()
    };
    let refunded = store.refund(charge(4)).into_ready().unwrap().unwrap();
    assert_eq!(refunded.remaining(), 10);

    let less = store.settle(charge(4), 1).into_ready().unwrap().unwrap();
    assert_eq!((less.decision.remaining(), less.uncharged), (9, 0));
    let more = store.settle(charge(4), 7).into_ready().unwrap().unwrap();
    assert_eq!((more.decision.remaining(), more.uncharged), (2, 0));
    let debt = store.settle(charge(1), 50).into_ready().unwrap().unwrap();
    assert_eq!((debt.decision.remaining(), debt.uncharged), (0, 38));

    store.reset(&MINUTE, key("ada")).into_ready().unwrap().unwrap();
    assert_eq!(check(&store, Checks::one(MINUTE, key("ada"), 0)).decision().remaining(), 10);
}

#[test]
fn the_system_clock_follows_the_wall_clock() {
    let store = MemoryStore::new();
    let before = Timestamp::from(std::time::SystemTime::now());
    let at = check(&store, Checks::one(MINUTE, key("ada"), 1)).decision().at();
    assert!(at.saturating_since(before) < Duration::from_secs(10));
    assert!(before.saturating_since(at) < Duration::from_secs(10));
}
