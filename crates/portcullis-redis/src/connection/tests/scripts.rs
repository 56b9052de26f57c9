//! Calls and loads of scripts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Barrier;

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::protocol::value::Value;
use crate::transport::{CallError, Transport as _};

use super::server::Server;
use super::waiting::{patient, until};

pub(crate) const COUNT: &str = "local n = tonumber(redis.call('GET', KEYS[1]) or '0') + tonumber(ARGV[1])
redis.call('SET', KEYS[1], n) return n";

/// Increments a key in the namespace of the server's user.
pub(crate) async fn count(connection: &Connection, script: &Script, key: &str) -> Result<i64, CallError> {
    let value = connection.call(script, vec![format!("portcullis:{key}")], vec!["1".into()]).await?;
    Ok(value.as_integer().unwrap())
}

/// Increments a key two hundred times at once. Returns how often a server loads a script for that.
pub(super) async fn loads_of_two_hundred(
    connection: &Connection,
    script: &Script,
    key: &str,
    loads: impl Fn() -> u64,
) -> u64 {
    let (before, all) = (loads(), Arc::new(Barrier::new(200)));
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let (connection, script, key) = (connection.clone(), script.clone(), key.to_owned());
            let all = Arc::clone(&all);
            tokio::spawn(async move {
                all.wait().await;
                count(&connection, &script, &key).await
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    loads() - before
}

#[tokio::test]
async fn a_thousand_calls_run_a_script_a_thousand_times() {
    let server = Server::start(&[]);
    let connection = Connection::open(&server.url(), patient()).await.unwrap();
    let script = Script::new(COUNT);
    assert_eq!(count(&connection, &script, "a").await, Ok(1));
    for n in 2..=1_000 {
        assert_eq!(count(&connection, &script, "a").await, Ok(n));
    }
    let error = connection.call(&Script::new("return redis.error_reply('MY oops')"), vec![], vec![]).await;
    assert_eq!(error, Err(CallError::Server("MY oops".into())));
    assert_eq!(
        connection.call(&Script::new("return ARGV[1]"), vec![], vec!["x".into()]).await,
        Ok("x".into())
    );
    let nothing = connection.call(&Script::new("return nil"), vec![], vec![]).await;
    assert_eq!(nothing, Ok(Value::Null));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_calls_that_miss_a_script_load_it_once() {
    let server = Server::start(&[]);
    let options = patient().pool_size(2);
    let connection = Connection::open(&server.url(), options).await.unwrap();
    let script = Script::new(COUNT);
    let loads =
        async || loads_of_two_hundred(&connection, &script, "k", || server.calls("script|load")).await;
    for round in 1..=5 {
        server.cli(&["SCRIPT", "FLUSH"]);
        assert_eq!(loads().await, 1);
        assert_eq!(server.cli(&["GET", "portcullis:k"]).trim(), (round * 200).to_string());
    }
    assert_eq!(loads().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_a_restart_has_lost_is_loaded_once() {
    let mut server = Server::start(&[]);
    let options = patient().pool_size(2);
    let connection = Connection::open(&server.url(), options).await.unwrap();
    let script = Script::new(COUNT);
    count(&connection, &script, "k").await.unwrap();
    for _ in 0..2 {
        server.kill();
        until(|| !connection.availability(None).is_connected).await;
        server.run();
        until(|| connection.availability(None).is_connected).await;
        let loads = loads_of_two_hundred(&connection, &script, "k", || server.calls("script|load")).await;
        // The total since the start, including the time without calls.
        assert_eq!((loads, server.calls("script|load")), (1, 1));
        assert_eq!(server.cli(&["GET", "portcullis:k"]).trim(), "200");
    }
}

#[tokio::test]
async fn a_paused_server_times_out_and_runs_nothing_twice() {
    let server = Server::start(&[]);
    // Generous for the calls that are answered: a slow machine must not fail a test.
    let deadline = Duration::from_secs(2);
    let connection = Connection::open(&server.url(), patient().deadline(deadline)).await.unwrap();
    let script = Script::new(COUNT);
    count(&connection, &script, "warm").await.unwrap();
    let before = server.calls("evalsha");
    // The pause lasts until the test ends it, so that the call is sent and times out within it on any machine.
    assert_eq!(server.cli(&["CLIENT", "PAUSE", "600000", "WRITE"]).trim(), "OK");
    let started = Instant::now();
    let error = count(&connection, &script, "k").await.unwrap_err();
    assert_eq!(error, CallError::TimedOut(deadline));
    assert!(error.fate_unknown() && started.elapsed() >= deadline);
    // Reads are answered during the pause.
    assert_eq!(server.cli(&["GET", "portcullis:k"]).trim(), "");
    assert_eq!(server.cli(&["CLIENT", "UNPAUSE"]).trim(), "OK");
    until(|| server.cli(&["GET", "portcullis:k"]).trim() == "1").await;
    until(|| !connection.availability(None).rejects()).await;
    // What the connection had sent again would have run before this call.
    assert_eq!(count(&connection, &script, "k").await, Ok(2));
    assert_eq!(server.calls("evalsha") - before, 2);
}
