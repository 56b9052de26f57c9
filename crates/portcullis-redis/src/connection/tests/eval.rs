//! Servers that refuse `SCRIPT LOAD`.

use std::time::Duration;

use portcullis_servers::{Fault, FaultProxy};

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::transport::{CallError, Transport as _};

use super::scripts::{COUNT, count, loads_of_two_hundred};
use super::server::{Log, Server};
use super::waiting::{patient, until};

async fn open(url: &str) -> Connection {
    Connection::open(url, patient().pool_size(2)).await.unwrap()
}

/// The lines about the refusal.
pub(super) fn refusal_lines(log: &Log) -> Vec<String> {
    log.lines().into_iter().filter(|line| line.contains("SCRIPT LOAD")).collect()
}

#[tokio::test]
async fn eval_is_sent_once_per_flush_and_evalsha_otherwise() {
    let log = Log::capture();
    let server = Server::without_script_load();
    let connection = open(&server.url()).await;
    // The check at the start.
    assert_eq!((server.calls("eval"), server.calls("evalsha")), (1, 1));
    let script = Script::new(COUNT);
    for round in 0..3 {
        server.cli(&["SCRIPT", "FLUSH"]);
        let before = [server.calls("eval"), server.calls("evalsha")];
        for n in 1..=100 {
            assert_eq!(count(&connection, &script, "k").await, Ok(round * 100 + n));
        }
        let sent = [server.calls("eval") - before[0], server.calls("evalsha") - before[1]];
        assert_eq!(sent, [1, 100]);
    }
    // The refusal is remembered.
    assert_eq!((server.refusals("script|load"), server.calls("script|load")), (1, 0));
    let refused = server.cli(&["ACL", "LOG"]);
    assert!(refused.lines().any(|line| line == "script|load"), "{refused}");
    assert!(!refused.lines().any(|line| ["eval", "evalsha"].contains(&line)), "{refused}");
    let [line] = &refusal_lines(&log)[..] else { panic!("{:#?}", log.lines()) };
    assert!(line.contains("INFO") && line.contains("grant the user +script|load"), "{line}");
    assert!(!line.contains("drawbridge"), "{line}");
}

#[tokio::test]
async fn a_restart_is_survived_with_no_second_line() {
    let log = Log::capture();
    let mut server = Server::without_script_load();
    let connection = open(&server.url()).await;
    let script = Script::new(COUNT);
    assert_eq!(count(&connection, &script, "k").await, Ok(1));
    for _ in 0..2 {
        server.kill();
        until(|| !connection.availability(None).is_connected).await;
        server.run();
        until(|| connection.availability(None).is_connected).await;
        for n in 1..=10 {
            assert_eq!(count(&connection, &script, "k").await, Ok(n));
        }
        // A new connection tries `SCRIPT LOAD` again.
        assert_eq!((server.calls("eval"), server.calls("evalsha")), (1, 10));
        assert_eq!(server.refusals("script|load"), 1);
    }
    assert_eq!(refusal_lines(&log).len(), 1, "{:#?}", log.lines());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_miss_a_script_at_once_run_once_each() {
    let server = Server::without_script_load();
    let connection = open(&server.url()).await;
    let script = Script::new(COUNT);
    for round in 1..=3 {
        server.cli(&["SCRIPT", "FLUSH"]);
        let sent = loads_of_two_hundred(&connection, &script, "k", || server.calls("eval")).await;
        assert!((1..=200).contains(&sent), "{sent}");
        assert_eq!(server.cli(&["GET", "portcullis:k"]).trim(), (round * 200).to_string());
    }
    assert_eq!(loads_of_two_hundred(&connection, &script, "k", || server.calls("eval")).await, 0);
    assert_eq!(server.refusals("script|load"), 1);
}

#[tokio::test]
async fn a_changed_right_is_used_on_the_same_connection() {
    let server = Server::without_script_load();
    let connection = open(&server.url()).await;
    let script = Script::new(COUNT);
    server.cli(&["ACL", "SETUSER", "portcullis", "-eval"]);
    for _ in 0..2 {
        let error = count(&connection, &script, "k").await.unwrap_err();
        let CallError::Denied(reply) = &error else { panic!("{error}") };
        assert!(reply.contains("'script|load'") && reply.contains("'eval'"), "{reply}");
    }
    server.cli(&["ACL", "SETUSER", "portcullis", "+script|load"]);
    assert_eq!(count(&connection, &script, "k").await, Ok(1));
    server.cli(&["ACL", "SETUSER", "portcullis", "-script|load", "+eval"]);
    server.cli(&["SCRIPT", "FLUSH"]);
    assert_eq!(count(&connection, &script, "k").await, Ok(2));
    assert_eq!(server.clients(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_eval_without_a_reply_is_not_repeated() {
    let server = Server::without_script_load();
    let proxy = FaultProxy::start(server.port).unwrap();
    let url = server.url().replace(&server.port.to_string(), &proxy.port().to_string());
    let options = patient().deadline(Duration::from_secs(2));
    let connection = Connection::open(&url, options).await.unwrap();
    proxy.set_fault(Fault::CutReplyTo("EVAL"));
    let error = count(&connection, &Script::new(COUNT), "k").await.unwrap_err();
    assert!(matches!(error, CallError::Lost(_)) && error.fate_unknown(), "{error}");
    assert_eq!(server.cli(&["GET", "portcullis:k"]).trim(), "1");
    // The check at the start, and the call.
    assert_eq!(server.calls("eval"), 2);
}
