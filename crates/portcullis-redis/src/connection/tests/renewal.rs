//! Connections whose runtime ends before they do.

use portcullis_servers::RedisCluster;
use tokio::runtime::{Builder, Runtime};

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::transport::Transport as _;

use super::scripts::{COUNT, count};
use super::server::{Log, Server};
use super::waiting::{patient, until};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn call_after_the_runtime_connects_anew() {
    let (log, server, script) = (Log::capture(), Server::start(&[]), Script::new(COUNT));
    let own = runtime();
    let connection = own.block_on(Connection::open(&server.url(), patient())).unwrap();
    own.block_on(count(&connection, &script, "k")).unwrap();
    drop(own);
    // Nothing can connect outside of a runtime.
    assert!(!connection.availability(None).is_connected && connection.availability(None).outage.is_some());
    assert_eq!(log.lines(), Vec::<String>::new());
    for expected in [2..=3, 4..=5] {
        let other = runtime();
        for n in expected {
            assert_eq!(other.block_on(count(&connection, &script, "k")), Ok(n));
        }
        assert!(other.block_on(async { connection.availability(None).is_connected }));
        assert_eq!(server.clients(), 1, "the calls of a runtime share a connection");
        assert_eq!(connection.gauges().connected, 1);
    }
    let lines = log.lines();
    assert!(
        lines[0].contains("the runtime in which it was connected has ended")
            && lines[0].contains("connected anew")
            && lines[1].contains("redis answers again"),
        "{lines:#?}"
    );
    // Those of the second end are left out if it comes within a second.
    assert!(lines.len() == 2 || lines.len() == 4, "{lines:#?}");
    let last = runtime();
    last.block_on(async {
        count(&connection, &script, "k").await.unwrap();
        drop(connection);
        until(|| server.clients() == 0).await;
    });
}

#[test]
fn running_runtime_keeps_its_connection() {
    let (server, script) = (Server::start(&[]), Script::new(COUNT));
    let (own, other) =
        (Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap(), runtime());
    let connection = own.block_on(Connection::open(&server.url(), patient())).unwrap();
    for n in 1..=3 {
        assert_eq!(other.block_on(count(&connection, &script, "k")), Ok(n));
    }
    assert_eq!(server.clients(), 1);
}

#[test]
fn dead_server_is_an_outage_in_the_new_runtime() {
    let (mut server, script) = (Server::start(&[]), Script::new(COUNT));
    let own = runtime();
    let connection = own.block_on(Connection::open(&server.url(), patient())).unwrap();
    drop(own);
    server.kill();
    let other = runtime();
    other.block_on(async {
        assert!(count(&connection, &script, "k").await.is_err());
        server.run();
        until(|| connection.availability(None).is_connected).await;
        assert_eq!(count(&connection, &script, "k").await, Ok(1));
    });
}

#[test]
fn cluster_is_connected_anew() {
    let (cluster, script) = (RedisCluster::start(3, 0).unwrap(), Script::new(COUNT));
    let own = runtime();
    let connection = own.block_on(Connection::open(&cluster.url(), patient())).unwrap();
    own.block_on(count(&connection, &script, "k")).unwrap();
    drop(own);
    let other = runtime();
    for n in 2..=4 {
        assert_eq!(other.block_on(count(&connection, &script, "k")), Ok(n));
    }
}
