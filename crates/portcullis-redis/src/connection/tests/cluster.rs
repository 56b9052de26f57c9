//! A cluster of three primaries.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portcullis_testing::{CLUSTER_RIGHTS, LEAST_RIGHTS};

use crate::connection::{Connection, Options, Script};

use super::scripts::{COUNT, count};
use super::server::Server;

pub(crate) fn cluster() -> Vec<Server> {
    let args = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
    let nodes: Vec<_> = (0..3).map(|_| Server::start(&args)).collect();
    let addresses = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
    let status = Command::new("redis-cli")
        .args(["--cluster", "create"])
        .args(addresses)
        .arg("--cluster-yes")
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let end = Instant::now() + Duration::from_secs(15);
    while !nodes.iter().all(|node| node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok")) {
        assert!(Instant::now() < end, "the cluster does not form");
        std::thread::sleep(Duration::from_millis(100));
    }
    nodes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_loaded_once_on_every_primary_and_moved_slots_are_followed() {
    let mut nodes = cluster();
    let url = format!("redis-cluster://127.0.0.1:{}", nodes[0].port);
    let options = Options::default().deadline(Duration::from_secs(1));
    let connection = Connection::open(&url, options).await.unwrap();
    let script = Script::new(COUNT);
    for _ in 0..3 {
        for node in &nodes {
            node.cli(&["SCRIPT", "FLUSH"]);
        }
        let before: Vec<_> = nodes.iter().map(|node| node.calls("script|load")).collect();
        let calls: Vec<_> = (0..200)
            .map(|n| {
                let (connection, script) = (connection.clone(), script.clone());
                tokio::spawn(async move { count(&connection, &script, &format!("k{n}")).await })
            })
            .collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        for (node, before) in nodes.iter().zip(before) {
            assert_eq!(node.calls("script|load") - before, 1);
        }
    }

    // Give slot 0 of the first node to the second while it holds no keys. {06S} hashes to it.
    let slot = nodes[0].cli(&["CLUSTER", "KEYSLOT", "{06S}"]);
    assert_eq!(slot.trim(), "0");
    assert_eq!(count(&connection, &script, "{06S}x").await, Ok(1));
    nodes[0].cli(&["DEL", "portcullis:{06S}x"]);
    let id = nodes[1].cli(&["CLUSTER", "MYID"]);
    for node in nodes.iter().rev() {
        let reply = node.cli(&["CLUSTER", "SETSLOT", "0", "NODE", id.trim()]);
        assert_eq!(reply.trim(), "OK");
    }
    let started = Instant::now();
    assert_eq!(count(&connection, &script, "{06S}x").await, Ok(1));
    println!("followed a moved slot in {:?}", started.elapsed());

    // Legacy migration: ASK must neither run twice nor end the connection.
    let (from, to) = (nodes[1].cli(&["CLUSTER", "MYID"]), nodes[2].cli(&["CLUSTER", "MYID"]));
    nodes[2].cli(&["CLUSTER", "SETSLOT", "0", "IMPORTING", from.trim()]);
    nodes[1].cli(&["CLUSTER", "SETSLOT", "0", "MIGRATING", to.trim()]);
    let asked = count(&connection, &script, "{06S}new").await;
    println!("a key in a migrating slot: {asked:?}");
    assert_eq!(count(&connection, &script, "{06S}x").await, Ok(2));
    for node in nodes.iter().rev() {
        node.cli(&["CLUSTER", "SETSLOT", "0", "STABLE"]);
    }
    assert_eq!(count(&connection, &script, "{06S}new").await, Ok(1));

    // A node dies and comes back.
    nodes[2].kill();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let started = Instant::now();
    let error = count(&connection, &script, "{06S}x").await;
    println!("another slot while a node is away: {error:?} in {:?}", started.elapsed());
    nodes[2].run();
    let started = Instant::now();
    for key in ["k1", "k2", "k3", "k4", "k5", "k6"] {
        while let Err(error) = count(&connection, &script, key).await {
            assert!(started.elapsed() < Duration::from_secs(20), "no recovery: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    println!("whole again in {:?}", started.elapsed());
}

#[tokio::test]
async fn the_least_user_suffices_in_a_cluster() {
    let nodes = cluster();
    let rules =
        [&["on", ">pw", "~portcullis:*", "resetchannels", "-@all"], &LEAST_RIGHTS[..], &CLUSTER_RIGHTS]
            .concat();
    for node in &nodes {
        node.cli(&[&["ACL", "SETUSER", "least"], &rules[..]].concat());
    }
    let url = |user: &str| format!("redis-cluster://{user}:pw@127.0.0.1:{}", nodes[0].port);
    let connection = Connection::open(&url("least"), Options::default()).await.unwrap();
    for key in ["1", "2", "3", "4"] {
        assert_eq!(count(&connection, &Script::new(COUNT), key).await, Ok(1));
    }
    println!("{}", Connection::open(&url("nobody"), Options::default()).await.unwrap_err());
}
