//! Policies that are gone are forgotten, and nothing else is.

use portcullis_core::PolicyName;

use super::*;

const LIMIT: usize = 3;
const WINDOW: Duration = Duration::from_secs(60);
const KEPT: Duration = Duration::from_secs(60);

fn store(clock: &Hand) -> MemoryStore<Hand> {
    MemoryStore::builder().capacity(100).total_capacity(100 * LIMIT).clock(clock.clone()).build()
}

fn named(number: usize) -> Policy {
    let window = *Policy::fixed_window("p", Quota::per_minute(2)).strategy();
    Policy::new(PolicyName::new(&format!("p{number}")).unwrap(), window)
}

fn try_check(store: &MemoryStore<Hand>, policy: &Policy) -> Result<bool, portcullis_core::StoreError> {
    let checked = store.check(Checks::one(policy.clone(), key("ada"), 1));
    checked.into_ready().expect("memory answers at once").map(|outcome| outcome.is_allowed())
}

#[test]
fn rules_can_be_edited_for_as_long_as_a_store_lives() {
    let clock = Hand::default();
    let store = store(&clock);
    let mut now = Duration::ZERO;
    for number in 0..500 {
        now += KEPT;
        clock.set(now);
        // A new name, and a window of a new length.
        let seconds = u64::try_from(number).unwrap() + 1;
        let edited =
            Policy::fixed_window("edited", Quota::new(1, Duration::from_secs(seconds), None).unwrap());
        assert!(store.register(&named(number)).is_ok() && allowed(&store, &named(number), "ada"));
        if number % 2 == 0 && seconds < 60 {
            assert!(allowed(&store, &edited, "ada"));
        }
        assert!(store.stats().policies <= LIMIT);
    }
    assert!(store.stats().entries <= LIMIT, "{:?}", store.stats());
}

#[test]
fn a_policy_with_a_state_that_counts_is_kept() {
    let clock = Hand::default();
    let store = store(&clock);
    clock.set(WINDOW / 2);
    let daily = Policy::fixed_window("daily", Quota::per_day(1));
    assert!(allowed(&store, &daily, "ada"));
    for number in 1..LIMIT {
        assert!(allowed(&store, &named(number), "ada"));
    }
    // All states count.
    clock.set(WINDOW.saturating_sub(Duration::from_micros(1)));
    let error = try_check(&store, &named(9)).unwrap_err().to_string();
    assert!(error.contains("policy p9 does not fit in memory"), "{error}");
    // Two windows have ended, but were used less than a minute ago.
    clock.set(WINDOW);
    assert!(try_check(&store, &named(9)).is_err());
    clock.set(WINDOW / 2 + KEPT);
    assert!(try_check(&store, &named(9)).unwrap() && try_check(&store, &named(8)).unwrap());
    assert!(!allowed(&store, &daily, "ada"), "its charge is kept");
    assert!(try_check(&store, &named(7)).is_err());
    let mut names: Vec<_> = store.policy_stats().iter().map(|stats| stats.policy.to_string()).collect();
    names.sort();
    assert_eq!(names, ["daily", "p8", "p9"]);
}

#[test]
fn a_forgotten_policy_is_registered_by_its_next_check() {
    let clock = Hand::default();
    let store = store(&clock);
    for round in 0..10_u32 {
        clock.set(2 * WINDOW * (round + 1));
        for number in 0..LIMIT {
            let policy = named(number + 7 * (round as usize % 2));
            let admitted: Vec<_> = (0..3).map(|_| allowed(&store, &policy, "ada")).collect();
            assert_eq!(admitted, [true, true, false], "the limit is exact");
        }
    }
    assert_eq!(store.stats().policies, LIMIT);
}

#[test]
fn the_policy_that_was_not_used_for_longest_is_forgotten_first() {
    let clock = Hand::default();
    let store = store(&clock);
    for number in 0..LIMIT {
        clock.set(WINDOW * u32::try_from(number + 1).unwrap());
        allowed(&store, &named(number), "ada");
    }
    clock.set(WINDOW * 20);
    // A peek uses it as well.
    assert!(check(&store, Checks::one(named(0), key("ada"), 0)).is_allowed());
    clock.set(WINDOW * 22);
    allowed(&store, &named(9), "ada");
    let mut names: Vec<_> = store.policy_stats().iter().map(|stats| stats.policy.to_string()).collect();
    names.sort();
    assert_eq!(names, ["p0", "p2", "p9"]);
}

#[test]
fn a_block_keeps_its_policy_until_it_ends() {
    let clock = Hand::default();
    let store = MemoryStore::builder().capacity(100).total_capacity(100).clock(clock.clone()).build();
    let login = Policy::fixed_window("login", Quota::per_minute(2)).allow_overrides();
    let block = |length| store.block(&login, key("ada"), length).into_ready().unwrap().unwrap();
    block(Duration::from_hours(1));
    clock.set(Duration::from_mins(59));
    assert!(try_check(&store, &named(1)).is_err());
    assert!(check(&store, Checks::one(login.clone(), key("ada"), 1)).decision().is_blocked());
    clock.set(Duration::from_hours(1));
    assert!(try_check(&store, &named(1)).unwrap());
    clock.set(Duration::from_hours(2));
    assert!(try_check(&store, &login).unwrap());
}

#[test]
fn a_change_of_a_window_keeps_what_the_longer_one_has_charged() {
    let clock = Hand::default();
    let store = store(&clock);
    let [minute, day] =
        [Quota::per_minute(1), Quota::per_day(1)].map(|quota| Policy::fixed_window("w", quota));
    assert!(allowed(&store, &minute, "ada") && allowed(&store, &day, "ada"));
    for number in 0..50 {
        clock.set(KEPT * (number + 1));
        assert!(allowed(&store, &named(number as usize), "ada"));
        assert!(!allowed(&store, &day, "ada"));
    }
}

/// A clock that goes on by more than a minute with each reading.
struct Leaping(Hand);

impl Clock for Leaping {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.0.fetch_add(61_000_000, Ordering::Relaxed))
    }
}

/// Each finds the states of its policy, or none, while others are registered and forgotten.
#[test]
fn threads_that_take_each_others_place_keep_the_bounds() {
    let clock = Hand::default();
    // Their states expire at once, and so do they: time passes with each reading.
    let time = clock.clone();
    let store = MemoryStore::builder().capacity(100_000).total_capacity(200_000).clock(Leaping(time)).build();
    let failed = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..6 {
            let (store, failed) = (&store, &failed);
            scope.spawn(move || {
                let policy = named(number);
                for _ in 0..2_000 {
                    let checked = store.check(Checks::one(policy.clone(), key("ada"), 1)).into_ready();
                    match checked.expect("memory answers at once") {
                        Ok(outcome) => {
                            assert_eq!(outcome.decision().policy(), policy.name());
                            assert!(outcome.decision().limit() == 2);
                        }
                        Err(_) => drop(failed.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            });
        }
    });
    let stats = store.stats();
    assert!(stats.policies <= 2 && stats.entries <= 12, "{stats:?}");
    assert!(failed.into_inner() < 12_000);
}
