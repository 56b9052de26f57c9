//! Callers who go away, and what is charged for them.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::connection::{CallError, Connection, Options, Script};

use super::scripts::{COUNT, count};
use super::server::Server;

const WINDOW: usize = 8;

async fn settled(server: &Server) -> usize {
    let charged = || server.cli(&["GET", "portcullis:k"]).trim().parse().unwrap_or(0);
    let mut before = charged();
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = charged();
        if now == before {
            return now;
        }
        before = now;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_callers_who_go_away_at_most_a_window_is_charged() {
    let server = Server::start(&[]);
    let options = Options::default().window(WINDOW).deadline(Duration::from_secs(20));
    let connection = Connection::open(&server.url(), options).await.unwrap();
    let script = Script::new(COUNT);
    count(&connection, &script, "warm").await.unwrap();
    server.signal("STOP");
    // More than once, as callers keep coming.
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
    assert_eq!(settled(&server).await, WINDOW);
    // The seats are free again.
    let before = Instant::now();
    for _ in 0..100 {
        count(&connection, &script, "other").await.unwrap();
    }
    assert!(before.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_seat_until_the_deadline_is_told_that_nothing_was_sent() {
    let server = Server::start(&[]);
    let deadline = Duration::from_millis(500);
    let options = Options::default().window(WINDOW).deadline(deadline);
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
    assert_eq!(unknown, WINDOW);
    // Either the time was over or the breaker had opened.
    let certain = |error: &&CallError| matches!(error, CallError::NotSent(_) | CallError::Unavailable(_));
    assert_eq!(errors.iter().filter(certain).count(), 100 - WINDOW);
    assert_eq!(settled(&server).await, WINDOW);
}
