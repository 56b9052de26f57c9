//! A primary behind a sentinel.

use std::time::{Duration, Instant};

use portcullis_servers::RedisSentinels;

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::transport::{ConnectError, Options, Transport as _};

use super::scripts::{COUNT, count, loads_of_two_hundred};
use super::waiting::{patient, until};

#[tokio::test]
async fn the_primary_is_found_and_its_error_is_reported() {
    let group = RedisSentinels::start(1, 0).unwrap();
    let connection = Connection::open(&group.url(), patient()).await.unwrap();
    assert_eq!(count(&connection, &Script::new(COUNT), "k").await, Ok(1));
    assert_eq!(group.servers()[0].cli(&["GET", "portcullis:k"]).unwrap(), "1");

    let wrong = group.admin_url().replacen("://", "://portcullis:pw@", 1);
    let error = Connection::open(&wrong, patient()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Credentials { .. }), "{error}");
    assert!(!error.to_string().contains("pw"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_primary_loads_the_script_once() {
    let mut group = RedisSentinels::start(3, 1).unwrap();
    let connection = Connection::open(&group.url(), patient()).await.unwrap();
    let script = Script::new(COUNT);
    count(&connection, &script, "k").await.unwrap();
    let killed = group.kill_primary().unwrap();
    until(|| !connection.availability(None).is_connected).await;
    group.wait_until_ok().unwrap();
    until(|| connection.availability(None).is_connected).await;
    let new = &group.servers()[group.primary().unwrap()];
    assert_ne!(new.port(), group.servers()[killed].port());
    let loads = || new.calls("script|load").unwrap();
    assert_eq!(loads_of_two_hundred(&connection, &script, "k", loads).await, 1);
    // It had not been loaded there before either.
    assert_eq!(loads(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_or_wrong_sentinel_is_skipped() {
    let group = RedisSentinels::start(3, 1).unwrap();
    let script = Script::new(COUNT);
    let url = group.url();
    let open = || Connection::open(&url, Options::default());

    let mut passed = Vec::new();
    // Whichever is queried first.
    for sentinel in group.sentinels() {
        // The kernel still accepts connections for it.
        sentinel.signal("STOP").unwrap();
        passed.push(found(&open().await.unwrap(), &script).await);
        sentinel.signal("CONT").unwrap();
    }
    let replica = group.servers()[1].port().to_string();
    for sentinel in group.sentinels() {
        sentinel.cli(&["SENTINEL", "REMOVE", "main"]).unwrap();
        passed.push(found(&open().await.unwrap(), &script).await);
        sentinel.cli(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &replica, "9"]).unwrap();
        passed.push(found(&open().await.unwrap(), &script).await);
        sentinel.cli(&["SENTINEL", "REMOVE", "main"]).unwrap();
        let primary = group.servers()[0].port().to_string();
        sentinel.cli(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &primary, "2"]).unwrap();
    }
    assert_eq!(passed, [true; 9]);
}

async fn found(connection: &Connection, script: &Script) -> bool {
    let started = Instant::now();
    while let Err(error) = count(connection, script, "k").await {
        // A connection that keeps to one sentinel never succeeds.
        if started.elapsed() > Duration::from_secs(30) {
            println!("{error}");
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("found in {:?}", started.elapsed());
    true
}
