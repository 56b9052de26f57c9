//! Checks in memory, from the text of an identity to the answer.

use std::hint::black_box;

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Key, Policy, Quota, Secret};
use portcullis_memory::MemoryStore;

use crate::case;

pub(crate) fn cases() {
    let users: Vec<String> = (0..KEYS).map(|number| format!("user-{number:07}")).collect();
    for policy in policies() {
        for (load, users) in [("one hot key", &users[..1]), ("100 000 keys", &users[..])] {
            let store = MemoryStore::builder().capacity(KEYS + KEYS / 4).build();
            let secret = Secret::random_for_this_process(*b"a secret of ours");
            let check =
                |user: &String| assert!(is_allowed(&store, &secret, &policy, user), "{}", policy.name());
            users.iter().for_each(check);
            // A step without a common factor, so that neighbours are not charged one after the other.
            let mut next = 0;
            case(&format!("memory: {}, {load}", policy.name()), || {
                check(black_box(&users[next]));
                next = (next + STEP) % users.len();
            });
        }
    }
    let (store, [policy, ..]) = (MemoryStore::new(), policies());
    let secret = Secret::random_for_this_process(*b"a secret of ours");
    case("memory: token-bucket, one hot key, with an outcome", || {
        assert!(has_outcome_allowed(&store, &secret, &policy, black_box(&users[0])), "{}", policy.name());
    });
    let store = MemoryStore::new();
    // A rate and a window, as most layers with two policies have.
    let [_, gcra, _, window, ..] = policies();
    let two = [gcra, window];
    case("memory: two policies, one hot key", || {
        assert!(are_both_allowed(&store, &secret, &two, black_box(&users[0])), "two policies");
    });
}

fn is_allowed(store: &MemoryStore, secret: &Secret, policy: &Policy, user: &str) -> bool {
    let ready = store.check_now(policy, key(secret, user), 1);
    matches!(ready, Some(Ok(ready)) if ready.decision.is_allowed())
}

/// Like [`is_allowed`], but with an outcome, from which a receipt is made.
fn has_outcome_allowed(store: &MemoryStore, secret: &Secret, policy: &Policy, user: &str) -> bool {
    let outcome = store.check(Checks::one(policy.clone(), key(secret, user), 1)).into_ready();
    matches!(outcome, Ok(Ok(outcome)) if outcome.is_allowed())
}

/// Two checks in one call.
fn are_both_allowed(store: &MemoryStore, secret: &Secret, [first, second]: &[Policy; 2], user: &str) -> bool {
    let key = key(secret, user);
    let checks = Checks::one(first.clone(), key, 1).and(second.clone(), key, 1);
    let outcome = store.check(checks.expect("the policies are few and differ")).into_ready();
    matches!(outcome, Ok(Ok(outcome)) if outcome.is_allowed())
}

fn key(secret: &Secret, user: &str) -> Key {
    let mut hasher = secret.hasher();
    hasher.writer().part("user", user.as_bytes());
    hasher.finish().expect("an identity of a few bytes is a key")
}

/// Quotas that the cases do not use up, under which every state stays alive: callgrind takes minutes for what takes seconds.
fn policies() -> [Policy; 6] {
    // The largest limit of a log.
    let (rate, window) = (Quota::per_hour(1).burst(10_000), Quota::per_week(100_000));
    [
        Policy::token_bucket("token-bucket", rate),
        Policy::gcra("gcra", rate),
        Policy::leaky_bucket("leaky-bucket", rate),
        Policy::fixed_window("fixed-window", window),
        Policy::sliding_window("sliding-window", window),
        Policy::sliding_log("sliding-log", window),
    ]
}

const KEYS: usize = 100_000;
const STEP: usize = 7_919;
