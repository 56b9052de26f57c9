//! A store whose server does not reply.

use std::time::{Duration, Instant};

use portcullis_core::StoreErrorKind;
use portcullis_core::store::{Checks, Store as _};
use portcullis_servers::ServerSetup;

use super::{BURST, MONTHLY, RedisStore, Server, check, key, open, open_url, patient};
use crate::connection::tests::waiting::until;

/// The allocations of a check that is rejected at once, without those of its arguments.
fn allocations(store: &RedisStore, user: &str) -> u64 {
    let checks = Checks::one(BURST, key(&[user]), 1);
    let mut answer = None;
    let counted = allocation_counter::measure(|| answer = store.check(checks).into_ready().ok());
    let error = answer.expect("it is there at once").unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unavailable);
    assert!(error.outage().is_some(), "{error}");
    assert!(error.to_string().contains("redis"), "{error}");
    counted.count_total
}

#[tokio::test]
async fn a_check_without_a_connection_allocates_nothing() {
    let mut server = Server::start(&[]);
    let store = open(&server).await;
    assert!(check(&store, &BURST, 1).await.is_allowed());
    server.kill();
    until(|| !store.is_connected()).await;
    assert_eq!(allocations(&store, "ada"), 0);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let error = store.check(Checks::one(MONTHLY, key(&["ada"]), 1)).await.unwrap_err();
    assert!(error.outage() >= Some(Duration::from_millis(200)), "{error:?}");
}

#[tokio::test]
async fn a_check_with_an_open_breaker_allocates_nothing() {
    // Long, because a call that is sent with less than half of it left opens no breaker.
    let deadline = Duration::from_secs(2);
    let server = Server::start(&[]);
    let store = patient(server.url()).deadline(deadline).connect().await.unwrap();
    server.signal("STOP");
    let error = store.check(Checks::one(BURST, key(&["ada"]), 1)).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::TimedOut);
    assert!(error.outage() >= Some(deadline), "{error:?}");
    // While a probe is in flight, the breaker rejects other calls.
    let probe = || {
        let (store, checks) = (store.clone(), Checks::one(BURST, key(&["ada"]), 1));
        tokio::spawn(async move { store.check(checks).await })
    };
    let started = Instant::now();
    loop {
        let probe = probe();
        tokio::task::yield_now().await;
        if !probe.is_finished() {
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "no probe was due");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(allocations(&store, "ada"), 0);
    server.signal("CONT");
    while store.check(Checks::one(BURST, key(&["ada"]), 1)).await.is_err() {
        assert!(started.elapsed() < Duration::from_secs(40), "no recovery");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_slots_of_a_dead_node_are_rejected_without_allocation() {
    let setup = ServerSetup::new().arguments(&["--cluster-require-full-coverage", "no"]);
    let mut cluster = setup.cluster(3, 0).unwrap();
    let store = open_url(cluster.url()).await;
    let users: Vec<_> = (0..30).map(|user| user.to_string()).collect();
    for user in &users {
        let _ = store.check(Checks::one(MONTHLY, key(&[user]), 1)).await.unwrap();
    }
    cluster.kill(0).unwrap();
    let refused = |user: &&String| {
        let answer = store.check(Checks::one(MONTHLY, key(&[user]), 1)).into_ready();
        answer.is_ok_and(|answer| answer.is_err())
    };
    until(|| users.iter().any(|user| refused(&user))).await;
    let refused: Vec<_> = users.iter().filter(refused).collect();
    assert!((1..25).contains(&refused.len()), "{}", refused.len());
    for user in refused {
        assert_eq!(allocations(&store, user), 0);
    }
}

#[tokio::test]
async fn a_full_server_is_a_failure_that_names_the_setting() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    assert!(check(&store, &BURST, 1).await.is_allowed());
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = store.check(Checks::one(BURST, key(&["ada"]), 1)).await.unwrap_err();
    assert_eq!((error.kind(), error.outage()), (StoreErrorKind::Failed, None));
    assert!(error.to_string().contains("raise its `maxmemory`"), "{error}");
}
