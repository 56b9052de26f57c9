//! Steps of a call that never end: a call ends at its deadline in every step.

use std::time::{Duration, Instant};

use portcullis_servers::{Fault, RedisCluster};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::protocol::slot::slot_of;
use crate::transport::{CallError, Transport as _};

use super::scripts::{COUNT, count};
use super::server::Server;
use super::waiting::patient;

const DEADLINE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_is_not_loaded_in_time_was_certainly_not_run() {
    let server = Server::start(&[]);
    let (proxy, connection) = server.behind_proxy(patient().deadline(DEADLINE)).await;
    proxy.set_fault(Fault::DiscardFromLoad);
    let error = count(&connection, &Script::new(COUNT), "k").await.unwrap_err();
    // It is no overload: the server answers nothing.
    assert_eq!(error, CallError::NotLoaded(DEADLINE));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_load_may_take_as_long_as_a_call() {
    let server = Server::start(&[]);
    let (proxy, connection) = server.behind_proxy(patient().deadline(Duration::from_secs(30))).await;
    proxy.set_fault(Fault::Delay(Duration::from_millis(1_200)));
    assert_eq!(count(&connection, &Script::new(COUNT), "k").await, Ok(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_map_does_not_delay_a_call() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let options = patient().deadline(DEADLINE);
    let connection = Connection::open(&cluster.url(), options).await.unwrap();
    for node in cluster.nodes() {
        assert_eq!(node.cli(&["ACL", "SETUSER", "portcullis", "-cluster|slots"]).unwrap(), "OK");
    }
    let replica =
        Script::new("return redis.error_reply('READONLY You can\\'t write against a read only replica.')");
    let call = connection.call(&replica, vec!["portcullis:k".into()], vec![]);
    let error = timeout(Duration::from_secs(20), call).await.expect("it ends").unwrap_err();
    // The reply means that nothing was done, and there is no time for another attempt.
    assert!(matches!(error, CallError::Server(_)), "{error}");
    assert_eq!(connection.availability(Some(slot_of(b"portcullis:k"))).rejection, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_new_node_does_not_delay_a_call() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    // Half of the time in which a client tries to connect.
    let deadline = Duration::from_millis(500);
    let options = patient().deadline(deadline);
    let connection = Connection::open(&cluster.url(), options).await.unwrap();
    let moved = Script::new("return redis.error_reply('MOVED 0 127.0.0.1:' .. ARGV[1])");
    connection.load(&moved).await.unwrap();
    // A busy machine may be late, but not every time.
    let mut answers = Vec::new();
    let is_in_time = |(error, took): &(CallError, Duration)| {
        matches!(error, CallError::Unavailable(_)) && (deadline..Duration::from_secs(1)).contains(took)
    };
    while answers.len() < 5 && !answers.last().is_some_and(is_in_time) {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = silent.local_addr().unwrap().port().to_string();
        let started = Instant::now();
        let answer = connection.call(&moved, vec!["portcullis:k".into()], vec![port.into()]).await;
        answers.push((answer.unwrap_err(), started.elapsed()));
    }
    assert!(answers.last().is_some_and(is_in_time), "{answers:?}");
}
