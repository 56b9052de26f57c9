//! A cluster of three primaries.

pub(crate) mod eval;
mod failover;
mod moving;

use std::time::Duration;

use portcullis_servers::{RedisCluster, ServerSetup};

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::protocol::slot;

use super::scripts::{COUNT, count, loads_of_two_hundred};
use super::waiting::{patient, recovery, until};

async fn open(cluster: &RedisCluster) -> Connection {
    Connection::open(&cluster.url(), patient().deadline(DEADLINE)).await.unwrap()
}

const DEADLINE: Duration = Duration::from_secs(2);

/// The slot of a key in the namespace of the cluster's user.
fn slot_of(key: &str) -> u16 {
    slot::slot_of(format!("portcullis:{key}").as_bytes())
}

/// The value of a key of that namespace on a node.
fn held(cluster: &RedisCluster, node: usize, key: &str) -> String {
    cluster.nodes()[node].cli(&["GET", &format!("portcullis:{key}")]).unwrap()
}

/// For each of the three primaries a key in one of its slots.
fn keys(cluster: &RedisCluster) -> [String; 3] {
    let is_of = |node: usize, key: &str| cluster.primary_of(slot_of(key)).unwrap() == node;
    [0, 1, 2].map(|node| (0..1_000).map(|n| format!("k{n}")).find(|key| is_of(node, key)).unwrap())
}

fn calls(cluster: &RedisCluster, command: &str) -> Vec<u64> {
    cluster.nodes().iter().map(|node| node.calls(command).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_is_loaded_once_on_each_node_that_lost_it() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let connection = open(&cluster).await;
    let script = Script::new(COUNT);
    for losers in [3, 3, 1] {
        for node in &cluster.nodes()[..losers] {
            node.cli(&["SCRIPT", "FLUSH"]).unwrap();
        }
        let before = calls(&cluster, "script|load");
        let counts: Vec<_> = (0..200)
            .map(|n| {
                let (connection, script) = (connection.clone(), script.clone());
                tokio::spawn(async move { count(&connection, &script, &format!("k{n}")).await })
            })
            .collect();
        for count in counts {
            count.await.unwrap().unwrap();
        }
        let loads =
            calls(&cluster, "script|load").into_iter().zip(before).map(|(after, before)| after - before);
        let expected = [1, u64::from(losers == 3), u64::from(losers == 3)];
        assert_eq!(loads.collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn the_least_permissions_suffice_in_a_cluster() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let connection = open(&cluster).await;
    for key in ["1", "2", "3", "4"] {
        assert_eq!(count(&connection, &Script::new(COUNT), key).await, Ok(1));
    }
    let nobody = cluster.url().replacen("://", "://nobody-", 1);
    let error = Connection::open(&nobody, patient()).await.unwrap_err();
    assert!(error.to_string().contains("WRONGPASS"), "{error}");
}

#[tokio::test]
async fn a_node_without_preferred_hostname_is_found_by_its_address() {
    let setup = ServerSetup::new().arguments(&["--cluster-preferred-endpoint-type", "hostname"]);
    let cluster = setup.cluster(3, 0).unwrap();
    assert!(cluster.nodes()[1].cli(&["CLUSTER", "SLOTS"]).unwrap().lines().any(|line| line == "?"));
    for protocol in [2, 3] {
        let url = format!("{}&protocol={protocol}", cluster.url());
        let connection = Connection::open(&url, patient()).await.unwrap();
        for key in keys(&cluster) {
            assert_eq!(count(&connection, &Script::new(COUNT), &key).await, Ok(protocol - 1));
        }
    }
}
