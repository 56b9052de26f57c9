//! The store against real servers, on the server's own clock.

mod allocations;
mod arguments;
mod combined;
mod corrupt_values;
mod cross_slot;
mod denials;
mod documents;
mod expiry;
mod figures;
mod in_flight;
mod late_refunds;
mod leases;
mod overload;
mod overrides;
mod partial;
mod read_only;
mod records;
mod rejected;
mod renewals;
mod rights;
mod slot_order;
mod unanswered_correction;

use std::time::{Duration, Instant};

use portcullis_core::store::{Checks, Outcome, Store};
use portcullis_core::{
    Anchor, FixedWindow, InFlight, Key, Policy, PolicyName, PolicySettings, Quota, Receipt, Refill, Secret,
    SlidingWindow, StoreErrorKind, Strategy, TokenBucket,
};
use portcullis_servers::RedisCluster;
use tokio::task::JoinSet;

use super::RedisStore;
use crate::connection::tests::server::Server;
use crate::protocol::keys::Layout;
use crate::{RedisStoreBuilder, SetupError};

const MONTHLY: Policy = Policy::fixed_window("monthly", Quota::per_week(1_000));
const BURST: Policy = Policy::gcra("burst", Quota::per_minute(3).burst(5));

pub(crate) fn key(parts: &[&str]) -> Key {
    let mut hasher = Secret::published().hasher();
    for part in parts {
        hasher.writer().part("user", part.as_bytes());
    }
    hasher.finish().unwrap()
}

async fn open(server: &Server) -> RedisStore {
    open_url(server.url()).await
}

async fn open_url(url: impl Into<String>) -> RedisStore {
    patient(url).connect().await.unwrap()
}

/// Waits for longer than a machine stands still, because these tests share two cores with many servers. With the default wait a store
/// would start without a connection that is late.
pub(crate) fn patient(url: impl Into<String>) -> RedisStoreBuilder {
    RedisStore::builder(url).deadline(Duration::from_secs(5)).connect_wait(Duration::from_secs(20))
}

pub(crate) async fn check(store: &RedisStore, policy: &Policy, cost: u64) -> Outcome {
    store.check(Checks::one(policy.clone(), key(&["ada"]), cost)).await.unwrap()
}

/// Asks until a denial is answered without a trip. It is forgotten after a second, so that a machine that stands still needs another.
async fn remembered(store: &RedisStore, checks: impl Fn() -> Checks) -> Outcome {
    for _ in 0..5 {
        match store.check(checks()).into_ready() {
            Ok(answer) => {
                let denied = answer.unwrap();
                assert!(denied.is_remembered() && !denied.is_allowed());
                return denied;
            }
            Err(asked) => assert!(!asked.await.unwrap().is_allowed()),
        }
    }
    panic!("no denial is remembered");
}

/// The remaining units as soon as the server replies. The peek uses the same connection, so it runs behind all pending calls.
async fn left_at_last(store: &RedisStore, policy: &Policy) -> u64 {
    let started = Instant::now();
    loop {
        match store.check(Checks::one(policy.clone(), key(&["ada"]), 0)).await {
            Ok(outcome) => return outcome.decision().remaining(),
            Err(error) => assert!(started.elapsed() < Duration::from_secs(20), "no reply: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn name(policy: &Policy) -> String {
    let mut name = Vec::new();
    Layout::new("portcullis", "0").unwrap().write_name(&mut name, policy, key(&["ada"]));
    String::from_utf8(name).unwrap()
}

/// At most `limit` permits, for half an hour.
pub(crate) fn in_flight(name: &str, limit: u64) -> Policy {
    let limit = InFlight::new(limit).and_then(|limit| limit.with_lease(Duration::from_mins(30)));
    Policy::try_new(name, limit, PolicySettings::default()).unwrap()
}

/// Like [`policies`], with a limit on requests in flight in front.
pub(crate) fn policies_and_permits(quota: Quota) -> Vec<Policy> {
    let mut policies = policies(quota);
    policies.insert(0, in_flight("permits", quota.limit()));
    policies
}

/// Policies of `quota` under each algorithm that counts units over time, the log last.
pub(crate) fn policies(quota: Quota) -> Vec<Policy> {
    let bucket = TokenBucket::new(quota).unwrap();
    let [whole, since, slots] = ["whole", "since", "slots"].map(PolicyName::literal);
    vec![
        Policy::token_bucket("bucket", quota),
        Policy::new(whole, Strategy::TokenBucket(bucket.refilled(Refill::Interval))),
        Policy::gcra("gcra", quota.burst(quota.limit())),
        Policy::leaky_bucket("queue", quota),
        Policy::fixed_window("window", quota),
        Policy::new(
            since,
            Strategy::FixedWindow(FixedWindow::new(quota).unwrap().anchored(Anchor::FirstRequest)),
        ),
        Policy::calendar_window("calendar", quota.limit(), &portcullis_testing::calendars()[0]),
        Policy::sliding_window("sliding", quota),
        Policy::new(slots, Strategy::SlidingWindow(SlidingWindow::with_slots(quota, 10).unwrap())),
        Policy::sliding_log("log", quota),
    ]
}

async fn receipt(store: &RedisStore, policy: &Policy, cost: u64) -> Receipt {
    check(store, policy, cost).await.into_receipts().next().unwrap()
}

#[tokio::test]
async fn several_policies_take_one_round_trip_and_a_denial_no_write() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let both = || Checks::one(BURST, key(&["ada"]), 5).and(MONTHLY, key(&["ada"]), 5).unwrap();
    assert!(store.check(both()).await.unwrap().is_allowed());

    server.cli(&["CONFIG", "RESETSTAT"]);
    let denied = store.check(both()).await.unwrap();
    assert_eq!(denied.decision().policy().as_str(), "burst");
    assert_eq!((denied.decisions()[1].is_allowed(), denied.decisions()[1].remaining()), (true, 995));
    let calls = ["evalsha", "time", "get", "set"].map(|command| server.calls(command));
    assert_eq!(calls, [1, 1, 2, 0]);
}

#[tokio::test]
async fn receipts_are_refunded_and_settled_and_keys_are_reset() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    assert_eq!(store.refund(receipt(&store, &MONTHLY, 4).await).await.unwrap().remaining(), 1_000);
    let less = store.settle(receipt(&store, &MONTHLY, 4).await, 1).await.unwrap();
    assert_eq!((less.decision.remaining(), less.uncharged), (999, 0));
    let debt = store.settle(receipt(&store, &MONTHLY, 1).await, 3_000).await.unwrap();
    assert_eq!((debt.decision.remaining(), debt.uncharged), (0, 1_001));
    store.reset(&MONTHLY, key(&["ada"])).await.unwrap();
    assert_eq!(check(&store, &MONTHLY, 0).await.decision().remaining(), 1_000);

    let debt = store.settle(receipt(&store, &BURST, 5).await, 100).await.unwrap();
    // Less than one unit was replenished meanwhile.
    assert!(debt.decision.remaining() == 0 && (89..=90).contains(&debt.uncharged), "{debt:?}");
    assert!(debt.decision.reset_after() <= Duration::from_secs(200));
}

#[tokio::test]
async fn many_tasks_admit_exactly_the_limit_despite_lost_scripts() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let store = store.clone();
        tasks.spawn(async move {
            let mut admitted = 0;
            for _ in 0..100 {
                admitted += u32::from(check(&store, &MONTHLY, 1).await.is_allowed());
            }
            (task, admitted)
        });
    }
    server.cli(&["SCRIPT", "FLUSH"]);
    let admitted: u32 = tasks.join_all().await.into_iter().map(|(_, admitted)| admitted).sum();
    assert_eq!(admitted, 1_000);
}

#[tokio::test]
async fn an_unreachable_server_is_unavailable_at_once() {
    let server = Server::stopped(&[]);
    let wait = Duration::from_millis(100);
    let builder = RedisStore::builder(server.url()).deadline(Duration::from_secs(60));
    let store = builder.connect_wait(wait).connect().await.unwrap();
    let start = Instant::now();
    let checks = Checks::one(BURST, key(&["ada"]), 1);
    let error = store.check(checks).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(start.elapsed() < Duration::from_secs(10), "it waits for its deadline");
    assert!(!store.is_connected());
}

#[tokio::test]
async fn unlimited_waits_are_limited_to_an_hour() {
    let server = Server::start(&[]);
    let store = RedisStore::builder(server.url()).deadline(Duration::MAX).connect_wait(Duration::MAX);
    let store = store.connect().await.unwrap();
    assert!(check(&store, &BURST, 1).await.is_allowed());
}

#[tokio::test]
async fn an_invalid_url_or_namespace_is_an_error_at_once() {
    for (url, namespace, why) in [
        ("http://127.0.0.1", "shop", "redis-cluster"),
        ("127.0.0.1:6379", "shop", "not a redis url"),
        ("redis://127.0.0.1:6379", "a:b", "namespace"),
    ] {
        let error = RedisStore::builder(url).namespace(namespace).connect().await.unwrap_err().to_string();
        assert!(error.contains(why), "{url}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_decides_policies_of_one_identity_by_one_call() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = open_url(cluster.url()).await;
    for user in ["ada", "grace", "barbara", "radia", "frances"] {
        let (user, on_route) = (key(&[user]), key(&[user, "/search"]));
        let related = Checks::one(BURST, user, 5).and(MONTHLY, on_route, 5).unwrap();
        assert!(store.check(related.clone()).await.unwrap().is_allowed());
        assert!(!store.check(related).await.unwrap().is_allowed());
    }
}
