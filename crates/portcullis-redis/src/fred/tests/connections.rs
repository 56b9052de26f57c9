//! Connections on clients of the user, and clients that end.

use std::time::{Duration, Instant};

use ::fred::clients::Client;
use ::fred::interfaces::ClientLike as _;
use ::fred::types::Builder;
use ::fred::types::config::{Config, ReconnectPolicy};

use crate::connection::Connection;
use crate::connection::tests::cluster::eval::{only_the_first_gets_sources, partly_refusing};
use crate::connection::tests::scripts::{COUNT, count};
use crate::connection::tests::server::{Log, Server};
use crate::connection::tests::waiting::{patient, recovery, until};
use crate::protocol::script::Script;
use crate::transport::{CallError, Options, Transport as _};

#[tokio::test]
async fn a_client_of_the_user_works_and_is_watched() {
    let log = Log::capture();
    let mut server = Server::start(&[]);
    let client = Builder::from_config(Config::from_url(&server.admin_url()).unwrap())
        .set_policy(ReconnectPolicy::new_constant(0, 100))
        .build()
        .unwrap();
    client.init().await.unwrap();
    let options = Options::default().deadline(Duration::from_secs(60));
    let connection = Connection::from_clients(vec![client.clone()], options).await.unwrap();
    let script = Script::new(COUNT);
    assert_eq!(count(&connection, &script, "k").await, Ok(1));
    server.kill();
    until(|| !connection.availability(None).is_connected).await;
    let started = Instant::now();
    assert!(matches!(count(&connection, &script, "k").await, Err(CallError::Unavailable(_))));
    assert!(started.elapsed() < Duration::from_secs(10), "it waits for its deadline");
    server.run();
    assert!(recovery(&connection, &script, "k").await < Duration::from_secs(10));
    assert_eq!(log.lines().len(), 2, "{:#?}", log.lines());
    drop(connection);
    let _: () = client.ping(None).await.unwrap();
}

#[tokio::test]
async fn a_client_whose_task_has_ended_is_replaced() {
    let server = Server::start(&[]);
    let connection = Connection::open(&server.url(), patient()).await.unwrap();
    let script = Script::new(COUNT);
    for charged in 1..=3 {
        let node = connection.nodes().remove(0);
        node.live().unwrap().client.quit().await.unwrap();
        recovery(&connection, &script, "k").await;
        assert_eq!(server.cli(&["GET", "portcullis:k"]).trim(), charged.to_string());
    }
    assert_eq!(server.clients(), 1);
}

#[tokio::test]
async fn only_nodes_that_refuse_get_sources_by_a_fred_client() {
    let cluster = partly_refusing();
    for node in cluster.nodes() {
        let change = ["ACL", "SETUSER", "portcullis", "+cluster|info", "+ping", "+info"];
        assert_eq!(node.cli(&change).unwrap(), "OK");
    }
    let client = Client::new(Config::from_url(&cluster.url()).unwrap(), None, None, None);
    let _task = client.init().await.unwrap();
    let options = Options::default().deadline(Duration::from_secs(5));
    let connection = Connection::from_clients(vec![client], options).await.unwrap();
    only_the_first_gets_sources(&cluster, &connection).await;
}

/// Only the user can connect a client of the user again.
#[test]
fn client_that_outlives_its_runtime_reports_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = Server::start(&[]);
    let (own, other) = (runtime(), runtime());
    let connection = own.block_on(async {
        let client = Builder::from_config(Config::from_url(&server.admin_url()).unwrap()).build().unwrap();
        client.init().await.unwrap();
        Connection::from_clients(vec![client], patient()).await.unwrap()
    });
    let script = Script::new(COUNT);
    own.block_on(count(&connection, &script, "k")).unwrap();
    drop(own);
    assert!(!connection.availability(None).is_connected && connection.availability(None).outage.is_some());
    let error = other.block_on(count(&connection, &script, "k")).unwrap_err();
    assert!(matches!(error, CallError::Unavailable(_)) && error.to_string().contains("runtime"), "{error}");
}
