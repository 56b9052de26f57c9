//! The store against real servers, on the server's own clock.

use std::time::{Duration, Instant};

use portcullis_core::{Check, Checks, Key, Outcome, Policy, Quota, Receipt, Secret, Store, StoreErrorKind};
use tokio::task::JoinSet;

use super::RedisStore;
use crate::SetupError;
use crate::connection::tests::cluster::cluster;
use crate::connection::tests::server::Server;

const MONTHLY: Policy = Policy::fixed_window("monthly", Quota::per_week(1_000));
const BURST: Policy = Policy::gcra("burst", Quota::per_minute(3).burst(5));

fn key(parts: &[&str]) -> Key {
    let mut hasher = Secret::published().hasher();
    for part in parts {
        hasher.writer().part("user", part.as_bytes());
    }
    hasher.finish().unwrap()
}

async fn open(server: &Server) -> RedisStore {
    // Patient: these tests share two cores with many servers.
    RedisStore::builder(server.url()).deadline(Duration::from_secs(2)).connect().await.unwrap()
}

async fn check(store: &RedisStore, policy: &Policy, cost: u32) -> Outcome {
    store.check(Checks::one(policy.clone(), key(&["ada"]), cost)).await.unwrap()
}

fn name(policy: &Policy) -> String {
    format!("portcullis:v1:0:{{{:032x}}}:{}:{}", key(&["ada"]).slot(), policy.name(), policy.strategy().tag())
}

async fn receipt(store: &RedisStore, policy: &Policy, cost: u32) -> Receipt {
    check(store, policy, cost).await.into_receipts().next().unwrap()
}

#[tokio::test]
async fn one_round_trip_decides_several_policies_and_a_denial_writes_nothing() {
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
async fn every_key_expires_no_earlier_than_its_state_and_at_most_two_milliseconds_later() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for policy in [BURST, MONTHLY] {
        let _ = check(&store, &policy, 3).await;
        let expires: u64 = server.cli(&["PEXPIRETIME", &name(&policy)]).trim().parse().unwrap();
        let peek = check(&store, &policy, 0).await;
        let left = expires.saturating_mul(1_000).saturating_sub(peek.decision().at().as_micros());
        let needed = u64::try_from(peek.decision().reset_after().as_micros()).unwrap();
        assert!((needed..=needed + 2_000).contains(&left), "{left} {needed}");
    }
}

#[tokio::test]
async fn a_key_is_gone_once_its_state_is_over_on_the_server_s_own_clock() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let quick = Policy::gcra("quick", Quota::new(1, Duration::from_millis(150)).unwrap());
    let wait = check(&store, &quick, 1).await.decision().reset_after();
    let denied = check(&store, &quick, 1).await;
    assert!(!denied.is_allowed());
    assert_eq!(server.cli(&["EXISTS", &name(&quick)]).trim(), "1");
    tokio::time::sleep(wait + Duration::from_millis(5)).await;
    assert_eq!(server.cli(&["EXISTS", &name(&quick)]).trim(), "0");
    assert!(check(&store, &quick, 1).await.is_allowed());
}

#[tokio::test]
async fn values_that_are_none_of_ours_are_healed_and_let_nobody_in_twice() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for policy in [BURST, MONTHLY] {
        let name = name(&policy);
        let long = "9".repeat(4_096);
        let garbage = ["gibberish", "-1", "1e300", "nan", "1 2 3 4 5", "0x10", "17 -4", &long];
        for value in garbage.iter().map(|value| vec!["SET", &name, value]).chain([vec!["LPUSH", &name, "x"]])
        {
            server.cli(&["DEL", &name]);
            server.cli(&value);
            // Even a peek repairs: what it leaves has an expiry and counts as nothing.
            let peek = check(&store, &policy, 0).await;
            assert_eq!(peek.decision().remaining(), policy.strategy().limit(), "{value:?}");
            assert_ne!(server.cli(&["PTTL", &name]).trim(), "-1", "{value:?}");
            server.cli(&["DEL", &name]);
            server.cli(&value);
            assert_eq!(check(&store, &policy, 2).await.decision().remaining(), policy.strategy().limit() - 2);
            assert_eq!(check(&store, &policy, 0).await.decision().remaining(), policy.strategy().limit() - 2);
        }
    }
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
    // What flowed back meanwhile is less than one unit.
    assert!(debt.decision.remaining() == 0 && (89..=90).contains(&debt.uncharged), "{debt:?}");
    assert!(debt.decision.reset_after() <= Duration::from_secs(200));
}

#[tokio::test]
async fn many_tasks_on_one_key_admit_exactly_the_budget_and_survive_lost_scripts() {
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
async fn a_user_who_may_not_read_keys_is_named_at_once() {
    let server = Server::start(&[]);
    server.cli(&["ACL", "SETUSER", "weak", "on", ">pw", "~*", "-@all", "+evalsha", "+script|load", "+time"]);
    let url = format!("redis://weak:pw@127.0.0.1:{}", server.port);
    let error = RedisStore::builder(&url).connect().await.unwrap_err();
    assert!(matches!(error, SetupError::Permission(_)), "{error:?}");
    assert!(error.to_string().contains("+get +set") && !error.to_string().contains("pw@"), "{error}");

    server.cli(&["ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@all", "-set"]);
    let url = format!("redis://reader:pw@127.0.0.1:{}", server.port);
    let error = RedisStore::builder(&url).connect().await.unwrap_err();
    assert!(matches!(error, SetupError::Permission(_)), "{error:?}");

    server.cli(&["ACL", "SETUSER", "noeval", "on", ">pw", "~*", "+@all", "-evalsha"]);
    let url = format!("redis://noeval:pw@127.0.0.1:{}", server.port);
    let error = RedisStore::builder(&url).connect().await.unwrap_err().to_string();
    assert!(error.contains("+evalsha"), "{error}");
}

#[tokio::test]
async fn the_least_user_can_do_everything() {
    let server = Server::start(&[]);
    let least = ["-@all", "+evalsha", "+script|load", "+get", "+set", "+time"];
    server.cli(&[&["ACL", "SETUSER", "least", "on", ">pw", "~portcullis:*"][..], &least[..]].concat());
    let url = format!("redis://least:pw@127.0.0.1:{}", server.port);
    let store = RedisStore::builder(&url).deadline(Duration::from_secs(2)).connect().await.unwrap();
    let charged = receipt(&store, &BURST, 5).await;
    assert!(!check(&store, &BURST, 1).await.is_allowed());
    assert_eq!(store.refund(charged).await.unwrap().remaining(), 5);
    store.reset(&BURST, key(&["ada"])).await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_answers_unavailable_at_once() {
    let server = Server::stopped(&[]);
    let wait = Duration::from_millis(100);
    let store = RedisStore::builder(server.url()).connect_wait(wait).connect().await.unwrap();
    let start = Instant::now();
    let checks = Checks::one(BURST, key(&["ada"]), 1);
    let error = store.check(checks).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(start.elapsed() < Duration::from_millis(50));
    assert!(!store.is_connected());
}

#[tokio::test]
async fn waits_without_end_are_waits_of_an_hour() {
    let server = Server::start(&[]);
    let store = RedisStore::builder(server.url()).deadline(Duration::MAX).connect_wait(Duration::MAX);
    let store = store.connect().await.unwrap();
    assert!(check(&store, &BURST, 1).await.is_allowed());
}

#[tokio::test]
async fn a_url_or_namespace_that_is_none_is_an_error_at_once() {
    for (url, namespace, why) in [
        ("http://127.0.0.1", "shop", "redis-cluster"),
        ("127.0.0.1:6379", "shop", "not a redis url"),
        ("redis://127.0.0.1:6379", "a:b", "namespace"),
    ] {
        let error = RedisStore::builder(url).namespace(namespace).connect().await.unwrap_err().to_string();
        assert!(error.contains(why), "{url}: {error}");
    }
}

#[tokio::test]
async fn arguments_that_the_store_never_sends_are_refused_before_anything_is_written() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let check = Check { policy: BURST, key: key(&["ada"]), cost: 1 };
    let script = store.0.scripts.for_strategies([check.policy.strategy()].into_iter());
    let name = name(&BURST);
    for bad in ["-1", "nan", "inf", "1.5", "9007199254740992", "", "1e3", "0x1"] {
        for position in 0..6 {
            let mut arguments: Vec<&str> = vec!["check", "0", "meter", "6", "1", "2", "0", "1", "0", "1"];
            arguments[4 + position] = bad;
            let arguments = arguments.into_iter().map(Into::into).collect();
            let reply = store.0.connection.call(script, vec![name.clone()], arguments).await;
            assert!(reply.is_err(), "{bad} at {position}");
        }
    }
    assert_eq!(server.cli(&["EXISTS", &name]).trim(), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_decides_policies_of_one_identity_together_and_refuses_unrelated_ones() {
    let nodes = cluster();
    let url = format!("redis-cluster://127.0.0.1:{}", nodes[0].port);
    let store = RedisStore::builder(url).deadline(Duration::from_secs(2)).connect().await.unwrap();
    for user in ["ada", "grace", "barbara", "radia", "frances"] {
        let (user, on_route) = (key(&[user]), key(&[user, "/search"]));
        let related = Checks::one(BURST, user, 5).and(MONTHLY, on_route, 5).unwrap();
        assert!(store.check(related.clone()).await.unwrap().is_allowed());
        assert!(!store.check(related).await.unwrap().is_allowed());
    }
    // Not every pair of users is in two slots, but of ten pairs some are.
    let mut refusals = Vec::new();
    for number in 0..10 {
        let unrelated =
            Checks::one(MONTHLY, key(&["ada"]), 1).and(MONTHLY, key(&[&number.to_string()]), 1).unwrap();
        refusals.extend(store.check(unrelated).await.err());
    }
    let refusal = refusals.pop().unwrap();
    assert_eq!(refusal.kind(), StoreErrorKind::Unsupported);
    assert!(refusal.to_string().contains("different slots"), "{refusal}");
}
