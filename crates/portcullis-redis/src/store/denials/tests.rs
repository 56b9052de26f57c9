use std::time::Duration;

use portcullis_core::store::CheckResult;
use portcullis_core::{Quota, Retry, Secret};
use tokio::time::advance;

use super::*;

mod holds;
mod races;

const HOURLY: Policy = Policy::fixed_window("hourly", Quota::per_hour(10));
const BURST: Policy = Policy::gcra("burst", Quota::per_second(5).burst(10));

pub(super) fn key(user: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", user.as_bytes());
    hasher.finish().unwrap()
}

pub(super) fn check(policy: &Policy, user: &str, cost: u64) -> Check {
    Check { policy: policy.clone(), key: key(user), cost }
}

impl DenialMemory {
    fn remember(&self, check: &Check, at: Timestamp, snapshot: &Snapshot, sent: Instant) -> bool {
        self.remember_until(Timestamp::MAX, check, at, snapshot, sent)
    }
}

fn checks(check: Check) -> Checks {
    Checks::one(check.policy, check.key, check.cost)
}

/// The snapshot of a denied check when `used` units are used.
fn denied(check: &Check, used: u64) -> Snapshot {
    let (strategy, mut state) = (*check.policy.strategy(), None);
    strategy.charge(&mut state, NOW, used);
    let result = CheckResult::of(&strategy, state.as_ref(), NOW, check.cost, false);
    result.snapshot
}

pub(super) fn remember(memory: &DenialMemory, check: &Check, sent: Instant) -> bool {
    memory.remember(check, NOW, &denied(check, check.policy.strategy().limit()), sent)
}

fn find(memory: &DenialMemory, check: Check) -> Option<Outcome> {
    let checks = checks(check);
    let found = memory.find(&checks);
    assert_eq!(found.is_some(), memory.denies(&checks));
    found
}

#[tokio::test(start_paused = true)]
async fn only_equal_or_higher_costs_are_denied() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    let denied = check(&HOURLY, "ada", 3);
    assert!(find(&memory, denied.clone()).is_none());
    assert!(remember(&memory, &denied, Instant::now()));
    for cost in [3, 4, u64::MAX] {
        let outcome = find(&memory, check(&HOURLY, "ada", cost)).unwrap();
        assert!(outcome.is_remembered() && !outcome.is_allowed() && outcome.failure().is_none());
        assert_eq!(outcome.decision().policy().as_str(), "hourly");
    }
    let other_quota = Policy::fixed_window("hourly", Quota::per_hour(11));
    for other in [
        check(&HOURLY, "ada", 2),
        check(&HOURLY, "ada", 0),
        check(&HOURLY, "grace", 3),
        check(&BURST, "ada", 3),
        check(&other_quota, "ada", 3),
    ] {
        assert!(find(&memory, other).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn zero_costs_and_shared_keys_are_forgotten() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    assert!(!remember(&memory, &check(&HOURLY, "ada", 0), Instant::now()));
    let mut hasher = Secret::published().hasher();
    hasher.writer().shared_part("global", b"");
    let global = Check { key: hasher.finish().unwrap(), ..check(&HOURLY, "ada", 1) };
    assert!(!remember(&memory, &global, Instant::now()));
    assert!(find(&memory, global).is_none());
}

#[tokio::test(start_paused = true)]
async fn admission_is_not_remembered() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    let check = check(&HOURLY, "ada", 1);
    let snapshot = HOURLY.strategy().snapshot(None, NOW, 1, true);
    assert!(!memory.remember(&check, NOW, &snapshot, Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn denial_is_remembered_one_second_from_sending() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    let sent = Instant::now();
    advance(Duration::from_millis(300)).await;
    assert!(remember(&memory, &check(&HOURLY, "ada", 1), sent));
    advance(Duration::from_millis(699)).await;
    assert!(find(&memory, check(&HOURLY, "ada", 1)).is_some());
    advance(Duration::from_millis(1)).await;
    assert!(find(&memory, check(&HOURLY, "ada", 1)).is_none());
    assert_eq!(memory.until.load(Relaxed), 0, "later lookups return at once");
    // A reply after a second is too old, except in an outage.
    let (sent, grace) = (Instant::now(), check(&HOURLY, "grace", 1));
    advance(MAX_AGE).await;
    assert!(remember(&memory, &grace, sent));
    assert!(find(&memory, grace.clone()).is_none() && held(&memory, grace));
}

#[tokio::test(start_paused = true)]
async fn denial_ends_with_its_own_wait() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    assert!(remember(&memory, &check(&BURST, "ada", 1), Instant::now()));
    advance(Duration::from_micros(199_999)).await;
    let outcome = find(&memory, check(&BURST, "ada", 1)).unwrap();
    assert_eq!(outcome.decision().retry(), Some(Retry::After(Duration::from_micros(1))));
    advance(Duration::from_micros(1)).await;
    assert!(find(&memory, check(&BURST, "ada", 1)).is_none());
    // The wait of a higher cost is longer, but the figures change as soon as one unit is available.
    assert!(remember(&memory, &check(&BURST, "grace", 4), Instant::now()));
    advance(Duration::from_micros(199_999)).await;
    assert!(find(&memory, check(&BURST, "grace", 4)).is_some());
    advance(Duration::from_micros(1)).await;
    assert!(find(&memory, check(&BURST, "grace", 4)).is_none());
}

#[tokio::test(start_paused = true)]
async fn figures_are_those_of_the_store_at_the_same_instant() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    for (policy, user, cost) in [(&HOURLY, "ada", 2), (&BURST, "ada", 1), (&BURST, "grace", 11)] {
        let check = check(policy, user, cost);
        let (strategy, mut state) = (*policy.strategy(), None);
        strategy.charge(&mut state, NOW, strategy.limit());
        assert!(remember(&memory, &check, Instant::now()));
        let mut later = NOW;
        for step in [0, 1, 1_000, 150_000] {
            advance(Duration::from_micros(step)).await;
            later = later.saturating_add(Duration::from_micros(step));
            let outcome = find(&memory, check.clone()).unwrap();
            let result = CheckResult::of(&strategy, state.as_ref(), later, cost, false);
            let store = Outcome::new(checks(check.clone()), later, [result]).unwrap();
            assert_eq!(outcome.decision(), store.decision());
        }
    }
    // A cost that never fits has no wait.
    let outcome = find(&memory, check(&HOURLY, "ada", 11)).unwrap();
    assert_eq!(outcome.decision().retry(), Some(Retry::Never));
}

/// A denial of one unit when a policy's longest wait is reserved does not hold for a unit that is refunded, and holds for higher
/// costs: its figures are the figures of the store.
#[tokio::test(start_paused = true)]
async fn denials_under_a_longest_wait_hold_for_their_cost() {
    const WAITS: Policy =
        Policy::gcra("waits", Quota::per_second(5).burst(10)).wait_at_most(Duration::from_millis(500));
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    let (strategy, mut state) = (*WAITS.strategy(), None);
    for cost in [10, 2] {
        strategy.charge(&mut state, NOW, cost);
    }
    let ask = |cost: u64| check(&WAITS, "ada", cost);
    let store = |cost: u64, at: Timestamp| {
        assert!(!strategy.evaluate(state.as_ref(), at, cost).admitted);
        CheckResult::of(&strategy, state.as_ref(), at, cost, false)
    };
    // Half a unit of the wait is left. Two units do not fit, and one of them could.
    let two = store(2, NOW).snapshot;
    assert!(memory.remember(&ask(2), NOW, &two, Instant::now()));
    assert!(find(&memory, ask(1)).is_none(), "a lower cost is the server's");
    for (cost, retry) in [(2, two.retry), (3, two.retry), (11, Some(Retry::Never))] {
        let decision = find(&memory, ask(cost)).unwrap();
        assert_eq!((decision.decision().retry(), decision.decision().remaining()), (retry, 0));
    }
    // It ends when two units fit, although no unit is left without a wait by then.
    advance(Duration::from_millis(299)).await;
    let later = NOW.saturating_add(Duration::from_millis(299));
    let expected = Outcome::new(checks(ask(2)), later, [store(2, later)]).unwrap();
    assert_eq!(find(&memory, ask(2)).unwrap().decision(), expected.decision());
    advance(Duration::from_millis(1)).await;
    assert!(find(&memory, ask(2)).is_none());
    assert!(strategy.evaluate(state.as_ref(), later.saturating_add(Duration::from_millis(1)), 2).admitted);
    // The same policy without a wait, or with another one, has denials of its own.
    assert!(memory.remember(&ask(2), NOW, &two, Instant::now()));
    let other = Policy::gcra("waits", Quota::per_second(5).burst(10));
    for other in [other.clone(), other.wait_at_most(Duration::from_secs(1))] {
        assert!(find(&memory, check(&other, "ada", 2)).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn longest_wait_of_several_checks_is_named() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    let both = || checks(check(&BURST, "ada", 1)).and(HOURLY, key("ada"), 1).unwrap();
    assert!(remember(&memory, &check(&BURST, "ada", 1), Instant::now()));
    assert_eq!(memory.find(&both()).unwrap().decision().policy().as_str(), "burst");
    assert!(remember(&memory, &check(&HOURLY, "ada", 1), Instant::now()));
    let outcome = memory.find(&both()).unwrap();
    assert_eq!(outcome.decision().policy().as_str(), "hourly");
    assert_eq!((outcome.decisions().len(), outcome.checks().len()), (1, 1));
    assert_eq!(outcome.into_receipts().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn denial_of_a_lower_cost_is_kept() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    for cost in [3, 1, 2] {
        assert!(remember(&memory, &check(&HOURLY, "ada", cost), Instant::now()));
    }
    assert!(find(&memory, check(&HOURLY, "ada", 1)).is_some());
}

#[tokio::test(start_paused = true)]
async fn correction_ends_denials_of_its_key() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    for user in ["ada", "grace"] {
        for policy in [&HOURLY, &BURST] {
            assert!(remember(&memory, &check(policy, user, 1), Instant::now()));
        }
    }
    memory.correct(&HOURLY, key("ada")).answered();
    assert!(find(&memory, check(&HOURLY, "ada", 1)).is_none());
    for other in [check(&BURST, "ada", 1), check(&HOURLY, "grace", 1), check(&BURST, "grace", 1)] {
        assert!(find(&memory, other).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn denial_before_a_correction_is_forgotten() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    let sent = Instant::now();
    advance(Duration::from_millis(1)).await;
    let correction = memory.correct(&HOURLY, key("ada"));
    // The denial comes while the correction is in progress, or after it.
    assert!(remember(&memory, &check(&HOURLY, "ada", 1), sent));
    correction.answered();
    assert!(find(&memory, check(&HOURLY, "ada", 1)).is_none());
    assert!(!remember(&memory, &check(&HOURLY, "ada", 1), sent));
    advance(Duration::from_micros(1)).await;
    assert!(remember(&memory, &check(&HOURLY, "ada", 1), Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_remembered_after_an_unknown_correction() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    assert!(remember(&memory, &check(&HOURLY, "ada", 1), Instant::now()));
    drop(memory.correct(&HOURLY, key("ada")));
    assert!(find(&memory, check(&HOURLY, "ada", 1)).is_none());
    advance(MAX_AGE).await;
    assert!(!remember(&memory, &check(&HOURLY, "ada", 1), Instant::now()));
    advance(Duration::from_micros(1)).await;
    assert!(remember(&memory, &check(&HOURLY, "ada", 1), Instant::now()));
}

#[tokio::test(start_paused = true)]
async fn flood_replaces_the_oldest_denials() {
    let memory = DenialMemory::new(1);
    let users: Vec<_> = (0..20_000).map(|user| user.to_string()).collect();
    for user in &users {
        assert!(remember(&memory, &check(&HOURLY, user, 1), Instant::now()));
        advance(Duration::from_micros(10)).await;
    }
    let found = |user: &&String| find(&memory, check(&HOURLY, user, 1)).is_some();
    let kept = users.iter().filter(found).count();
    assert!((400..=512).contains(&kept), "{kept}");
    assert!(users[19_900..].iter().filter(found).count() >= 80, "the newest are kept");
    assert_eq!(users[..10_000].iter().filter(found).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn memory_of_zero_entries_remembers_nothing() {
    let memory = DenialMemory::new(0);
    assert!(!remember(&memory, &check(&HOURLY, "ada", 1), Instant::now()));
    assert!(find(&memory, check(&HOURLY, "ada", 1)).is_none());
    memory.correct(&HOURLY, key("ada")).answered();
}

#[tokio::test(start_paused = true)]
async fn remembering_and_finding_allocate_nothing() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    let denied = check(&HOURLY, "ada", 1);
    assert!(remember(&memory, &denied, Instant::now()));
    let counted = allocation_counter::measure(|| {
        assert!(remember(&memory, &denied, Instant::now()));
        assert!(find(&memory, denied.clone()).is_some());
        memory.correct(&HOURLY, denied.key).answered();
    });
    assert_eq!(counted.count_total, 0);
}

fn held(memory: &DenialMemory, check: Check) -> bool {
    memory.find_in_outage(&checks(check)).is_some()
}

/// In the year 2001.
pub(super) const NOW: Timestamp = Timestamp::from_micros(1_000_000_000_000_000);
const MAX_AGE: Duration = Duration::from_micros(MAX_AGE_MICROS);
