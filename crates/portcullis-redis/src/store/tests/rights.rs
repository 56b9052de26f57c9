//! The permissions of the server's user.

use std::time::{Duration, Instant};

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Policy, Quota, StoreErrorKind};

use portcullis_servers::{LEAST_RIGHTS, LEAST_RIGHTS_WITH_EVAL, SLIDING_LOG_RIGHTS};

use crate::connection::tests::server::Log;

use super::{
    BURST, RedisStore, Server, SetupError, check, key, patient, policies, policies_and_permits, receipt,
};

#[tokio::test]
async fn missing_key_permissions_are_an_error_at_once() {
    let server = Server::start(&[]);
    server.cli(&["ACL", "SETUSER", "weak", "on", ">pw", "~*", "-@all", "+evalsha", "+script|load", "+time"]);
    let url = format!("redis://weak:pw@127.0.0.1:{}", server.port);
    let error = patient(&url).connect().await.unwrap_err();
    assert!(matches!(error, SetupError::Permission(_)), "{error:?}");
    assert!(error.to_string().contains("+get +set") && !error.to_string().contains("pw@"), "{error}");

    server.cli(&["ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@all", "-set"]);
    let url = format!("redis://reader:pw@127.0.0.1:{}", server.port);
    let error = patient(&url).connect().await.unwrap_err();
    assert!(matches!(error, SetupError::Permission(_)), "{error:?}");

    server.cli(&["ACL", "SETUSER", "noeval", "on", ">pw", "~*", "+@all", "-evalsha"]);
    let url = format!("redis://noeval:pw@127.0.0.1:{}", server.port);
    let error = patient(&url).connect().await.unwrap_err().to_string();
    assert!(error.contains("+evalsha"), "{error}");
}

async fn as_user(server: &Server, rights: &[&str]) -> RedisStore {
    server.cli(
        &[&["ACL", "SETUSER", "least", "reset", "on", ">pw", "~portcullis:*", "-@all"], rights].concat(),
    );
    let url = format!("redis://least:pw@127.0.0.1:{}", server.port);
    patient(&url).connect().await.unwrap()
}

fn needed(policy: &Policy) -> Vec<&'static str> {
    rights_for(&LEAST_RIGHTS, policy)
}

fn rights_for(least: &[&'static str], policy: &Policy) -> Vec<&'static str> {
    let log = if policy.strategy().tag() == "sliding_log" { &SLIDING_LOG_RIGHTS[..] } else { &[] };
    [least, log].concat()
}

#[tokio::test]
async fn the_least_permissions_suffice_for_every_operation() {
    let server = Server::start(&[]);
    let all = policies_and_permits(Quota::per_week(500)).into_iter().chain([BURST]);
    for (policy, least) in
        all.flat_map(|policy| [(policy.clone(), LEAST_RIGHTS), (policy, LEAST_RIGHTS_WITH_EVAL)])
    {
        server.cli(&["SCRIPT", "FLUSH"]);
        let store = as_user(&server, &rights_for(&least, &policy)).await;
        let most = policy.strategy().limit();
        let first = receipt(&store, &policy, most - 2).await;
        let second = receipt(&store, &policy, 2).await;
        assert!(!check(&store, &policy, most).await.is_allowed());
        assert_eq!(store.settle(second, most).await.unwrap().decision.remaining(), 0);
        let _ = store.refund(first).await.unwrap();
        store.reset(&policy, key(&["ada"])).await.unwrap();
        assert_eq!(check(&store, &policy, 0).await.decision().remaining(), most);
    }
}

#[tokio::test]
async fn a_log_without_its_permissions_is_forbidden_and_uncharged() {
    let server = Server::start(&[]);
    let log = policies(Quota::per_week(500)).pop().unwrap();
    for missing in SLIDING_LOG_RIGHTS {
        let rights: Vec<_> = needed(&log).into_iter().filter(|right| *right != missing).collect();
        let whole = as_user(&server, &needed(&log)).await;
        let _ = check(&whole, &log, 100).await;
        let store = as_user(&server, &rights).await;
        let refused = store.check(Checks::one(log.clone(), key(&["ada"]), 3)).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Forbidden, "{missing}: {refused}");
        let whole = as_user(&server, &needed(&log)).await;
        assert_eq!(check(&whole, &log, 0).await.decision().remaining(), 400, "{missing}");
        whole.reset(&log, key(&["ada"])).await.unwrap();
    }
}

#[tokio::test]
async fn a_partly_refused_decision_charges_nothing() {
    let server = Server::start(&[]);
    let log = policies(Quota::per_week(500)).pop().unwrap();
    let both = |cost| Checks::one(BURST, key(&["ada"]), cost).and(log.clone(), key(&["ada"]), cost).unwrap();
    let whole = as_user(&server, &needed(&log)).await;
    let _ = check(&whole, &log, 200).await;
    let before = check(&whole, &BURST, 0).await.decision().remaining();
    for missing in ["setrange", "pexpire", "set"] {
        let store = as_user(&server, &needed(&log)).await;
        server.cli(&["ACL", "SETUSER", "least", &format!("-{missing}")]);
        assert_eq!(store.check(both(1)).await.unwrap_err().kind(), StoreErrorKind::Forbidden);
    }
    let whole = as_user(&server, &needed(&log)).await;
    assert_eq!(check(&whole, &BURST, 0).await.decision().remaining(), before);
    assert_eq!(check(&whole, &log, 0).await.decision().remaining(), 300);
}

#[tokio::test]
async fn a_partly_refused_decision_of_logs_charges_nothing() {
    let server = Server::start(&[]);
    let long = policies(Quota::per_week(500)).pop().unwrap();
    let short = Policy::sliding_log("short", Quota::per_week(500));
    let whole = as_user(&server, &needed(&long)).await;
    // A log of more than 64 units is changed by other commands than `SET`.
    let _ = check(&whole, &long, 200).await;
    let both = Checks::one(long.clone(), key(&["ada"]), 1).and(short.clone(), key(&["ada"]), 1).unwrap();
    for missing in ["setrange", "pexpire", "set"] {
        let store = as_user(&server, &needed(&long)).await;
        server.cli(&["ACL", "SETUSER", "least", &format!("-{missing}")]);
        let refused = store.check(both.clone()).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Forbidden, "{missing}: {refused}");
    }
    let whole = as_user(&server, &needed(&long)).await;
    assert_eq!(check(&whole, &long, 0).await.decision().remaining(), 300);
    assert_eq!(check(&whole, &short, 0).await.decision().remaining(), 500);
}

async fn forbidden(store: &RedisStore) -> bool {
    let answer = store.check(Checks::one(BURST, key(&["ada"]), 1)).await;
    answer.is_err_and(|error| error.kind() == StoreErrorKind::Forbidden)
}

fn errors(log: &Log) -> Vec<String> {
    log.all().into_iter().filter(|line| line.contains("ERROR")).collect()
}

#[tokio::test]
async fn a_permission_lost_in_service_is_logged_once_with_the_fix() {
    for right in ["set", "evalsha"] {
        let log = Log::capture();
        let server = Server::start(&[]);
        let store = as_user(&server, &LEAST_RIGHTS).await;
        assert!(check(&store, &BURST, 1).await.is_allowed());
        server.cli(&["ACL", "SETUSER", "least", &format!("-{right}")]);
        for _ in 0..50 {
            assert!(forbidden(&store).await);
        }
        let [error] = &errors(&log)[..] else { panic!("{:#?}", log.all()) };
        assert!(error.contains("denied its user a command") && error.contains("+get +set"), "{error}");
        assert!(!error.contains("pw@"), "{error}");
        server.cli(&["ACL", "SETUSER", "least", &format!("+{right}")]);
        assert!(check(&store, &BURST, 1).await.is_allowed());
        assert_eq!(errors(&log).len(), 1);
    }
}

#[tokio::test]
async fn missing_permissions_on_a_late_server_are_logged_by_a_check() {
    let log = Log::capture();
    let user = ["--user", "weak", "on", ">pw", "~*", "-@all"];
    let mut server = Server::stopped(&[&user, &LEAST_RIGHTS[..], &["-set"]].concat());
    let url = format!("redis://weak:pw@127.0.0.1:{}", server.port);
    let store = patient(&url).connect_wait(Duration::from_millis(10)).connect().await.unwrap();
    assert!(errors(&log).is_empty());
    server.run();
    let started = Instant::now();
    while !forbidden(&store).await {
        assert!(started.elapsed() < Duration::from_secs(20), "no check is refused: {:#?}", log.all());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let [error] = &errors(&log)[..] else { panic!("{:#?}", log.all()) };
    assert!(error.contains("denied its user a command"), "{error}");
}
