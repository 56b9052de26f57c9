//! The store under thousands of thread interleavings.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::{Checks, Store};
use portcullis_core::{Clock, FixedWindow, Gcra, Key, Policy, PolicySettings, Quota, Secret, Timestamp};
use portcullis_memory::MemoryStore;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread;

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_000_000)
    }
}

/// A clock that advances by a microsecond whenever it is read.
#[derive(Default)]
struct TickingClock(AtomicU64);

impl Clock for TickingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

const WEEKLY: Policy = Policy::fixed_window("weekly", Quota::per_week(3));

fn key(number: u8) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", &[number]);
    hasher.finish().unwrap()
}

fn store() -> Arc<MemoryStore<StoppedClock>> {
    // Large enough to have shards.
    Arc::new(MemoryStore::builder().capacity(1_000_000).clock(StoppedClock).build())
}

fn admitted(store: &MemoryStore<StoppedClock>, checks: Checks) -> u32 {
    u32::from(store.check(checks).into_ready().unwrap().unwrap().is_allowed())
}

#[test]
fn one_key_never_admits_more_or_less_than_its_budget() {
    shuttle::check_random(
        || {
            let store = store();
            let threads = (0..3).map(|_| {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    (0..2).map(|_| admitted(&store, Checks::one(WEEKLY, key(0), 1))).sum::<u32>()
                })
            });
            let threads: Vec<_> = threads.collect();
            assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>(), 3);
        },
        2_000,
    );
}

#[test]
fn reset_ends_denials_that_need_no_lock() {
    shuttle::check_random(
        || {
            let store = store();
            assert_eq!(admitted(&store, Checks::one(WEEKLY, key(0), 3)), 1);
            for _ in 0..2 {
                assert_eq!(admitted(&store, Checks::one(WEEKLY, key(0), 1)), 0);
            }
            let check_all = |store: Arc<MemoryStore<_>>, first: fn(&MemoryStore<StoppedClock>)| {
                move || {
                    first(&store);
                    (0..3).map(|_| admitted(&store, Checks::one(WEEKLY, key(0), 1))).sum::<u32>()
                }
            };
            let reset = |store: &MemoryStore<_>| store.reset(&WEEKLY, key(0)).into_ready().unwrap().unwrap();
            let threads = [
                thread::spawn(check_all(Arc::clone(&store), |_| {})),
                thread::spawn(check_all(Arc::clone(&store), reset)),
                thread::spawn(check_all(store, |_| {})),
            ];
            // The thread that has reset the key meets denials only if the others were admitted.
            assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u32>(), 3);
        },
        5_000,
    );
}

#[test]
fn keys_locked_in_any_order_do_not_deadlock_and_charge_all() {
    shuttle::check_random(
        || {
            let store = store();
            let orders = [[0, 1], [1, 2], [2, 0], [1, 0]];
            let threads: Vec<_> = orders
                .into_iter()
                .map(|[one, other]| {
                    let store = Arc::clone(&store);
                    thread::spawn(move || {
                        let checks = Checks::one(WEEKLY, key(one), 2).and(WEEKLY, key(other), 2).unwrap();
                        admitted(&store, checks)
                    })
                })
                .collect();
            let pairs: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            let charged: u64 = (0..3)
                .map(|number| {
                    let peek =
                        store.check(Checks::one(WEEKLY, key(number), 0)).into_ready().unwrap().unwrap();
                    3 - peek.decision().remaining()
                })
                .sum();
            // Each of the three keys admits one charge of two: no two pairs fit.
            assert_eq!((pairs, charged), (1, 4));
        },
        2_000,
    );
}

/// A store that holds one key of each policy, and has bytes for 23 overflow states, under one lock.
fn tiny() -> Arc<MemoryStore<StoppedClock>> {
    Arc::new(MemoryStore::builder().capacity(1).bytes(4_096).clock(StoppedClock).build())
}

#[test]
fn full_policies_in_either_order_charge_both_or_none() {
    const OTHER: Policy = Policy::sliding_log("other", Quota::per_week(3));
    shuttle::check_random(
        || {
            let store = tiny();
            let threads: Vec<_> = [[WEEKLY, OTHER], [OTHER, WEEKLY], [WEEKLY, OTHER]]
                .into_iter()
                .map(|[one, other]| {
                    let store = Arc::clone(&store);
                    // The first check of either policy registers it; one of the keys fits, the others overflow.
                    thread::spawn(move || {
                        (0..2)
                            .map(|number| {
                                let checks = Checks::one(one.clone(), key(number), 1);
                                admitted(&store, checks.and(other.clone(), key(number), 1).unwrap())
                            })
                            .sum::<u32>()
                    })
                })
                .collect();
            let both: u32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
            assert_eq!((both, store.stats().policies), (6, 2));
            for policy in [WEEKLY, OTHER] {
                let left = (0..2).map(|number| {
                    let peek = Checks::one(policy.clone(), key(number), 0);
                    store.check(peek).into_ready().unwrap().unwrap().decision().remaining()
                });
                assert_eq!(left.sum::<u64>(), 0);
            }
        },
        2_000,
    );
}

#[test]
fn policies_beyond_the_total_are_refused_in_every_order() {
    shuttle::check_random(
        || {
            let store = MemoryStore::builder().capacity(1).total_capacity(2).clock(StoppedClock).build();
            let store = Arc::new(store);
            let threads: Vec<_> = ["a", "b", "c", "a"]
                .into_iter()
                .map(|name| {
                    let store = Arc::clone(&store);
                    let policy =
                        Policy::try_new(name, Gcra::new(Quota::per_second(1)), PolicySettings::default())
                            .unwrap();
                    thread::spawn(move || (name, store.register(&policy).is_ok()))
                })
                .collect();
            let mut registered: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            registered.retain(|(_, accepted)| *accepted);
            registered.sort_unstable();
            registered.dedup();
            assert_eq!((registered.len(), store.stats().policies), (2, 2));
        },
        2_000,
    );
}

#[test]
fn a_late_call_does_not_miss_what_was_swept_before_it() {
    const PERIOD: u64 = 4;
    let policy = Policy::fixed_window("short", Quota::per(1, Duration::from_micros(PERIOD)));
    shuttle::check_random(
        move || {
            let store = MemoryStore::builder().capacity(10).swept_per_check(16);
            let store = Arc::new(store.clock(TickingClock::default()).build());
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (store, policy) = (Arc::clone(&store), policy.clone());
                    // Each check reads the clock and may then wait for the lock, while another one sweeps. A peek drops the
                    // window that has ended and leaves none in its place.
                    let charge = move |cost| {
                        let checks = Checks::one(policy.clone(), key(0), cost);
                        let outcome = store.check(checks).into_ready().unwrap().unwrap();
                        let window = outcome.decision().at().as_micros() / PERIOD;
                        (cost > 0 && outcome.is_allowed()).then_some(window)
                    };
                    thread::spawn(move || [1, 0, 1, 0].into_iter().filter_map(charge).collect::<Vec<_>>())
                })
                .collect();
            let mut windows: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            let admitted = windows.len();
            windows.sort_unstable();
            windows.dedup();
            assert_eq!(windows.len(), admitted, "one unit per window");
        },
        2_000,
    );
}

/// A clock that advances by more than a minute whenever it is read, after which a policy that is not used can be forgotten.
#[derive(Default)]
struct LeapingClock(AtomicU64);

impl Clock for LeapingClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.fetch_add(61_000_000, Ordering::SeqCst))
    }
}

#[test]
fn forgetting_a_policy_loses_no_charge_of_another() {
    // Threads that run long without an interruption: one is forgotten between the look-up and the lock of another.
    shuttle::check_pct(
        || {
            let store = MemoryStore::builder().capacity(10).total_capacity(10);
            let store = Arc::new(store.clock(LeapingClock::default()).build());
            // It may be forgotten until it is charged.
            store.register(&WEEKLY).unwrap();
            let weekly = || {
                let store = Arc::clone(&store);
                let check = move || store.check(Checks::one(WEEKLY, key(0), 1)).into_ready().unwrap();
                // While all places are taken, it is not registered.
                move || (0..2).filter(|_| check().is_ok_and(|outcome| outcome.is_allowed())).count()
            };
            // Their windows end with the next reading of the clock, so that they take the place of each other.
            let brief = |names: [&'static str; 3]| {
                let store = Arc::clone(&store);
                move || {
                    for name in names {
                        let policy = Policy::try_new(
                            name,
                            FixedWindow::new(Quota::per_second(1)),
                            PolicySettings::default(),
                        )
                        .unwrap();
                        if let Ok(outcome) = store.check(Checks::one(policy, key(0), 1)).into_ready().unwrap()
                        {
                            assert!(outcome.is_allowed() && outcome.decision().policy().as_str() == name);
                        }
                    }
                }
            };
            let charges = [thread::spawn(weekly()), thread::spawn(weekly())];
            let others = [thread::spawn(brief(["a", "b", "a"])), thread::spawn(brief(["b", "c", "b"]))];
            let admitted: usize = charges.into_iter().map(|thread| thread.join().unwrap()).sum();
            for thread in others {
                thread.join().unwrap();
            }
            let peek = store.check(Checks::one(WEEKLY, key(0), 0)).into_ready().unwrap().unwrap();
            assert_eq!(peek.decision().remaining(), 3 - admitted as u64);
            assert!(store.stats().policies <= 1);
        },
        5_000,
        3,
    );
}
