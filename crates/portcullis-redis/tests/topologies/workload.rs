//! The calls that each row makes to a store.

use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, Store as _};
use portcullis_core::{Concurrency, Key, Policy, Quota, Receipt, Secret};
use portcullis_redis::RedisStore;

use crate::table::Row;

/// Allows, denies, refunds, settles and resets, and leaves a key for each of several users under each algorithm. Returns the
/// number of keys.
pub(crate) async fn exercise_every_algorithm(store: &RedisStore, row: Row) -> usize {
    for policy in policies() {
        for user in USERS {
            exercise(store, &policy, user, &format!("{row:?}, {}, {user}", policy.name())).await;
        }
    }
    policies().len() * USERS.len()
}

async fn exercise(store: &RedisStore, policy: &Policy, user: &str, context: &str) {
    let first = admitted(check(store, policy, user, 200).await, 300, context);
    let denied = check(store, policy, user, 350).await;
    assert!(!denied.is_allowed() && denied.decision().remaining() == 300, "{context}: {denied:?}");
    let second = admitted(check(store, policy, user, 300).await, 0, context);
    assert!(!check(store, policy, user, 1).await.is_allowed(), "{context}");

    assert_eq!(store.refund(first).await.unwrap().remaining(), 200, "{context}");
    let settled = store.settle(second, 100).await.unwrap();
    assert_eq!((settled.decision.remaining(), settled.uncharged), (400, 0), "{context}");
    let third = admitted(check(store, policy, user, 100).await, 300, context);
    let settled = store.settle(third, 250).await.unwrap();
    assert_eq!((settled.decision.remaining(), settled.uncharged), (150, 0), "{context}");

    store.reset(policy, key(user)).await.unwrap();
    assert_eq!(check(store, policy, user, 0).await.decision().remaining(), 500, "{context}");
    let _ = admitted(check(store, policy, user, 100).await, 400, context);
}

async fn check(store: &RedisStore, policy: &Policy, user: &str, cost: u64) -> Outcome {
    store.check(Checks::one(policy.clone(), key(user), cost)).await.unwrap()
}

fn admitted(outcome: Outcome, remaining: u64, context: &str) -> Receipt {
    assert!(outcome.is_allowed() && outcome.decision().remaining() == remaining, "{context}: {outcome:?}");
    outcome.into_receipts().next().unwrap()
}

fn key(user: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", user.as_bytes());
    hasher.finish().unwrap()
}

fn policies() -> [Policy; 7] {
    // The rate is low enough that nothing is replenished during the test, and the limit is high enough that a log is a ring.
    let quota = Quota::per_week(500);
    [
        Policy::token_bucket("bucket", quota),
        Policy::gcra("gcra", quota.burst(500)),
        Policy::leaky_bucket("queue", quota),
        Policy::fixed_window("window", quota),
        Policy::sliding_window("sliding", quota),
        Policy::sliding_log("log", quota),
        Concurrency::new("permits", 500).lease(Duration::from_secs(1_800)).into(),
    ]
}

/// In a cluster of three nodes, every node holds some of their keys.
const USERS: [&str; 5] = ["ada", "grace", "barbara", "radia", "frances"];
