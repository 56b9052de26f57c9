//! Nodes that fail.

use std::time::{Duration, Instant};

use portcullis_servers::{Failover, RedisCluster, ServerSetup};

use crate::connection::Connection;
use crate::connection::tests::server::Log;
use crate::protocol::script::Script;
use crate::transport::{CallError, Options, Transport as _};

use super::{
    COUNT, DEADLINE, count, held, keys, loads_of_two_hundred, open, patient, recovery, slot_of, until,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_affects_only_its_own_slots() {
    let setup = ServerSetup::new().arguments(&["--cluster-require-full-coverage", "no"]);
    let mut cluster = setup.cluster(3, 0).unwrap();
    let connection = open(&cluster).await;
    let (script, keys) = (Script::new(COUNT), keys(&cluster));
    for key in &keys {
        count(&connection, &script, key).await.unwrap();
    }
    // Not the first node of the URL only.
    for dead in [0, 2] {
        cluster.kill(dead).unwrap();
        until(|| connection.availability(Some(slot_of(&keys[dead]))).rejection.is_some()).await;
        for _ in 0..100 {
            for (node, key) in keys.iter().enumerate() {
                let started = Instant::now();
                let (rejected, counted) = (
                    connection.availability(Some(slot_of(key))).rejection,
                    count(&connection, &script, key).await,
                );
                if node == dead {
                    assert!(matches!(counted, Err(CallError::Unavailable(_))), "{counted:?}");
                    // It did not wait for the deadline of its connection.
                    assert!(started.elapsed() < DEADLINE, "{:?}", started.elapsed());
                    assert!(
                        rejected.is_some() && connection.availability(Some(slot_of(key))).outage.is_some()
                    );
                } else {
                    assert!(counted.is_ok(), "{counted:?}");
                    assert!(connection.availability(Some(slot_of(key))).outage.is_none());
                }
            }
        }
        assert!(connection.availability(None).is_connected);
        cluster.restart(dead).unwrap();
        println!("recovered in {:?}", recovery(&connection, &script, &keys[dead]).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_is_found_without_a_restart() {
    let setup = ServerSetup::new().node_timeout(Duration::from_mins(1));
    let mut cluster = setup.cluster(3, 1).unwrap();
    let replica = cluster.replica_of(0).unwrap();
    // The URL contains the replica only, which is disconnected once the map is read.
    let url = cluster.nodes()[replica].url().replace("redis://", "redis-cluster://");
    let connection = Connection::open(&url, patient().deadline(DEADLINE)).await.unwrap();
    let (script, keys) = (Script::new(COUNT), keys(&cluster));
    for key in &keys {
        assert_eq!(count(&connection, &script, key).await, Ok(1));
    }
    let ask = |node: usize, words: &[&str]| cluster.nodes()[node].cli(words).unwrap();
    until(|| !ask(replica, &["CLIENT", "LIST", "TYPE", "NORMAL"]).contains("cmd=cluster|slots")).await;
    until(|| ask(replica, &["DBSIZE"]) == ask(0, &["DBSIZE"])).await;
    assert!(held(&cluster, replica, &keys[0]).contains("MOVED"));

    cluster.kill(0).unwrap();
    until(|| connection.availability(Some(slot_of(&keys[0]))).rejection.is_some()).await;
    cluster.failover(replica, Failover::Takeover).unwrap();
    cluster.wait_until_ok().unwrap();
    let known = Instant::now();
    until(|| connection.availability(Some(slot_of(&keys[0]))).rejection.is_none()).await;
    let took = known.elapsed();
    println!("the promoted replica was found {took:?} after the cluster knew");
    // Without a look at the map it would take until the next restart.
    assert!(took < Duration::from_secs(20), "{took:?}");
    let loads = || cluster.nodes()[replica].calls("script|load").unwrap();
    assert_eq!(loads_of_two_hundred(&connection, &script, &keys[0], loads).await, 1);
    assert_eq!(loads(), 1, "none before it had a slot");
    for key in &keys[1..] {
        count(&connection, &script, key).await.unwrap();
    }
    // The state that was replicated before is continued.
    assert_eq!(held(&cluster, replica, &keys[0]), "201");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_is_found_with_few_calls() {
    let cluster = RedisCluster::start(3, 1).unwrap();
    let options = Options::default().connect_wait(Duration::from_secs(10));
    let connection = Connection::open(&cluster.url(), options).await.unwrap();
    let (script, keys) = (Script::new(COUNT), keys(&cluster));
    for key in &keys {
        recovery(&connection, &script, key).await;
    }
    let frozen = Instant::now();
    let replica = cluster.nodes()[cluster.replica_of(0).unwrap()].port().to_string();
    cluster.nodes()[0].signal("STOP").unwrap();
    let is_promoted =
        || cluster.nodes()[1].cli(&["CLUSTER", "SLOTS"]).unwrap().lines().nth(3) == Some(&replica);
    let mut promoted = None;
    // Without calls, the breaker's probe is due long before the next call.
    let took = loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        promoted = promoted.or_else(|| is_promoted().then(Instant::now));
        match count(&connection, &script, &keys[0]).await {
            Ok(_) => break promoted.map(|at| at.elapsed()).unwrap_or_default(),
            Err(error) => println!("{:?} {promoted:?}: {error}", frozen.elapsed()),
        }
        assert!(frozen.elapsed() < Duration::from_secs(20), "the replica is not found");
    };
    println!("found after {took:?}");
    // With a call every half second only, and a breaker whose probes back off, it could take for as long as the loop waits.
    assert!(took < Duration::from_secs(10), "{took:?}");
    cluster.nodes()[0].signal("CONT").unwrap();
}

#[tokio::test]
async fn a_cluster_that_is_down_charges_nothing_and_is_logged_once() {
    let log = Log::capture();
    let mut cluster = RedisCluster::start(3, 0).unwrap();
    let connection = open(&cluster).await;
    let (script, keys) = (Script::new(COUNT), keys(&cluster));
    for key in &keys {
        count(&connection, &script, key).await.unwrap();
    }
    cluster.kill(2).unwrap();
    let says_fail =
        |node: usize| cluster.nodes()[node].cli(&["CLUSTER", "INFO"]).unwrap().contains("cluster_state:fail");
    until(|| says_fail(0) && says_fail(1)).await;
    let (mut refused, mut replies) = (None, 0);
    while refused.is_none_or(|refused: Instant| refused.elapsed() < Duration::from_secs(2)) {
        for key in &keys {
            let error = count(&connection, &script, key).await.unwrap_err();
            assert!(matches!(error, CallError::Unavailable(_)), "{error}");
            replies += usize::from(error.to_string().contains("CLUSTERDOWN"));
        }
        refused = refused.or_else(|| Some(Instant::now()));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(replies > 0);
    let slot = Some(slot_of(&keys[0]));
    assert!(connection.availability(slot).outage > Some(Duration::from_millis(500)));
    // One line per node, and not one per attempt.
    println!("{:#?}", log.lines());
    assert!((1..=8).contains(&log.lines().len()), "{:#?}", log.lines());
    cluster.restart(2).unwrap();
    cluster.wait_until_ok().unwrap();
    for (node, key) in keys.iter().enumerate() {
        recovery(&connection, &script, key).await;
        let charged: u64 = held(&cluster, node, key).parse().unwrap();
        assert!(charged <= 2, "{charged}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_appears_later_is_found() {
    let mut cluster = RedisCluster::start(3, 0).unwrap();
    for node in 0..3 {
        cluster.kill(node).unwrap();
    }
    let options =
        Options::default().deadline(Duration::from_secs(1)).connect_wait(Duration::from_millis(200));
    let connection = Connection::open(&cluster.url(), options).await.unwrap();
    assert!(
        !connection.availability(None).is_connected && connection.availability(Some(0)).rejection.is_some()
    );
    let script = Script::new(COUNT);
    let error = count(&connection, &script, "k").await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable(_)), "{error}");
    for node in [1, 2, 0] {
        cluster.restart(node).unwrap();
    }
    for key in ["k1", "k2", "k3", "k4"] {
        recovery(&connection, &script, key).await;
    }
}
