//! More calls than a server can answer in time, and the calls of other keys beside them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use portcullis_servers::{Fault, FaultProxy};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::protocol::value::Value;
use crate::transport::{Call, CallError, QueueKey, Transport as _};

use super::scripts::{COUNT, count};
use super::server::Server;
use super::waiting::{patient, recovery};

/// Five times as long as a busy machine stands still, so that only the servers of these tests are late.
const DEADLINE: Duration = Duration::from_secs(1);
/// The server's reply to [`ask`].
const REPLY: &str = ":1\r\n";

/// A connection to a server that sends this number of replies every 10 ms.
async fn slow(server: &Server, replies: usize, deadline: Duration) -> (Connection, Script, FaultProxy) {
    let (proxy, connection) = server.behind_proxy(patient().deadline(deadline)).await;
    let script = Script::new("return 1");
    connection.load(&script).await.unwrap();
    proxy.set_fault(Fault::Pace(replies * REPLY.len()));
    (connection, script, proxy)
}

async fn ask(connection: &Connection, script: &Script, key: Option<u128>) -> Result<Value, CallError> {
    let queue = QueueKey::new(key, &|| false);
    connection
        .run(Call { script, slot: None, words: Arc::default(), queue, load: None, decisions: 1, end: None })
        .await
}

/// The results of calls.
#[derive(Debug, Default)]
struct Tally {
    answered: u32,
    unsent: u32,
    overtaken: u32,
    failed: u32,
    last: Option<CallError>,
}

impl Tally {
    fn count(&mut self, result: Result<Value, CallError>) {
        match result {
            Ok(_) => self.answered += 1,
            Err(CallError::Overloaded | CallError::NotSent(_)) => self.unsent += 1,
            Err(CallError::Overtaken(_)) => self.overtaken += 1,
            Err(error) => (self.failed, self.last) = (self.failed + 1, Some(error)),
        }
    }
}

/// Calls from this number of tasks without pause.
async fn flood(
    connection: &Connection,
    script: &Script,
    callers: u32,
    key: Option<u128>,
    length: Duration,
) -> Tally {
    let end = Instant::now() + length;
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let (connection, script) = (connection.clone(), script.clone());
        tasks.spawn(async move {
            let mut results = Vec::new();
            while Instant::now() < end {
                let result = ask(&connection, &script, key).await;
                if matches!(result, Err(CallError::Overloaded)) {
                    sleep(Duration::from_millis(20)).await;
                }
                results.push(result);
            }
            results
        });
    }
    let mut tally = Tally::default();
    for result in tasks.join_all().await.into_iter().flatten() {
        tally.count(result);
    }
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_calls_than_a_server_answers_in_time_are_no_outage() {
    let server = Server::start(&[]);
    // With all permits in flight a reply takes two and a half seconds.
    let (connection, script, proxy) = slow(&server, 4, DEADLINE).await;
    let tally = flood(&connection, &script, 2_000, None, Duration::from_secs(4)).await;
    println!("{tally:?}");
    assert_eq!(tally.failed, 0, "{tally:?}");
    assert!(tally.unsent > 0 && tally.overtaken > 0, "{tally:?}");
    assert_eq!((connection.availability(None).outage, connection.availability(None).rejection), (None, None));
    // Fewer calls are sent then, and those are answered: the server does not run calls whose callers have gone. The number of
    // replies in time depends on the load of the machine; with all calls in flight there would be almost none.
    let mut are_answered = false;
    for _ in 0..5 {
        let tally = flood(&connection, &script, 2_000, None, Duration::from_secs(3)).await;
        println!("{tally:?}");
        assert_eq!(tally.failed, 0, "{tally:?}");
        are_answered |= tally.answered > tally.overtaken;
        if are_answered {
            break;
        }
    }
    assert!(are_answered);
    // The overload ends with the flood.
    proxy.set_fault(Fault::None);
    sleep(DEADLINE).await;
    for _ in 0..20 {
        ask(&connection, &script, None).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overloaded_server_that_loads_scripts_late_is_no_outage() {
    let server = Server::start(&[]);
    let (connection, script, _proxy) = slow(&server, 2, DEADLINE).await;
    let length = Duration::from_secs(4);
    let new_scripts = async {
        let (started, mut tally) = (Instant::now(), Tally::default());
        for number in 0.. {
            if started.elapsed() > length {
                break;
            }
            tally.count(ask(&connection, &Script::new(&format!("return {number}")), None).await);
        }
        tally
    };
    let (_, tally) = tokio::join!(flood(&connection, &script, 300, None, length), new_scripts);
    println!("{tally:?}");
    assert_eq!(tally.failed, 0, "{tally:?}");
    assert!(tally.unsent > 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_too_slow_for_a_single_call_is_an_outage() {
    let server = Server::start(&[]);
    let (connection, script, proxy) = slow(&server, 1, DEADLINE).await;
    for _ in 0..5 {
        ask(&connection, &script, None).await.unwrap();
    }
    // Each reply comes in pieces, the last one after the deadline.
    proxy.set_fault(Fault::Pace(1));
    let long = Script::new("return string.rep('x', 300)");
    let long_enough = patient().deadline(Duration::from_secs(20));
    Connection::open(&server.url(), long_enough).await.unwrap().load(&long).await.unwrap();
    let error = ask(&connection, &long, None).await.unwrap_err();
    assert_eq!(error, CallError::TimedOut(DEADLINE));
    assert!(connection.availability(None).outage >= Some(DEADLINE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_unanswered_connection_of_two_is_no_outage() {
    let server = Server::start(&[]);
    let (proxy, connection) = server.behind_proxy(patient().deadline(DEADLINE).pool_size(2)).await;
    let script = Script::new("return 1");
    connection.load(&script).await.unwrap();
    ask(&connection, &script, None).await.unwrap();
    proxy.set_fault(Fault::MuteFirst(1));
    let both = async || tokio::join!(ask(&connection, &script, None), ask(&connection, &script, None));
    let ((one, other), _) = tokio::join!(both(), async {
        // One connection replies while the other does not.
        sleep(DEADLINE / 4).await;
        both().await
    });
    assert!(one.is_ok() != other.is_ok(), "{one:?}, {other:?}");
    assert_eq!(one.and(other), Err(CallError::Overtaken(DEADLINE)));
    assert_eq!((connection.availability(None).outage, connection.availability(None).rejection), (None, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_keys_are_served_during_a_flood_of_one_key() {
    let server = Server::start(&[]);
    // With all permits in flight a reply takes five seconds, which is too long; with those of one key a third of one.
    let (connection, script, _proxy) = slow(&server, 2, Duration::from_secs(4)).await;
    let flooding = tokio::spawn({
        let (connection, script) = (connection.clone(), script.clone());
        async move { flood(&connection, &script, 1_000, Some(1), Duration::from_secs(3)).await }
    });
    let mut answers = 0;
    while !flooding.is_finished() {
        ask(&connection, &script, Some(2 + answers % 100)).await.unwrap();
        answers += 1;
    }
    let tally = flooding.await.unwrap();
    println!("{answers} answers beside {tally:?}");
    assert!(answers >= 3, "{answers}");
    assert!(tally.unsent > 0 && tally.failed == 0, "{tally:?}");
    assert_eq!(connection.availability(None).outage, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_below_the_deadline_is_no_outage_and_fails_no_call() {
    let server = Server::start(&[]);
    let connection = Connection::open(&server.url(), patient()).await.unwrap();
    let script = Script::new(COUNT);
    count(&connection, &script, "k").await.unwrap();
    server.signal("STOP");
    let mut callers = JoinSet::new();
    for _ in 0..200 {
        let (connection, script) = (connection.clone(), script.clone());
        callers.spawn(async move { count(&connection, &script, "k").await });
    }
    sleep(Duration::from_millis(300)).await;
    server.signal("CONT");
    for result in callers.join_all().await {
        result.unwrap();
    }
    assert_eq!((connection.availability(None).outage, connection.availability(None).rejection), (None, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_calls_fail_as_an_outage_when_replies_stop() {
    let server = Server::start(&[]);
    let options = patient().max_in_flight(16).deadline(DEADLINE);
    let connection = Connection::open(&server.url(), options).await.unwrap();
    let script = Script::new(COUNT);
    count(&connection, &script, "k").await.unwrap();
    server.signal("STOP");
    let mut sent = JoinSet::new();
    for _ in 0..16 {
        let (connection, script) = (connection.clone(), script.clone());
        sent.spawn(async move { count(&connection, &script, "k").await.unwrap_err() });
    }
    // After all permits are taken, and long before those calls time out.
    sleep(DEADLINE / 2).await;
    let mut waiting = JoinSet::new();
    for key in 0..100 {
        let (connection, script) = (connection.clone(), script.clone());
        waiting.spawn(async move { ask(&connection, &script, Some(key)).await.unwrap_err() });
    }
    let waited = waiting.join_all().await;
    let unavailable = |error: &&CallError| matches!(error, CallError::Unavailable(_));
    assert_eq!(waited.iter().filter(unavailable).count(), 100, "{waited:?}");
    assert_eq!(sent.join_all().await, vec![CallError::TimedOut(DEADLINE); 16]);
    assert!(connection.availability(None).outage.is_some());
    server.signal("CONT");
    recovery(&connection, &script, "k").await;
    assert_eq!(connection.availability(None).outage, None);
}
