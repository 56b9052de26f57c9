//! Servers that accept commands and do not reply.

use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::transport::{CallError, Transport as _};

use super::scripts::{COUNT, count};
use super::server::Server;
use super::waiting::{patient, recovery};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_under_steady_traffic_is_disconnected() {
    let server = Server::start(&[]);
    let options = patient().deadline(Duration::from_millis(50));
    let connection = Connection::open(&server.url(), options).await.unwrap();
    let script = Script::new(COUNT);
    recovery(&connection, &script, "k").await;
    // On a machine that stands still, few calls are made until the connection is given up, but not every time.
    let mut are_refused = false;
    for _ in 0..5 {
        server.signal("STOP");
        let started = Instant::now();
        let (mut waited, mut refused) = (0, 0);
        while connection.availability(None).is_connected {
            match count(&connection, &script, "k").await.unwrap_err() {
                error if error.fate_unknown() => waited += 1,
                error => {
                    assert!(matches!(error, CallError::Unavailable(_)), "{error}");
                    refused += 1;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            assert!(started.elapsed() < Duration::from_secs(20), "not disconnected");
        }
        println!("disconnected after {:?}: {waited} calls waited, {refused} did not", started.elapsed());
        assert!(connection.availability(None).outage > Some(Duration::from_millis(900)));
        server.signal("CONT");
        println!("recovered in {:?}", recovery(&connection, &script, "k").await);
        assert_eq!(
            (connection.availability(None).outage, connection.availability(None).rejection),
            (None, None)
        );
        are_refused = waited >= 2 && refused > waited;
        if are_refused {
            break;
        }
    }
    assert!(are_refused, "most calls wait for their deadline");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_server_is_detected_although_callers_give_up_early() {
    let server = Server::start(&[]);
    let options = patient().max_in_flight(8).deadline(Duration::from_secs(1));
    let connection = Connection::open(&server.url(), options).await.unwrap();
    let script = Script::new(COUNT);
    count(&connection, &script, "k").await.unwrap();
    server.signal("STOP");
    let started = Instant::now();
    let mut did_reject = false;
    while connection.availability(None).is_connected {
        let call = count(&connection, &script, "k");
        let _ = tokio::time::timeout(Duration::from_millis(20), call).await;
        did_reject |= connection.availability(None).rejection.is_some();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "not disconnected, rejected before: {did_reject}"
        );
    }
    assert!(did_reject && connection.availability(None).outage.is_some());
    server.signal("CONT");
    assert!(recovery(&connection, &script, "k").await < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_calls_are_bounded_and_a_blocked_socket_is_closed() {
    let server = Server::start(&[]);
    let options = patient().max_in_flight(16).max_waiting(20).deadline(Duration::from_secs(3));
    let connection = Connection::open(&server.url(), options).await.unwrap();
    let script = Script::new("return 1");
    connection.load(&script).await.unwrap();
    // All calls are made long before the first one times out, which would refuse the others for another reason.
    server.signal("STOP");
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let (connection, script) = (connection.clone(), script.clone());
            tokio::spawn(async move {
                let started = Instant::now();
                let error = connection.call(&script, vec![], vec![vec![b'x'; 1 << 18].into()]).await;
                (error.unwrap_err(), started.elapsed())
            })
        })
        .collect();
    let (mut refused, mut unknown) = (0, 0);
    for call in calls {
        let (error, took) = call.await.unwrap();
        // Far beyond the deadline, because the machine may be busy: a write to the blocked socket alone would not end at all.
        assert!(took < Duration::from_secs(20), "{took:?}");
        if error == CallError::Overloaded {
            refused += 1;
        } else {
            assert_ne!(error, CallError::Overloaded);
            unknown += usize::from(error.fate_unknown());
        }
    }
    println!("{refused} of 200 refused, the result of {unknown} is unknown");
    assert_eq!(refused, 200 - 16 - 20);
    assert!((1..=16).contains(&unknown), "{unknown}");
    let started = Instant::now();
    while connection.availability(None).is_connected {
        let _ = connection.call(&script, vec![], vec![]).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(started.elapsed() < Duration::from_secs(20), "not disconnected");
    }
    println!("disconnected after {:?} more", started.elapsed());
    server.signal("CONT");
    let started = Instant::now();
    while connection.call(&script, vec![], vec![]).await.is_err() {
        assert!(started.elapsed() < Duration::from_secs(20), "no recovery");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
