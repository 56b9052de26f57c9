//! The store in each kind of deployment: every pair of values of topology, server, transport, user and protocol.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod deployment;
mod table;
mod workload;

use std::time::{Duration, Instant};

use portcullis_redis::{ConnectError, RedisStore, SetupError};
use portcullis_servers::{RedisSentinels, ServerSetup};

use deployment::Deployment;
use table::{Row, Transport};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_pair_works() {
    let mut rows = 0;
    for row in table::ROWS.iter().copied().filter(|row| row.server.is_under_test()) {
        let start = Instant::now();
        let deployment = Deployment::start(row);
        let started = start.elapsed();
        row_works(row, &deployment).await;
        println!("{row:?}: started in {started:?}, finished in {:?}", start.elapsed());
        rows += 1;
    }
    assert!(rows >= 3, "ran {rows} of {} rows", table::ROWS.len());
}

async fn row_works(row: Row, deployment: &Deployment) {
    let builder = RedisStore::builder(deployment.url()).deadline(DEADLINE).connect_wait(DEADLINE);
    let builder = match deployment.root_certificate() {
        Some(root) => builder.root_certificate(root.as_bytes()),
        None => builder,
    };
    let store = builder.connect().await.unwrap_or_else(|error| panic!("{row:?}: {error}"));
    assert!(store.is_connected(), "{row:?}");
    let keys = workload::exercise_every_algorithm(&store, row).await;
    deployment.assert_connected_as(row);
    assert_eq!(deployment.count_expiring_keys(), keys, "{row:?}");
    drop(store);
    deployment.wait_until_disconnected(row);
}

#[tokio::test]
async fn only_the_configured_root_certificate_is_trusted() {
    if !table::Server::Redis.is_under_test() {
        return;
    }
    let server = ServerSetup::new().tls().server().unwrap();
    let trusting = |pem: &str| {
        RedisStore::builder(server.url())
            .connect_wait(Duration::from_millis(500))
            .root_certificate(pem.as_bytes())
    };
    let unrelated = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let distrusting = trusting(&unrelated.cert.pem()).connect().await.unwrap();
    assert!(!distrusting.is_connected());
    let root = server.root_certificate().unwrap();
    assert!(trusting(root).deadline(DEADLINE).connect_wait(DEADLINE).connect().await.unwrap().is_connected());
    let error = trusting("none").connect().await.unwrap_err();
    assert!(matches!(error, SetupError::Connect(ConnectError::RootCertificate(_))), "{error}");
}

#[tokio::test]
async fn sentinels_use_their_own_credentials() {
    let group = RedisSentinels::start(1, 0).unwrap();
    let user = ["ACL", "SETUSER", "watcher", "on", ">portculli5", "+@all"];
    assert_eq!(group.sentinels()[0].cli(&user).unwrap(), "OK");
    assert_eq!(group.sentinels()[0].cli(&["ACL", "SETUSER", "default", "off"]).unwrap(), "OK");
    let store = |password: &str, wait| {
        let url = format!("{}&sentinelUsername=watcher&sentinelPassword={password}", group.url());
        RedisStore::builder(url).deadline(DEADLINE).connect_wait(wait).connect()
    };
    assert!(store("portculli5", DEADLINE).await.unwrap().is_connected());
    let refused = store("another", Duration::from_millis(500)).await;
    assert!(!refused.is_ok_and(|store| store.is_connected()));
}

#[test]
fn the_table_has_every_pair() {
    assert_eq!(table::missing_pairs(table::ROWS), Vec::<String>::new());
    // A table without one of its rows fails the check.
    let (_, rest) = table::ROWS.split_last().unwrap();
    assert!(table::missing_pairs(rest).contains(&"Sentinels and Valkey".to_owned()));
    assert!(table::ROWS.iter().all(|row| row.server.has_tls() || row.transport == Transport::Plain));
}

/// Generous: a slow machine must not fail a test.
const DEADLINE: Duration = Duration::from_secs(5);
