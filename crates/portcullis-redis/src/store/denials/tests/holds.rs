//! Denials that are held in an outage.

use super::*;

#[tokio::test(start_paused = true)]
async fn outage_holds_denial_until_its_wait_ends() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    assert!(!held(&memory, check(&HOURLY, "ada", 1)));
    // Two units fit after 400 ms, and the figures change after 200 ms.
    assert!(remember(&memory, &check(&BURST, "ada", 2), Instant::now()));
    advance(Duration::from_millis(399)).await;
    assert!(find(&memory, check(&BURST, "ada", 2)).is_none());
    assert!(held(&memory, check(&BURST, "ada", 2)) && !held(&memory, check(&BURST, "ada", 1)));
    advance(Duration::from_millis(1)).await;
    assert!(!held(&memory, check(&BURST, "ada", 2)));
    // A longer wait is held for a minute.
    assert!(remember(&memory, &check(&HOURLY, "ada", 1), Instant::now()));
    advance(Duration::from_millis(59_999)).await;
    let ada = check(&HOURLY, "ada", 1);
    let outcome = memory.find_in_outage(&checks(ada.clone())).unwrap();
    let (strategy, mut state) = (*HOURLY.strategy(), None);
    strategy.charge(&mut state, NOW, strategy.limit());
    let later = NOW.saturating_add(Duration::from_millis(59_999));
    let result = CheckResult::of(&strategy, state.as_ref(), later, 1, false);
    let store = Outcome::new(checks(ada.clone()), later, [result]).unwrap();
    assert_eq!(outcome.decision(), store.decision(), "it counts down");
    advance(Duration::from_millis(1)).await;
    assert!(!held(&memory, ada));
}

#[tokio::test(start_paused = true)]
async fn grant_end_bounds_held_denial() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    let ada = check(&HOURLY, "ada", 1);
    let end = NOW.saturating_add(Duration::from_secs(20));
    assert!(memory.remember_until(end, &ada, NOW, &denied(&ada, 10), Instant::now()));
    advance(Duration::from_millis(19_999)).await;
    assert!(held(&memory, ada.clone()));
    advance(Duration::from_millis(1)).await;
    assert!(!held(&memory, ada));
}

#[tokio::test(start_paused = true)]
async fn correction_or_admission_ends_held_denial() {
    let memory = DenialMemory::new(DEFAULT_ENTRIES);
    let ada = check(&HOURLY, "ada", 2);
    let later = NOW.saturating_add(Duration::from_secs(2));
    let deny = || assert!(remember(&memory, &ada, Instant::now()));
    deny();
    advance(Duration::from_secs(2)).await;
    // An admission of one unit does not refute a denial of two, and neither does one from before the denial.
    memory.admitted(&check(&HOURLY, "ada", 1), later);
    memory.admitted(&ada, NOW);
    memory.admitted(&check(&HOURLY, "grace", 2), later);
    assert!(held(&memory, ada.clone()));
    memory.admitted(&ada, later);
    assert!(!held(&memory, ada.clone()));
    deny();
    advance(Duration::from_secs(2)).await;
    memory.correct(&HOURLY, key("ada")).answered();
    assert!(!held(&memory, ada.clone()));
}

/// The denial of another cost replaces that of one whose answer is old, and not its hold.
#[tokio::test(start_paused = true)]
async fn holds_of_two_costs_last_each() {
    for costs in [[1, 8], [8, 1]] {
        let memory = DenialMemory::new(1);
        for cost in costs {
            assert!(remember(&memory, &check(&SLOW, "ada", cost), Instant::now()));
            advance(Duration::from_millis(1_100)).await;
        }
        let is_held = [1, 7, 8].map(|cost| held(&memory, check(&SLOW, "ada", cost)));
        assert_eq!(is_held, [true; 3], "{costs:?}");
        // Each ends with its own wait, and with an admission of its own cost.
        advance(Duration::from_secs(10)).await;
        let is_held = [1, 7, 8].map(|cost| held(&memory, check(&SLOW, "ada", cost)));
        assert_eq!(is_held, [false, false, true], "{costs:?}");
        memory.admitted(&check(&SLOW, "ada", 8), NOW.saturating_add(MAX_AGE));
        assert!(!held(&memory, check(&SLOW, "ada", 8)));
    }
}

/// A later denial of a higher cost shows how much is left, and that a block has ended.
#[tokio::test(start_paused = true)]
async fn later_denial_ends_what_it_contradicts() {
    for (left, is_held_still) in [(0, true), (1, false)] {
        let memory = DenialMemory::new(1);
        assert!(remember(&memory, &check(&HOURLY, "ada", 1), Instant::now()));
        let eight = check(&HOURLY, "ada", 8);
        let later = NOW.saturating_add(Duration::from_secs(3));
        advance(Duration::from_secs(3)).await;
        assert!(memory.remember(&eight, later, &denied(&eight, 10 - left), Instant::now()));
        assert_eq!(held(&memory, check(&HOURLY, "ada", 1)), is_held_still);
        assert!(held(&memory, eight));
    }
    let memory = DenialMemory::new(1);
    let one = check(&HOURLY, "ada", 1);
    let blocked = Snapshot { is_blocked: true, ..denied(&one, 10) };
    assert!(memory.remember(&one, NOW, &blocked, Instant::now()));
    let eight = check(&HOURLY, "ada", 8);
    assert!(memory.remember(&eight, NOW, &denied(&eight, 3), Instant::now()));
    assert!(!held(&memory, one) && held(&memory, eight));
}

/// A key has at most two of the eight entries of its set.
#[tokio::test(start_paused = true)]
async fn one_key_fills_no_set() {
    let memory = DenialMemory::new(1);
    for cost in (1..=10).chain((1..=10).rev()) {
        assert!(remember(&memory, &check(&SLOW, "ada", cost), Instant::now()));
        assert!(memory.entries() <= 2);
        advance(Duration::from_millis(1)).await;
    }
    assert!(held(&memory, check(&SLOW, "ada", 1)));
}

/// One that only an outage needs gives way to one that answers checks now.
#[tokio::test(start_paused = true)]
async fn hold_gives_way_to_a_live_denial() {
    let memory = DenialMemory::new(1);
    let users: Vec<_> = (0..20_000).map(|user| user.to_string()).collect();
    let (old, new) = users.split_at(10_000);
    let deny = |policy: &Policy, users: &[String]| {
        for user in users {
            assert!(remember(&memory, &check(policy, user, 1), Instant::now()));
        }
    };
    deny(&HOURLY, old);
    advance(MAX_AGE).await;
    // Their waits end before the holds of the others.
    deny(&BURST, new);
    assert_eq!(memory.entries(), 512, "all entries answer checks now");
}

/// A unit in 10 s.
const SLOW: Policy = Policy::gcra("slow", Quota::per(6, Duration::from_secs(60)).burst(10));
