//! A cluster of three primaries.

mod failover;
mod moving;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portcullis_testing::{CLUSTER_RIGHTS, LEAST_RIGHTS};

use crate::connection::{Connection, Options, Script};

use super::scripts::{COUNT, count};
use super::server::Server;

pub(crate) fn cluster() -> Vec<Server> {
    cluster_with(&[])
}

fn cluster_with(more: &[&str]) -> Vec<Server> {
    let nodes: Vec<_> = (0..3).map(|_| node_with(more)).collect();
    let addresses = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port));
    let status = Command::new("redis-cli")
        .args(["--cluster", "create"])
        .args(addresses)
        .arg("--cluster-yes")
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    await_state(&nodes, "ok");
    nodes
}

/// A node that is yet to meet the others.
fn node_with(more: &[&str]) -> Server {
    Server::node(&[&["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"], more].concat())
}

/// Brings a new node to a cluster, and waits until all know it.
fn meet(nodes: &[Server], new: &Server) -> String {
    new.cli(&["CLUSTER", "MEET", "127.0.0.1", &nodes[0].port.to_string()]);
    let id = id(new);
    await_that(|| nodes.iter().all(|node| node.cli(&["CLUSTER", "NODES"]).contains(&id)));
    await_that(|| new.cli(&["CLUSTER", "NODES"]).lines().count() > nodes.len());
    id
}

fn id(node: &Server) -> String {
    node.cli(&["CLUSTER", "MYID"]).trim().to_owned()
}

fn await_state(nodes: &[Server], state: &str) {
    let state = format!("cluster_state:{state}");
    await_that(|| nodes.iter().all(|node| node.cli(&["CLUSTER", "INFO"]).contains(&state)));
}

fn await_that(is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "the cluster does not come to it");
        std::thread::sleep(Duration::from_millis(50));
    }
}

async fn open(nodes: &[Server]) -> Connection {
    let options = Options::default().deadline(Duration::from_secs(1)).connect_wait(Duration::from_secs(10));
    Connection::open(&url(nodes), options).await.unwrap()
}

fn url(nodes: &[Server]) -> String {
    nodes[0].url().replace("redis://", "redis-cluster://")
}

/// What a node has under a key of the namespace that its user may use.
fn held(node: &Server, key: &str) -> String {
    node.cli(&["GET", &format!("portcullis:{key}")])
}

/// For each node a key in one of its slots, in the order of the nodes.
fn keys_of(nodes: &[Server]) -> Vec<String> {
    let owns = |node: &Server, key: &str| !held(node, key).contains("MOVED");
    let key_of = |node: &Server| (0..1_000).map(|n| format!("k{n}")).find(|key| owns(node, key));
    nodes.iter().map(|node| key_of(node).unwrap()).collect()
}

/// Gives slot 0 of the first node to another. `{06S}` hashes to it.
fn give_slot_0(nodes: &[Server], to: &str) {
    for node in nodes.iter().rev() {
        assert_eq!(node.cli(&["CLUSTER", "SETSLOT", "0", "NODE", to]).trim(), "OK");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_is_loaded_once_on_each_node_that_lost_it() {
    let nodes = cluster();
    let connection = open(&nodes).await;
    let script = Script::new(COUNT);
    for losers in [3, 3, 1] {
        for node in &nodes[..losers] {
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
        let loads = nodes.iter().zip(before).map(|(node, before)| node.calls("script|load") - before);
        let expected = [1, u64::from(losers == 3), u64::from(losers == 3)];
        assert_eq!(loads.collect::<Vec<_>>(), expected);
    }
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
