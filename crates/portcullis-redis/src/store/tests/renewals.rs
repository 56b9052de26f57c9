//! Renewals of permits by few calls.

use std::time::Duration;

use portcullis_core::store::{Checks, Renewal, Renewed, Store as _};
use portcullis_core::{Key, Policy, Receipt, StoreErrorKind};
use portcullis_servers::RedisCluster;

use super::{MONTHLY, RedisStore, Server, in_flight, key, name, open, open_url, patient, receipt};
use crate::protocol::keys::slot;

/// The most of a call.
const MAX_RENEWALS: usize = 128;

const HELD: Renewed = Renewed { held: 1, lapsed: 0 };
const LAPSED: Renewed = Renewed { held: 0, lapsed: 1 };

fn user(number: usize) -> Key {
    key(&[&number.to_string()])
}

async fn take(store: &RedisStore, policy: &Policy, key: Key) -> Receipt {
    let outcome = store.check(Checks::one(policy.clone(), key, 1)).await.unwrap();
    outcome.into_receipts().next().unwrap()
}

/// Takes permits of keys in turn.
async fn take_many(store: &RedisStore, policy: &Policy, permits: usize, keys: usize) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    for number in 0..permits {
        receipts.push(take(store, policy, user(number % keys)).await);
    }
    receipts
}

fn renewals(receipts: &[Receipt]) -> Vec<Renewal> {
    receipts.iter().map(Renewal::of).collect()
}

#[tokio::test]
async fn all_permits_of_a_process_are_renewed_by_one_call() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let exports = in_flight("exports", 9);
    let receipts = take_many(&store, &exports, MAX_RENEWALS + 1, 20).await;
    for (permits, calls) in [(0, 0), (1, 1), (MAX_RENEWALS, 1), (MAX_RENEWALS + 1, 2)] {
        server.cli(&["CONFIG", "RESETSTAT"]);
        let renewed = store.renew(renewals(&receipts[..permits])).await.unwrap();
        assert_eq!(renewed, vec![HELD; permits]);
        assert_eq!(server.calls("evalsha"), calls, "{permits} permits");
        let keys = permits.min(20) as u64;
        let reads = if permits > MAX_RENEWALS { keys + 1 } else { keys };
        assert_eq!(["get", "set"].map(|command| server.calls(command)), [reads; 2], "each key once");
    }
}

#[tokio::test]
async fn a_renewal_sets_the_expiry_and_reports_what_is_not_held() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let exports = in_flight("exports", 9);
    let (ada, two) = (key(&["ada"]), receipt(&store, &exports, 2).await);
    let [released, held] = [take(&store, &exports, ada).await, take(&store, &exports, ada).await];
    let _ = store.refund(released.copy_for_retry()).await.unwrap();
    server.cli(&["PEXPIRE", &name(&exports), "60000"]);
    // A charge of the fallback, and one of a policy without permits, are not the store's.
    let elsewhere = take(&store, &exports, ada).await.charged_by(std::num::NonZeroU64::new(7));
    let counted = receipt(&store, &MONTHLY, 3).await;
    let all = renewals(&[two, released, held, elsewhere, counted]);
    let renewed = store.renew(all).await.unwrap();
    let both = Renewed { held: 2, lapsed: 0 };
    assert_eq!(renewed, [both, LAPSED, HELD, LAPSED, Renewed { held: 0, lapsed: 3 }]);
    let left: u64 = server.cli(&["PTTL", &name(&exports)]).trim().parse().unwrap();
    assert!((1_700_000..=1_800_002).contains(&left), "{left}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_renews_the_permits_of_each_slot_by_one_call() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = open_url(cluster.url()).await;
    let exports = in_flight("exports", 9);
    let receipts = take_many(&store, &exports, 120, 40).await;
    let mut slots: Vec<u16> = (0..40).map(|number| slot(user(number))).collect();
    slots.sort_unstable();
    slots.dedup();
    let _ = store.refund(receipts[7].copy_for_retry()).await.unwrap();
    let calls = || cluster.nodes().iter().map(|node| node.calls("evalsha").unwrap()).sum::<u64>();
    let before = calls();
    let renewed = store.renew(renewals(&receipts)).await.unwrap();
    let expected = (0..120).map(|index| if index == 7 { LAPSED } else { HELD });
    assert_eq!(renewed, expected.collect::<Vec<_>>());
    assert_eq!(calls() - before, slots.len() as u64);
}

#[tokio::test]
async fn a_renewal_without_a_reply_is_an_error_and_may_be_repeated() {
    let server = Server::start(&[]);
    let deadline = Duration::from_secs(2);
    let store = patient(server.url()).deadline(deadline).connect().await.unwrap();
    let exports = in_flight("exports", 9);
    let receipts = [receipt(&store, &exports, 1).await];
    assert_eq!(server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]).trim(), "OK");
    let error = store.renew(renewals(&receipts)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::TimedOut);
    assert_eq!(server.cli(&["CLIENT", "UNPAUSE"]).trim(), "OK");
    super::left_at_last(&store, &exports).await;
    assert_eq!(store.renew(renewals(&receipts)).await.unwrap(), [HELD]);
}
