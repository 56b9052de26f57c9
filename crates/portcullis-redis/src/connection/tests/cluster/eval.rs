//! Nodes that refuse `SCRIPT LOAD`.

use portcullis_servers::{RedisCluster, ServerSetup};

use crate::connection::Connection;
use crate::connection::tests::eval::refusal_lines;
use crate::connection::tests::server::Log;
use crate::protocol::script::Script;

use super::{COUNT, calls, count, keys, open};

#[tokio::test]
async fn each_node_that_lacks_a_script_gets_its_source_once() {
    let log = Log::capture();
    let cluster = ServerSetup::new().without_script_load().cluster(3, 0).unwrap();
    let connection = open(&cluster).await;
    // The check at the start.
    assert_eq!(calls(&cluster, "eval"), [1, 1, 1]);
    let (script, keys) = (Script::new(COUNT), keys(&cluster));
    for (n, expected) in [(1, [2, 2, 2]), (2, [2, 2, 2]), (3, [2, 3, 2])] {
        if n == 3 {
            cluster.nodes()[1].cli(&["SCRIPT", "FLUSH"]).unwrap();
        }
        for key in &keys {
            assert_eq!(count(&connection, &script, key).await, Ok(n));
        }
        assert_eq!(calls(&cluster, "eval"), expected);
    }
    assert_eq!(refusal_lines(&log).len(), 1, "{:#?}", log.lines());
}

/// A cluster in which only the first node refuses.
pub(crate) fn partly_refusing() -> RedisCluster {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let change = ["ACL", "SETUSER", "portcullis", "-script|load", "+eval"];
    assert_eq!(cluster.nodes()[0].cli(&change).unwrap(), "OK");
    cluster
}

pub(crate) async fn only_the_first_gets_sources(cluster: &RedisCluster, connection: &Connection) {
    let script = Script::new(COUNT);
    for n in 1..=2 {
        for key in &keys(cluster) {
            assert_eq!(count(connection, &script, key).await, Ok(n));
        }
    }
    assert_eq!(calls(cluster, "eval"), [2, 0, 0]);
    let loads = calls(cluster, "script|load");
    assert!(loads[0] == 0 && loads[1] >= 2 && loads[2] >= 2, "{loads:?}");
}

#[tokio::test]
async fn only_nodes_that_refuse_get_sources() {
    let cluster = partly_refusing();
    let connection = open(&cluster).await;
    only_the_first_gets_sources(&cluster, &connection).await;
}
