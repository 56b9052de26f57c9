//! A limiter on a decorated store in Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use portcullis::key::Key;
use portcullis::redis::RedisStore;
use portcullis::store::{Checks, Outcome, Renewal, Renewed, Standby, Store, StoreFuture};
use portcullis::{Decision, FailureMode, Limiter, Policy, Quota, Receipt, Secret, Settlement, StoreError};
use portcullis_servers::RedisServer;

const POLICY: Policy =
    Policy::fixed_window("weekly", Quota::per_week(40)).on_store_failure(FailureMode::local(4));
const SECRET: [u8; 16] = *b"sixteen-bytes-ok";

/// Counts the calls of a store.
struct Counted {
    inner: RedisStore,
    calls: Arc<AtomicU64>,
}

impl Counted {
    fn count(&self) -> &RedisStore {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.inner
    }
}

impl Store for Counted {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.count().check(checks)
    }

    fn check_with(&self, checks: Checks, standby: Arc<dyn Standby>) -> StoreFuture<Outcome> {
        self.count().check_with(checks, standby)
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.count().refund(receipt)
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.count().settle(receipt, cost)
    }

    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        self.count().renew(renewals)
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.count().reset(policy, key)
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.count().register(policy)
    }
}

async fn check(limiter: &Limiter, key: Key, cost: u64) -> Outcome {
    limiter.store().check(Checks::one(POLICY, key, cost)).await.unwrap()
}

#[tokio::test]
async fn a_decorated_store_is_called_inside_the_fallback() {
    let mut redis = RedisServer::start().unwrap();
    let calls = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&calls);
    let limiter = Limiter::redis(redis.url())
        .deadline(Duration::from_secs(2))
        .map_store(|inner| Counted { inner, calls: counter })
        .secret("2026", &SECRET)
        .await
        .unwrap();

    let key = limiter.key(|key| key.part("user", b"ada")).unwrap();
    let mut hasher = Secret::new("2026", &SECRET).unwrap().hasher();
    hasher.writer().part("user", b"ada");
    assert_eq!(key, hasher.finish().unwrap(), "the limiter has the given secret");

    let first = check(&limiter, key, 7).await;
    assert_eq!((first.decision().is_degraded(), first.decision().remaining()), (false, 33));
    let keys = redis.cli(&["KEYS", "*"]).unwrap();
    assert!(keys.contains(":2026:"), "the store has the id of the secret: {keys}");
    let receipt = first.into_receipts().next().unwrap();
    assert_eq!(limiter.refund(receipt).await.unwrap().remaining(), 40);
    assert_eq!(calls.load(Ordering::Relaxed), 2);

    redis.kill().unwrap();
    let local = check(&limiter, key, 4).await;
    assert_eq!((local.decision().is_degraded(), local.decision().remaining()), (true, 6));
    let receipt = local.into_receipts().next().unwrap();
    assert_eq!(limiter.refund(receipt).await.unwrap().remaining(), 10);
    assert_eq!(calls.load(Ordering::Relaxed), 3, "the fallback corrects what it has charged");
}
