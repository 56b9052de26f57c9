//! A limiter on a decorated store in Redis.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use portcullis::key::Key;
use portcullis::redis::RedisStore;
use portcullis::store::{
    CallObserver, CallOutcome, Checks, Fallback, Figure, InstanceShare, MemoryStore, Outcome, Renewal,
    Renewed, Standby, Store, StoreCall, StoreErrorKind, StoreFuture,
};
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

    fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        self.inner.figures(visit);
    }

    fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
        self.inner.observe_calls(observer);
    }

    fn drain(&self) -> StoreFuture<()> {
        self.inner.drain()
    }
}

/// A store that has one figure, and observers.
#[derive(Clone, Default)]
struct Reporting(Arc<AtomicU64>);

fn unused<T>() -> StoreFuture<T> {
    StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Unavailable, "there is no server")))
}

impl Store for Reporting {
    fn check(&self, _: Checks) -> StoreFuture<Outcome> {
        unused()
    }

    fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
        unused()
    }

    fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
        unused()
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        unused()
    }

    fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        visit(Figure::gauge("observers", self.0.load(Ordering::Relaxed), "Observers of the calls."));
    }

    fn observe_calls(&self, _: Arc<dyn CallObserver>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn drain(&self) -> StoreFuture<()> {
        self.0.store(DRAINED, Ordering::Relaxed);
        StoreFuture::ready(Ok(()))
    }
}

/// The figure of a store that has been drained.
const DRAINED: u64 = 1_000;

/// Counts the decisions of calls, and those of calls that have failed.
#[derive(Default)]
struct Decisions([AtomicU64; 2]);

impl CallObserver for Decisions {
    fn on_call(&self, call: &StoreCall) {
        let is_failed = call.outcome != CallOutcome::Answered;
        self.0[usize::from(is_failed)].fetch_add(u64::from(call.decisions), Ordering::Relaxed);
    }
}

fn figure(store: &dyn Store, name: &str) -> Option<u64> {
    let mut value = None;
    store.figures(&mut |figure| {
        if figure.name == name && figure.policy.is_none() {
            assert_eq!(value.replace(figure.value), None, "{name} is not unique");
        }
    });
    value
}

#[tokio::test]
async fn every_decorator_passes_on_what_has_a_default() {
    let inner = Reporting::default();
    let decorators: [(&str, Arc<dyn Store>); 4] = [
        ("an Arc", Arc::new(Arc::new(inner.clone()))),
        ("a trait object", Arc::new(Arc::new(inner.clone()) as Arc<dyn Store>)),
        ("a fallback", Arc::new(Fallback::new(inner.clone()))),
        ("a limiter", Arc::clone(Limiter::new(inner.clone(), Secret::published()).store())),
    ];
    for (observers, (name, store)) in (0..).zip(decorators) {
        assert_eq!(figure(&store, "observers"), Some(observers), "{name}");
        store.observe_calls(Arc::new(Decisions::default()));
        assert_eq!(figure(&store, "observers"), Some(observers + 1), "{name}");
    }
    let limiter = Limiter::new(Fallback::new(inner.clone()), Secret::published());
    assert_eq!(limiter.drain(Duration::from_secs(60)).await.left, 0);
    assert_eq!(figure(&inner, "observers"), Some(DRAINED));
    let share = InstanceShare::new(MemoryStore::new(), 2);
    share.register(&POLICY).unwrap();
    assert_eq!(figure(&share, "policies"), Some(1));
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
        .deadline(Duration::from_secs(5))
        .map_store(|inner| Counted { inner, calls: counter })
        .secret("2026", &SECRET)
        .await
        .unwrap();

    let observed = Arc::new(Decisions::default());
    limiter.store().observe_calls(Arc::<Decisions>::clone(&observed));
    let decisions = || observed.0.each_ref().map(|count| count.load(Ordering::Relaxed));
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

    let figures = ["decisions", "connections", "fallback_active", "fallback_decisions"];
    let figures = || figures.map(|name| figure(limiter.store(), name).unwrap());
    assert_eq!((figures(), decisions()), ([1, 1, 0, 0], [1, 0]));

    redis.kill().unwrap();
    let local = check(&limiter, key, 4).await;
    assert_eq!((local.decision().is_degraded(), local.decision().remaining()), (true, 6));
    let receipt = local.into_receipts().next().unwrap();
    assert_eq!(limiter.refund(receipt).await.unwrap().remaining(), 10);
    assert_eq!(figures()[2..], [1, 1], "the fallback has decided");
    assert_eq!(calls.load(Ordering::Relaxed), 3, "the fallback corrects what it has charged");
}
