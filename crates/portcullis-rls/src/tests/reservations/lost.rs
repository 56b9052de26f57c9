//! Calls of the store that are made, and whose answers are lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use portcullis::key::Key;
use portcullis::store::{
    Checks, ExchangedRecord, MemoryStore, Outcome, Receipt, RecordExchange, Settlement, Store,
    StoreErrorKind, StoreFuture,
};
use portcullis::{Decision, Limiter, Policy, Secret, StoreError};

use super::*;

/// A store that several instances share, and that loses the answer to the next exchange.
#[derive(Clone, Default)]
struct Shared(Arc<Inner>);

#[derive(Default)]
struct Inner {
    memory: MemoryStore,
    records: Mutex<HashMap<u128, Vec<u8>>>,
    loses: AtomicBool,
}

impl Store for Shared {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.0.memory.check(checks)
    }
    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.0.memory.refund(receipt)
    }
    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.0.memory.settle(receipt, cost)
    }
    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.0.memory.reset(policy, key)
    }
    fn exchange_record(&self, exchange: RecordExchange) -> StoreFuture<Option<ExchangedRecord>> {
        let mut records = self.0.records.lock().unwrap();
        let found = records.get(&exchange.id).cloned().unwrap_or_default();
        let replacement = exchange.replacement.filter(|_| found == exchange.expected);
        let is_replaced = replacement.is_some();
        if let Some((record, _)) = replacement {
            records.insert(exchange.id, record);
        }
        if is_replaced && self.0.loses.swap(false, Ordering::Relaxed) {
            return StoreFuture::ready(Err(StoreError::new(StoreErrorKind::TimedOut, "the answer is lost")));
        }
        StoreFuture::ready(Ok(Some(ExchangedRecord { found, is_replaced })))
    }
}

/// Two instances under a rule that gives back what is not committed.
fn instances() -> (Shared, [RateLimitService; 2]) {
    let store = Shared::default();
    let text = "[policy.p]\nstrategy = \"fixed_window\"\nquota = \"100/day\"\nkey = \"global\"\nreserve = \"nothing\"\n";
    let instance = || {
        let limiter = Limiter::new(store.clone(), Secret::published());
        native_by(limiter, &Loader::text("limits.toml", Format::Toml, text))
    };
    let instances = [instance(), instance()];
    (store, instances)
}

const ANY: &[(&str, &str)] = &[("a", "b")];

#[tokio::test(start_paused = true)]
async fn commit_is_repeated_after_a_lost_claim() {
    for committing in [0, 1] {
        let (store, services) = instances();
        let id = reserve(&services[0], reservation(&[ANY], 60)).await;
        store.0.loses.store(true, Ordering::Relaxed);
        assert_eq!(commit(&services[committing], &id, 10).await, Err(tonic::Code::Unavailable));
        assert_eq!(left(&services[0], ANY).await, 40);
        for _ in 0..2 {
            assert_eq!(commit(&services[committing], &id, 10).await, Ok(true), "instance {committing}");
            assert_eq!(left(&services[0], ANY).await, 90);
        }
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(left(&services[1], ANY).await, 90, "instance {committing}");
    }
}

#[tokio::test(start_paused = true)]
async fn lost_claim_that_is_not_repeated_is_given_back_once() {
    for committing in [0, 1] {
        let (store, services) = instances();
        let id = reserve(&services[0], reservation(&[ANY], 60)).await;
        store.0.loses.store(true, Ordering::Relaxed);
        assert_eq!(commit(&services[committing], &id, 10).await, Err(tonic::Code::Unavailable));
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(left(&services[0], ANY).await, 100, "instance {committing}");
    }
}
