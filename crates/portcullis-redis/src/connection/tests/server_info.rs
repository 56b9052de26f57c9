//! The log lines about a server that was reached.

use std::time::Duration;

use crate::connection::Connection;
use crate::transport::ConnectError;

use portcullis_servers::RedisCluster;

use super::server::{Log, Server};
use super::waiting::{patient, until};

async fn lines(url: &str) -> Vec<String> {
    let log = Log::capture();
    Connection::open(url, patient()).await.unwrap();
    log.all()
}

#[tokio::test]
async fn one_line_lists_properties_and_another_what_to_change() {
    let server = Server::start(&["--maxmemory", "100mb"]);
    let found = lines(&server.admin_url()).await;
    let [line] = &found[..] else { panic!("{found:#?}") };
    for part in ["INFO", "redis found: product ", "mode standalone", "role master", "memory 104857600 bytes"]
    {
        assert!(line.contains(part), "{line}");
    }
    assert!(line.contains("eviction noeviction") && !line.contains("unknown"), "{line}");

    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let found = lines(&server.admin_url()).await;
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found[1].contains("WARN") && found[1].contains("set maxmemory-policy to noeviction"),
        "{found:#?}"
    );
    assert!(found[1].contains(" code=PC314 "), "{found:#?}");
}

#[tokio::test]
async fn properties_without_permission_are_unknown() {
    let server = Server::start(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let found = lines(&server.url()).await;
    let [line] = &found[..] else { panic!("{found:#?}") };
    assert!(
        line.contains("version unknown")
            && line.contains("eviction unknown, persistence unknown, scripts run")
    );
}

#[tokio::test]
async fn a_server_that_appears_later_is_examined_then() {
    let mut server = Server::stopped(&["--rename-command", "EVALSHA", ""]);
    let log = Log::capture();
    let options = patient().connect_wait(Duration::from_millis(50));
    let connection = Connection::open(&server.url(), options).await.unwrap();
    server.run();
    until(|| log.lines().iter().any(|line| line.contains("ERROR"))).await;
    assert!(
        log.lines()
            .iter()
            .any(|line| line.contains("does not run lua scripts") && line.contains(" code=PC307 ")),
        "{:#?}",
        log.lines()
    );
    drop(connection);
}

#[tokio::test]
async fn a_single_server_url_to_a_cluster_names_the_other_scheme() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let node = &cluster.nodes()[0];
    let error = Connection::open(&node.admin_url(), patient()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Cluster { .. }), "{error}");
    assert!(error.to_string().contains("use redis-cluster://"), "{error}");
    let log = Log::capture();
    Connection::open(&cluster.admin_url(), patient()).await.unwrap();
    assert!(log.all()[0].contains("mode cluster, role master"), "{:#?}", log.all());
}

#[tokio::test]
async fn an_examination_that_times_out_is_repeated() {
    let log = Log::capture();
    let server = Server::start(&[]);
    server.cli(&["CLIENT", "PAUSE", "600000", "WRITE"]);
    let options = patient().deadline(Duration::from_secs(1));
    let _connection = Connection::open(&server.url(), options).await.unwrap();
    assert_eq!(log.all(), Vec::<String>::new());
    server.cli(&["CLIENT", "UNPAUSE"]);
    until(|| !log.all().is_empty()).await;
    assert!(matches!(&log.all()[..], [line] if line.contains("scripts run")), "{:#?}", log.all());
}
