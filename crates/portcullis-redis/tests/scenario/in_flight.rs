//! Requests in flight of two processes, on a clock that the test sets.

use std::time::Duration;

use portcullis_core::store::{Checks, Renewal, Renewed, Store as _};
use portcullis_core::{Concurrency, Key, Policy, Receipt, Secret, Timestamp};
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use portcullis_testing::ManualClock;

use crate::support::patient;

const HELD: Renewed = Renewed { held: 1, lapsed: 0 };
const LAPSED: Renewed = Renewed { held: 0, lapsed: 1 };

struct Process {
    store: RedisStore,
    exports: Policy,
    tenant: Key,
}

impl Process {
    async fn start(server: &RedisServer, clock: ManualClock) -> Self {
        let store = patient(server).scenario_clock(clock);
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("tenant", b"acme");
        Self {
            store: store.connect().await.unwrap(),
            exports: Concurrency::new("exports", 2).lease(Duration::from_secs(30)).into(),
            tenant: hasher.finish().unwrap(),
        }
    }

    async fn take(&self) -> Option<Receipt> {
        let outcome = self.store.check(Checks::one(self.exports.clone(), self.tenant, 1)).await.unwrap();
        outcome.is_allowed().then(|| outcome.into_receipts().next().unwrap())
    }

    async fn renew(&self, receipts: &[&Receipt]) -> Vec<Renewed> {
        let renewals = receipts.iter().map(|receipt| Renewal::of(receipt)).collect();
        self.store.renew(renewals).await.unwrap()
    }

    /// Returns the number of free permits.
    async fn release(&self, receipt: &Receipt) -> u64 {
        self.store.refund(receipt.copy_for_retry()).await.unwrap().remaining()
    }
}

#[tokio::test]
async fn a_process_that_is_gone_loses_its_permits_and_no_others() {
    let server = RedisServer::start().unwrap();
    let clock = ManualClock::default();
    let at = |seconds: u64| clock.set(Timestamp::from_micros(1_000_000_000_000_000 + seconds * 1_000_000));
    at(0);
    let lives = Process::start(&server, clock.clone()).await;
    let crashes = Process::start(&server, clock.clone()).await;
    let first = lives.take().await.unwrap();
    at(10);
    let lost = crashes.take().await.unwrap();
    assert!(lives.take().await.is_none() && crashes.take().await.is_none());
    drop(crashes);
    // One process renews its permit, and the permit of the other one ends with its lease.
    at(20);
    assert_eq!(lives.renew(&[&first]).await, [HELD]);
    at(39);
    assert!(lives.take().await.is_none());
    at(40);
    let second = lives.take().await.unwrap();
    assert!(lives.take().await.is_none());
    // What has lapsed stays so, and its release frees nothing.
    assert_eq!(lives.renew(&[&lost, &first, &second]).await, [LAPSED, HELD, HELD]);
    assert_eq!(lives.release(&lost).await, 0);
    assert!(lives.take().await.is_none());
    // A second release frees no more than the first, and no more than the limit is free.
    assert_eq!([lives.release(&first).await, lives.release(&first).await], [1, 1]);
    assert_eq!([lives.release(&second).await, lives.release(&second).await], [2, 2]);
    assert_eq!(lives.renew(&[&first, &second]).await, [LAPSED, LAPSED]);
}
