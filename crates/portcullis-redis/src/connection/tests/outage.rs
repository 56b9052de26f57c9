//! Servers that stop, restart, or were never reachable.

use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::transport::{CallError, Transport as _};

use super::scripts::{COUNT, count};
use super::server::{Log, Server};
use super::waiting::{patient, recovery, until};

/// A connection whose calls fail by what a server does, and never because the machine is busy.
async fn open(server: &Server) -> Connection {
    Connection::open(&server.url(), patient()).await.unwrap()
}

#[tokio::test]
async fn survives_kill_and_restart_with_one_line_each() {
    let log = Log::capture();
    let mut server = Server::start(&[]);
    let connection = open(&server).await;
    let script = Script::new(COUNT);
    count(&connection, &script, "k").await.unwrap();
    assert_eq!(log.lines(), Vec::<String>::new());

    server.kill();
    until(|| !connection.availability(None).is_connected).await;
    for _ in 0..200 {
        let started = Instant::now();
        let error = count(&connection, &script, "k").await.unwrap_err();
        assert!(matches!(error, CallError::Unavailable(_)), "{error}");
        // It did not wait for its deadline.
        assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.run();
    let took = recovery(&connection, &script, "k").await;
    println!("recovered in {took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    let lines = log.lines();
    println!("{lines:#?}");
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("cannot answer code=PC304 "), "{lines:#?}");
    assert!(lines[1].contains("INFO") && lines[1].contains("answers again"));
}

#[tokio::test]
async fn calls_in_flight_when_the_server_dies_may_have_charged() {
    let mut server = Server::start(&[]);
    let connection = open(&server).await;
    let script = Script::new(COUNT);
    count(&connection, &script, "k").await.unwrap();
    server.cli(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    let call = tokio::spawn({
        let connection = connection.clone();
        async move { count(&connection, &script, "k").await }
    });
    // The call has arrived.
    until(|| server.cli(&["INFO", "clients"]).contains("blocked_clients:1")).await;
    server.kill();
    let error = call.await.unwrap().unwrap_err();
    assert!(error.fate_unknown() && matches!(error, CallError::Lost(_)), "{error}");
}

#[tokio::test]
async fn a_server_that_appears_later_is_found() {
    let log = Log::capture();
    let mut server = Server::stopped(&[]);
    let started = Instant::now();
    let options = patient().connect_wait(Duration::from_millis(300));
    let connection = Connection::open(&server.url(), options).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(10));
    let script = Script::new(COUNT);
    let error = count(&connection, &script, "k").await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable(_)), "{error}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.lines().len(), 1, "{:#?}", log.lines());
    server.run();
    let took = recovery(&connection, &script, "k").await;
    println!("found in {took:?}");
    assert!(took < Duration::from_secs(10));
    assert_eq!(log.lines().len(), 2, "{:#?}", log.lines());
}

#[test]
fn tasks_end_with_the_last_connection() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut server = Server::start(&[]);
        let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let before = tasks();
        let connection = Connection::open(&server.url(), patient().pool_size(3)).await.unwrap();
        let other = connection.clone();
        drop(connection);
        count(&other, &Script::new(COUNT), "k").await.unwrap();
        assert_eq!(server.clients(), 3);
        drop(other);
        until(|| (tasks(), server.clients()) == (before, 0)).await;

        let connection = open(&server).await;
        server.kill();
        until(|| !connection.availability(None).is_connected).await;
        drop(connection);
        until(|| tasks() == before).await;
        server.run();
        // A task that was left would connect again by then.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(server.clients(), 0);
    });
}

#[tokio::test]
async fn a_demoted_primary_is_replaced_by_a_new_connection() {
    let server = Server::start(&[]);
    let connection = open(&server).await;
    let script = Script::new(COUNT);
    count(&connection, &script, "k").await.unwrap();
    let id = server.cli(&["CLIENT", "LIST"]);
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let error = count(&connection, &script, "k").await.unwrap_err();
    println!("{error}");
    assert!(matches!(error, CallError::Server(_)), "{error}");
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    assert!(recovery(&connection, &script, "k").await < Duration::from_secs(10));
    assert!(!server.cli(&["CLIENT", "LIST"]).contains(&format!("{} ", id.split(' ').next().unwrap())));
    assert_eq!(server.cli(&["GET", "portcullis:k"]).trim(), "2");
}

#[tokio::test]
async fn an_outage_continues_through_read_only_connections() {
    let log = Log::capture();
    let server = Server::start(&[]);
    let connection = open(&server).await;
    let script = Script::new(COUNT);
    count(&connection, &script, "k").await.unwrap();
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    assert!(count(&connection, &script, "k").await.is_err());
    let started = Instant::now();
    // The connection is replaced by another one, which is read-only as well.
    while !matches!(count(&connection, &script, "k").await, Err(CallError::Unavailable(_))) {
        assert!(started.elapsed() < Duration::from_secs(5), "it is not replaced");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while !matches!(count(&connection, &script, "k").await, Err(CallError::Server(_))) {
        assert!(started.elapsed() < Duration::from_secs(5), "no other connection");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Read before the outage, which goes on meanwhile.
    let elapsed = started.elapsed();
    let outage = connection.availability(None).outage;
    assert!(outage >= Some(elapsed), "{outage:?} {elapsed:?}");
    assert_eq!(log.lines().len(), 1, "{:#?}", log.lines());
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    recovery(&connection, &script, "k").await;
    assert_eq!(connection.availability(None).outage, None);
    assert_eq!(log.lines().len(), 2, "{:#?}", log.lines());
}

#[tokio::test]
async fn a_read_only_server_is_not_reconnected_in_a_loop() {
    let log = Log::capture();
    let server = Server::start(&[]);
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    let connection = open(&server).await;
    let script = Script::new(COUNT);
    for _ in 0..40 {
        assert!(count(&connection, &script, "a").await.is_err());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(log.lines(), Vec::<String>::new());
}

#[tokio::test]
async fn an_outage_ends_without_calls() {
    let server = Server::start(&[]);
    let options = patient().deadline(Duration::from_millis(50));
    let connection = Connection::open(&server.url(), options).await.unwrap();
    let script = Script::new(COUNT);
    recovery(&connection, &script, "k").await;
    // On a machine that stands still, a call may be sent too late to prove an outage.
    let outage = async || {
        let started = Instant::now();
        loop {
            assert!(count(&connection, &script, "k").await.is_err());
            let outage = connection.availability(None).outage;
            if let Some(outage) = outage {
                return outage;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "no outage");
        }
    };
    server.signal("STOP");
    outage().await;
    server.signal("CONT");
    until(|| connection.availability(None).outage.is_none()).await;
    let well = Instant::now();
    server.signal("STOP");
    let (outage, longest) = (outage().await, well.elapsed());
    server.signal("CONT");
    assert!(outage <= longest, "{outage:?} of a server that was well {longest:?} ago");
}
