//! Calls that the server refuses.

use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use portcullis_core::store::{Outcome, Store as _};
use portcullis_core::{Policy, Quota, StoreErrorKind, Timestamp, WindowTable};
use portcullis_testing::calendars;
use tokio::time::sleep;

use super::{DEADLINE, FIVE, MONTHLY, Server, all, ask, busy, of, open, patient, user};
use crate::protocol::wire::{CallWords, Operation, Words, arguments};
use crate::transport::{Call, CallError, QueueKey, Transport as _};

#[tokio::test]
async fn a_full_server_refuses_only_decisions_that_charge() {
    let server = Server::start(&[]);
    let store = patient(server.url()).deadline(DEADLINE).denial_memory(0);
    let store = store.connect().await.unwrap();
    assert!(store.check(of(&FIVE, user(0), 5)).await.unwrap().is_allowed());
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    server.signal("STOP");
    let first = busy(&store);
    let (charged, denied) = (of(&FIVE, user(1), 1), of(&FIVE, user(0), 1));
    let peek = of(&FIVE, user(0), 0);
    let tasks = [charged.clone(), denied, peek, charged].map(|checks| ask(&store, checks));
    sleep(Duration::from_millis(50)).await;
    server.signal("CONT");
    assert_eq!(all(first).await.len(), 2);
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    for charged in [&results[0], &results[3]] {
        let error = charged.as_ref().unwrap_err();
        assert_eq!((error.kind(), error.outage()), (StoreErrorKind::Failed, None));
        assert!(error.to_string().contains("raise its `maxmemory`"), "{error}");
    }
    assert!(!results[1].as_ref().unwrap().is_allowed());
    assert!(results[2].as_ref().is_ok_and(Outcome::is_allowed));
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    let peek = store.check(of(&FIVE, user(1), 0)).await.unwrap();
    assert_eq!(peek.decision().remaining(), 5);
}

#[tokio::test]
async fn equal_decisions_of_a_refused_call_share_the_next_one() {
    let server = Server::start(&[]);
    // One call may wait for each key: the permits of a key are for 64 calls.
    let store = patient(server.url()).deadline(DEADLINE).max_waiting(16);
    let store = store.connect().await.unwrap();
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    server.cli(&["CONFIG", "RESETSTAT"]);
    server.signal("STOP");
    let first = busy(&store);
    let charge = ask(&store, of(&FIVE, user(0), 1));
    let mut peeks: Vec<_> = (0..200).map(|_| ask(&store, of(&FIVE, user(1), 0))).collect();
    sleep(Duration::from_millis(50)).await;
    for leaving in [150, 0] {
        let peek = peeks.remove(leaving);
        peek.abort();
        assert!(peek.await.unwrap_err().is_cancelled());
    }
    server.signal("CONT");
    assert_eq!(all(first).await.len(), 2);
    assert_eq!(charge.await.unwrap().unwrap_err().kind(), StoreErrorKind::Failed);
    for peek in all(peeks).await {
        assert!(peek.is_allowed() && peek.decision().remaining() == 5);
    }
    // The first two, the refused call, the charge, and all peeks.
    assert_eq!(server.calls("evalsha"), 5);
}

#[tokio::test]
async fn a_replica_charges_no_decision_of_a_call() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    assert!(store.check(of(&FIVE, user(0), 1)).await.unwrap().is_allowed());
    server.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    server.signal("STOP");
    let first = busy(&store);
    let tasks: Vec<_> = (0..10).map(|number| ask(&store, of(&FIVE, user(number), 1))).collect();
    sleep(Duration::from_millis(50)).await;
    server.signal("CONT");
    assert_eq!(all(first).await.len(), 2);
    for task in tasks {
        // The connection is renewed meanwhile, so that not all of them have the reply of the server.
        assert!(task.await.unwrap().is_err());
    }
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    let started = Instant::now();
    while store.check(of(&FIVE, user(0), 0)).await.is_err() {
        assert!(started.elapsed() < DEADLINE, "no connection");
        sleep(Duration::from_millis(5)).await;
    }
    for number in 0..10 {
        let peek = store.check(of(&FIVE, user(number), 0)).await.unwrap();
        assert_eq!(peek.decision().remaining(), if number == 0 { 4 } else { 5 });
    }
}

/// The windows are shorter than the time for which the server is stopped, so that its clock is in neither of the two that were sent.
#[tokio::test]
async fn a_calendar_window_that_has_passed_fails_alone() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let now = Timestamp::from(SystemTime::now());
    let starts: Vec<_> =
        (0..60_000).map(|window| now.saturating_add(Duration::from_millis(window))).collect();
    let table = WindowTable::new("milliseconds", 1, starts.leak()).unwrap();
    let short = Policy::calendar_window("short", 9, Box::leak(Box::new(table)));
    let months = Policy::calendar_window("months", 9, &calendars()[0]);
    let waits = Policy::gcra("waits", Quota::per_week(1)).wait_at_most(Duration::from_secs(3_600));
    server.signal("STOP");
    let first = busy(&store);
    let both = of(&waits, user(0), 1).and(short.clone(), user(0), 1).unwrap();
    let passed = [of(&short, user(0), 1), both].map(|checks| ask(&store, checks));
    let others = [of(&months, user(0), 2), of(&waits, user(0), 1), of(&months, user(0), 3)];
    let others = others.map(|checks| ask(&store, checks));
    sleep(Duration::from_millis(50)).await;
    server.signal("CONT");
    assert_eq!(all(first).await.len(), 2);
    for task in passed {
        let error = task.await.unwrap().unwrap_err();
        assert_eq!((error.kind(), error.outage()), (StoreErrorKind::Failed, None));
        let text = error.to_string();
        assert!(
            text.contains("bad clock") && text.ends_with("synchronise the clocks of both machines"),
            "{text}"
        );
    }
    let left: Vec<_> =
        all(others.into()).await.iter().map(|outcome| outcome.decision().remaining()).collect();
    assert_eq!(left, [7, 0, 4], "they are charged once, and what fails charges nothing");
}

#[tokio::test]
async fn an_invalid_decision_fails_alone() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let mut request =
        arguments(Operation::Check, None, [(FIVE.strategy(), 1)].into_iter()).swap_remove(0).to_vec();
    let last = request.len() - 8;
    request[last..].copy_from_slice(&f64::NAN.to_le_bytes());
    server.cli(&["CONFIG", "RESETSTAT"]);
    let first = busy(&store);
    let before = ask(&store, of(&MONTHLY, user(0), 1));
    let invalid = tokio::spawn({
        let store = store.clone();
        async move {
            let words = [Bytes::from_static(b"portcullis:invalid"), Bytes::from(request)];
            let [keys, args] = words.map(|word| Words::from_iter([word]));
            let (script, queue, words) = (&store.0.script, QueueKey::none(), CallWords::new(keys, args));
            let call = Call { script, slot: Some(0), words, queue, load: Some(8), decisions: 1, end: None };
            store.0.connection.run(call).await
        }
    });
    let after = ask(&store, of(&MONTHLY, user(0), 1));
    let error = invalid.await.unwrap().unwrap_err();
    assert!(matches!(&error, CallError::Server(reply) if reply.contains("PORTCULLIS")), "{error:?}");
    assert!(all(first).await.iter().chain(&all(vec![before, after]).await).all(Outcome::is_allowed));
    let peek = store.check(of(&MONTHLY, user(0), 0)).await.unwrap();
    assert_eq!(peek.decision().remaining(), 998);
    // The first two, the refused call of three, each of these, and the peek.
    assert_eq!(server.calls("evalsha"), 7);
}
