//! Rotation of the secret without downtime: by its id, in a store that both secrets use.

use std::time::{Duration, Instant};

use portcullis::store::Checks;
use portcullis::{Limiter, Policy, Quota};
use portcullis_servers::RedisServer;

const OLD: [u8; 16] = *b"the-old-s3cret-1";
const NEW: [u8; 16] = *b"the-new-s3cret-2";

async fn limiter(redis: &RedisServer, id: &str, bytes: &[u8]) -> Limiter {
    Limiter::redis(redis.url()).secret(id, bytes).deadline(Duration::from_secs(5)).await.unwrap()
}

/// Whether a request of the user `ada` is admitted.
async fn admits(limiter: &Limiter, policy: &Policy) -> bool {
    let key = limiter.key(|key| key.part("user", b"ada")).unwrap();
    limiter.store().check(Checks::one(policy.clone(), key, 1)).await.unwrap().is_allowed()
}

fn keys(redis: &RedisServer, pattern: &str) -> Vec<String> {
    redis
        .cli(&["KEYS", pattern])
        .unwrap()
        .lines()
        .filter(|key| key.contains(':'))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn a_new_id_gives_fresh_keys_beside_the_old_ones_which_expire() {
    let redis = RedisServer::start().unwrap();
    let (old, new) = (limiter(&redis, "2026", &OLD).await, limiter(&redis, "2027", &NEW).await);
    let daily = Policy::gcra("daily", Quota::per_day(1));
    assert!(admits(&old, &daily).await && !admits(&old, &daily).await);
    assert!(admits(&new, &daily).await && !admits(&new, &daily).await, "a fresh budget of the same size");

    // Both secrets are in use while nodes restart one by one. Nodes with the same secret share one budget.
    assert!(!admits(&old, &daily).await && !admits(&limiter(&redis, "2026", &OLD).await, &daily).await);
    let [old_keys, new_keys] =
        ["portcullis:v2:2026:*:daily:*", "portcullis:v2:2027:*:daily:*"].map(|all| keys(&redis, all));
    assert_eq!((old_keys.len(), new_keys.len()), (1, 1), "{old_keys:?} {new_keys:?}");
    assert_ne!(
        old_keys[0].split(':').nth(3),
        new_keys[0].split(':').nth(3),
        "both secrets give the same fingerprint"
    );
    for key in [&old_keys[0], &new_keys[0]] {
        let millis: i64 = redis.cli(&["PTTL", key]).unwrap().parse().unwrap();
        assert!(millis > 0, "{key} does not expire: {millis}");
    }

    // The server removes unused keys by its own clock.
    let brief = Policy::gcra("brief", Quota::per_second(1));
    assert!(admits(&old, &brief).await);
    let end = Instant::now() + Duration::from_secs(30);
    while !keys(&redis, "portcullis:v2:2026:*:brief:*").is_empty() {
        assert!(Instant::now() < end, "a key under the old secret does not expire");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn other_bytes_under_the_same_id_have_separate_budgets() {
    let redis = RedisServer::start().unwrap();
    let (one, other) = (limiter(&redis, "2026", &OLD).await, limiter(&redis, "2026", &NEW).await);
    let daily = Policy::gcra("daily", Quota::per_day(1));
    assert!(admits(&one, &daily).await && admits(&other, &daily).await);
    assert!(!admits(&one, &daily).await && !admits(&other, &daily).await);
    assert_eq!(keys(&redis, "portcullis:v2:2026:*:daily:*").len(), 2);
}
