use portcullis_core::Secret;

use super::*;

fn key(user: u64) -> Key {
    let mut hasher = Secret::random_for_this_process([7; 16]).hasher();
    hasher.writer().part("user", &user.to_be_bytes());
    hasher.finish().unwrap()
}

const SEARCH: PolicyName = PolicyName::literal("search");

fn denial(seconds: u64) -> Denial {
    Denial { wait: Duration::from_secs(seconds), is_locked_out: false }
}

#[test]
fn a_million_keys_take_bounded_memory_and_hide_no_one() {
    let recorder = Recorder::new();
    for request in 0..1_000_000 {
        recorder.rejected(&SEARCH, Some(key(request)), Some(denial(60)), request);
        recorder.rejection(Some(&SEARCH), Some(key(request)), Reason::Limited, request);
        if request % 10 == 0 {
            recorder.admitted(&SEARCH, key(u64::MAX));
        }
    }
    for shard in &recorder.shards {
        let shard = shard.lock().unwrap();
        assert!(shard.top.entries().len() <= TOP_PER_SHARD && shard.recent.len() <= RECENT_PER_SHARD);
        assert!(
            shard.recent.capacity() < 2 * RECENT_PER_SHARD
                && shard.limited.at(0).count() <= LIMITED_PER_SHARD
        );
    }
    let view = recorder.view(1_000_000);
    let first = &view.top[0];
    assert!(first.key.1 == key(u64::MAX) && first.requests >= 100_000 && first.rejected == 0);
    // Its shard has its own requests and a sixteenth of the others.
    assert!(first.error <= (100_000 + 1_000_000 / 16 * 2) / 64, "{}", first.error);
    assert_eq!((view.top.len(), view.limited.len(), view.recent.len()), (100, 100, 200));
    let counts = view.policies[&SEARCH];
    assert_eq!((counts.rejected, counts.admitted), (1_000_000, 100_000));
}

#[test]
fn a_client_that_floods_does_not_hide_the_rejections_of_others() {
    let recorder = Recorder::new();
    let others: Vec<_> = (1..)
        .map(key)
        .filter(|other| other.fingerprint() % 16 != key(0).fingerprint() % 16)
        .take(5)
        .collect();
    for (time, other) in (0..).zip(&others) {
        recorder.rejection(Some(&SEARCH), Some(*other), Reason::Limited, time);
    }
    for time in 100..10_000 {
        recorder.rejection(Some(&SEARCH), Some(key(0)), Reason::Limited, time);
    }
    let recent = recorder.view(10_000).recent;
    assert_eq!(recent.len(), 64 + 5);
    assert_eq!((recent[0].time, recent[64].key), (9_999, Some(others[4])));
}

#[test]
fn policies_beyond_the_bound_are_not_counted() {
    let recorder = Recorder::new();
    for number in 0..=MAX_POLICIES {
        let name = PolicyName::new(&format!("policy-{number}")).unwrap();
        recorder.admitted(&name, key(0));
    }
    assert_eq!(recorder.view(0).policies.len(), MAX_POLICIES);
}

#[test]
fn a_key_is_limited_until_its_end_or_its_next_admission() {
    let recorder = Recorder::new();
    recorder.rejected(&SEARCH, Some(key(1)), Some(denial(10)), 1_000);
    recorder.rejected(&SEARCH, Some(key(2)), Some(denial(5)), 1_000);
    recorder.locked_out(&SEARCH, key(3), Duration::from_secs(1), 1_000);
    let limited = |now| {
        let view = recorder.view(now);
        view.limited.iter().map(|entry| (entry.key, entry.until, entry.is_locked_out)).collect::<Vec<_>>()
    };
    assert_eq!(limited(1_500), [(key(3), 2_000, true), (key(1), 11_000, false), (key(2), 6_000, false)]);
    assert_eq!(limited(6_000), [(key(1), 11_000, false)]);
    recorder.admitted(&SEARCH, key(1));
    recorder.released(&SEARCH, key(2));
    assert_eq!(limited(1_999), [(key(3), 2_000, true)]);
}

#[test]
fn a_failed_call_makes_the_store_unhealthy_for_a_while() {
    let recorder = Recorder::new();
    assert!(recorder.is_healthy(0));
    recorder.store_failed(5_000);
    assert!(!recorder.is_healthy(14_999) && recorder.is_healthy(15_000));
}

#[test]
fn recording_allocates_nothing_once_policies_are_known() {
    let recorder = Recorder::new();
    let keys: Vec<_> = (0..5_000).map(key).collect();
    for key in &keys {
        recorder.admitted(&SEARCH, *key);
    }
    let allocated = allocation_counter::measure(|| {
        for (time, key) in (0..).zip(&keys) {
            recorder.admitted(&SEARCH, *key);
            recorder.rejected(&SEARCH, Some(*key), Some(denial(60)), time);
            recorder.rejection(Some(&SEARCH), Some(*key), Reason::Limited, time);
            recorder.count(&SEARCH, Some(*key), |counts| counts.exempt += 1);
        }
    });
    assert_eq!(allocated.count_total, 0);
}
