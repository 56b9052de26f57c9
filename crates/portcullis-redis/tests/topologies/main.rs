//! The store wherever it may have to run: every pair of a topology, a server, a transport, a user and a protocol.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod running;
mod table;
mod work;

use std::time::{Duration, Instant};

use portcullis_redis::{ConnectError, RedisStore, SetupError};
use portcullis_testing::{RedisSentinels, ServerSetup};

use running::Running;
use table::{Row, Transport};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_pair_works() {
    let mut rows = 0;
    for row in table::ROWS.iter().copied().filter(|row| row.server.is_here()) {
        let start = Instant::now();
        let running = Running::start(row);
        let started = start.elapsed();
        works(row, &running).await;
        println!("{row:?}: started in {started:?}, all in {:?}", start.elapsed());
        rows += 1;
    }
    assert!(rows >= 3, "of {} rows {rows} ran", table::ROWS.len());
}

async fn works(row: Row, running: &Running) {
    let builder = RedisStore::builder(running.url()).deadline(PATIENCE);
    let builder = match running.root_certificate() {
        Some(root) => builder.root_certificate(root.as_bytes()),
        None => builder,
    };
    let store = builder.connect().await.unwrap_or_else(|error| panic!("{row:?}: {error}"));
    assert!(store.is_connected(), "{row:?}");
    let keys = work::everything_under_every_algorithm(&store, row).await;
    running.is_connected_as(row);
    assert_eq!(running.keys_that_expire(), keys, "{row:?}");
    drop(store);
    running.wait_until_nobody_is_connected(row);
}

#[tokio::test]
async fn an_authority_is_trusted_only_if_it_was_named() {
    if !table::Server::Redis.is_here() {
        return;
    }
    let server = ServerSetup::new().tls().server().unwrap();
    let trusting = |pem: &str| {
        RedisStore::builder(server.url())
            .connect_wait(Duration::from_millis(500))
            .root_certificate(pem.as_bytes())
    };
    let somebody = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let wary = trusting(&somebody.cert.pem()).connect().await.unwrap();
    assert!(!wary.is_connected());
    let root = server.root_certificate().unwrap();
    assert!(trusting(root).deadline(PATIENCE).connect_wait(PATIENCE).connect().await.unwrap().is_connected());
    let error = trusting("none").connect().await.unwrap_err();
    assert!(matches!(error, SetupError::Connect(ConnectError::RootCertificate(_))), "{error}");
}

#[tokio::test]
async fn sentinels_get_credentials_of_their_own() {
    let group = RedisSentinels::start(1, 0).unwrap();
    let user = ["ACL", "SETUSER", "watcher", "on", ">portculli5", "+@all"];
    assert_eq!(group.sentinels()[0].cli(&user).unwrap(), "OK");
    assert_eq!(group.sentinels()[0].cli(&["ACL", "SETUSER", "default", "off"]).unwrap(), "OK");
    let store = |password: &str, wait| {
        let url = format!("{}&sentinelUsername=watcher&sentinelPassword={password}", group.url());
        RedisStore::builder(url).deadline(PATIENCE).connect_wait(wait).connect()
    };
    assert!(store("portculli5", PATIENCE).await.unwrap().is_connected());
    let refused = store("another", Duration::from_millis(500)).await;
    assert!(!refused.is_ok_and(|store| store.is_connected()));
}

#[test]
fn the_table_has_every_pair() {
    assert_eq!(table::missing_pairs(table::ROWS), Vec::<String>::new());
    // And it would be noticed.
    let (_, rest) = table::ROWS.split_last().unwrap();
    assert!(table::missing_pairs(rest).contains(&"Sentinels and Valkey".to_owned()));
    assert!(table::ROWS.iter().all(|row| row.server.has_tls() || row.transport == Transport::Plain));
}

/// What is late here is not wrong.
const PATIENCE: Duration = Duration::from_secs(5);
