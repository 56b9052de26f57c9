//! Calls that are dropped, and the charges of these calls.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::transport::CallError;

use super::scripts::{COUNT, count};
use super::server::Server;
use super::waiting::{patient, recovery, until};

const MAX_IN_FLIGHT: usize = 8;

/// Waits until the calls in flight are charged. Returns the charges after a later call.
async fn settled(server: &Server, connection: &Connection, script: &Script) -> usize {
    let charged = || server.cli(&["GET", "portcullis:k"]).trim().parse().unwrap_or(0);
    until(|| charged() >= MAX_IN_FLIGHT).await;
    recovery(connection, script, "later").await;
    charged()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_calls_charge_at_most_the_calls_in_flight() {
    let server = Server::start(&[]);
    let options = patient().max_in_flight(MAX_IN_FLIGHT).deadline(Duration::from_secs(20));
    let connection = Connection::open(&server.url(), options).await.unwrap();
    let script = Script::new(COUNT);
    count(&connection, &script, "warm").await.unwrap();
    server.signal("STOP");
    // Repeated, because callers keep coming.
    for _ in 0..5 {
        let mut callers = JoinSet::new();
        for _ in 0..100 {
            let (connection, script) = (connection.clone(), script.clone());
            callers.spawn(async move { count(&connection, &script, "k").await });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        callers.shutdown().await;
    }
    server.signal("CONT");
    assert_eq!(settled(&server, &connection, &script).await, MAX_IN_FLIGHT);
    // The permits are free again.
    let before = Instant::now();
    for _ in 0..100 {
        count(&connection, &script, "other").await.unwrap();
    }
    assert!(before.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_a_permit_by_its_deadline_is_not_sent() {
    let server = Server::start(&[]);
    let deadline = Duration::from_secs(2);
    let options = patient().max_in_flight(MAX_IN_FLIGHT).deadline(deadline);
    let connection = Connection::open(&server.url(), options).await.unwrap();
    let script = Script::new(COUNT);
    count(&connection, &script, "warm").await.unwrap();
    server.signal("STOP");
    let mut callers = JoinSet::new();
    for _ in 0..100 {
        let (connection, script) = (connection.clone(), script.clone());
        callers.spawn(async move { count(&connection, &script, "k").await.unwrap_err() });
    }
    let errors = callers.join_all().await;
    server.signal("CONT");
    let unknown = errors.iter().filter(|error| error.fate_unknown()).count();
    assert_eq!(unknown, MAX_IN_FLIGHT);
    // Either at the deadline or when the breaker opened.
    let certain = |error: &&CallError| matches!(error, CallError::NotSent(_) | CallError::Unavailable(_));
    assert_eq!(errors.iter().filter(certain).count(), 100 - MAX_IN_FLIGHT);
    assert_eq!(settled(&server, &connection, &script).await, MAX_IN_FLIGHT);
}
