//! Nodes that die.

use std::time::{Duration, Instant};

use fred::util::redis_keyslot;

use crate::connection::tests::server::Log;
use crate::connection::{CallError, Connection, Options, Script};

use super::{
    COUNT, Server, await_state, await_that, cluster, cluster_with, count, held, id, keys_of, meet, node_with,
    open, url,
};

fn slot_of(key: &str) -> u16 {
    redis_keyslot(format!("portcullis:{key}").as_bytes())
}

async fn recovered(connection: &Connection, key: &str) -> Duration {
    let (script, started) = (Script::new(COUNT), Instant::now());
    while let Err(error) = count(connection, &script, key).await {
        assert!(started.elapsed() < Duration::from_secs(20), "no recovery: {error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    started.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_primary_takes_only_its_own_slots_along() {
    let mut nodes = cluster_with(&["--cluster-require-full-coverage", "no"]);
    let connection = open(&nodes).await;
    let (script, keys) = (Script::new(COUNT), keys_of(&nodes));
    for key in &keys {
        count(&connection, &script, key).await.unwrap();
    }
    // Not the node of the URL only.
    for dead in [0, 2] {
        nodes[dead].kill();
        await_that(|| connection.is_shut(Some(slot_of(&keys[dead]))).is_some());
        for _ in 0..100 {
            for (node, key) in keys.iter().enumerate() {
                let started = Instant::now();
                let (shut, counted) =
                    (connection.is_shut(Some(slot_of(key))), count(&connection, &script, key).await);
                if node == dead {
                    assert!(matches!(counted, Err(CallError::Unavailable(_))), "{counted:?}");
                    assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
                    assert!(shut.is_some() && connection.outage(Some(slot_of(key))).is_some());
                } else {
                    assert!(counted.is_ok(), "{counted:?}");
                    assert!(connection.outage(Some(slot_of(key))).is_none());
                }
            }
        }
        assert!(connection.is_up());
        nodes[dead].run();
        println!("recovered in {:?}", recovered(&connection, &keys[dead]).await);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_is_found_without_a_restart() {
    let mut nodes = cluster();
    let replica = node_with(&[]);
    meet(&nodes, &replica);
    let primary = id(&nodes[0]);
    await_that(|| replica.cli(&["CLUSTER", "REPLICATE", &primary]).trim() == "OK");
    await_that(|| replica.cli(&["INFO", "replication"]).contains("master_link_status:up"));
    // Known by the replica only, which is left once the map is there.
    let connection = open(std::slice::from_ref(&replica)).await;
    let (script, keys) = (Script::new(COUNT), keys_of(&nodes));
    for key in &keys {
        assert_eq!(count(&connection, &script, key).await, Ok(1));
    }
    await_that(|| !replica.cli(&["CLIENT", "LIST", "TYPE", "NORMAL"]).contains("cmd=cluster|slots"));
    await_that(|| held(&replica, &keys[0]).contains("MOVED"));
    await_that(|| replica.cli(&["DBSIZE"]) == nodes[0].cli(&["DBSIZE"]));

    nodes[0].kill();
    await_that(|| connection.is_shut(Some(slot_of(&keys[0]))).is_some());
    await_that(|| replica.cli(&["CLUSTER", "FAILOVER", "TAKEOVER"]).trim() == "OK");
    let port = replica.port.to_string();
    await_that(|| nodes[1..].iter().all(|node| node.cli(&["CLUSTER", "SLOTS"]).contains(&port)));
    let took = recovered(&connection, &keys[0]).await;
    println!("the promoted replica was found {took:?} after the cluster knew");
    assert!(took < Duration::from_secs(4), "{took:?}");
    for key in &keys[1..] {
        count(&connection, &script, key).await.unwrap();
    }
    // The state that was replicated before went on.
    assert_eq!(held(&replica, &keys[0]).trim(), "2");
}

#[tokio::test]
async fn a_cluster_that_is_down_did_nothing_and_is_told_once() {
    let log = Log::capture();
    let mut nodes = cluster();
    let connection = open(&nodes).await;
    let (script, keys) = (Script::new(COUNT), keys_of(&nodes));
    for key in &keys {
        count(&connection, &script, key).await.unwrap();
    }
    nodes[2].kill();
    await_state(&nodes[..2], "fail");
    let (started, mut told) = (Instant::now(), 0);
    while started.elapsed() < Duration::from_secs(2) {
        for key in &keys {
            let error = count(&connection, &script, key).await.unwrap_err();
            assert!(matches!(error, CallError::Unavailable(_)), "{error}");
            told += usize::from(error.to_string().contains("CLUSTERDOWN"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(told > 0);
    let slot = Some(slot_of(&keys[0]));
    assert!(connection.outage(slot) > Some(Duration::from_millis(500)));
    // Of each node that it is gone, and not of every attempt.
    println!("{:#?}", log.lines());
    assert!((1..=8).contains(&log.lines().len()), "{:#?}", log.lines());
    nodes[2].run();
    await_state(&nodes, "ok");
    for (node, key) in nodes.iter().zip(&keys) {
        recovered(&connection, key).await;
        let charged: u32 = held(node, key).trim().parse().unwrap();
        assert!(charged <= 2, "{charged}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_appears_later_is_found() {
    let mut nodes = cluster();
    for node in &mut nodes {
        node.kill();
    }
    let url = format!("{}?node=127.0.0.1:{}", url(&nodes), nodes[1].port);
    let options =
        Options::default().deadline(Duration::from_secs(1)).connect_wait(Duration::from_millis(200));
    let connection = Connection::open(&url, options).await.unwrap();
    assert!(!connection.is_up() && connection.is_shut(Some(0)).is_some());
    let error = count(&connection, &Script::new(COUNT), "k").await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable(_)), "{error}");
    nodes.iter_mut().skip(1).for_each(Server::run);
    nodes[0].run();
    for key in ["k1", "k2", "k3", "k4"] {
        recovered(&connection, key).await;
    }
}
