//! Servers that reply, but do not serve.

use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::transport::{CallError, Transport as _};

use super::scripts::{COUNT, count};
use super::server::{Log, Server};
use super::waiting::patient;

#[tokio::test]
async fn a_server_that_loads_its_data_is_unavailable_and_kept() {
    let mut server = Server::start(&[
        "--requirepass",
        "pw",
        "--key-load-delay",
        "10000",
        "--loading-process-events-interval-bytes",
        "1024",
        "--rdbcompression",
        "no",
    ]);
    let cli =
        |server: &Server, words: &[&str]| server.cli(&[&["--no-auth-warning", "-a", "pw"], words].concat());
    cli(&server, &["EVAL", "for n = 1, 1000 do redis.call('SET', n, string.rep('x', 100)) end", "0"]);
    assert_eq!(cli(&server, &["SAVE"]).trim(), "OK");
    server.kill();
    let url = format!("redis://:pw@127.0.0.1:{}", server.port);
    server.run();
    let log = Log::capture();
    let found = || log.all().into_iter().filter(|line| line.contains("redis found: ")).collect::<Vec<_>>();
    let connection = Connection::open(&url, patient()).await.unwrap();
    let script = Script::new(COUNT);
    let error = count(&connection, &script, "k").await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable(_)) && error.to_string().contains("LOADING"), "{error}");
    assert!(connection.availability(None).outage.is_some());
    assert_eq!(found(), Vec::<String>::new());
    let id = cli(&server, &["CLIENT", "LIST"]);
    // The ten seconds of loading end here.
    assert_eq!(cli(&server, &["CONFIG", "SET", "key-load-delay", "0"]).trim(), "OK");
    let started = Instant::now();
    while let Err(error) = count(&connection, &script, "k").await {
        assert!(!error.fate_unknown() && connection.availability(None).is_connected, "{error}");
        assert!(started.elapsed() < Duration::from_secs(20), "never loaded");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("loaded after {:?}", started.elapsed());
    let own = id.lines().next().unwrap().split(' ').next().unwrap().to_owned();
    assert!(cli(&server, &["CLIENT", "LIST"]).contains(&format!("{own} ")), "the connection was replaced");
    assert_eq!(
        (connection.availability(None).outage, cli(&server, &["GET", "portcullis:k"]).trim()),
        (None, "1")
    );
    while found().is_empty() {
        assert!(started.elapsed() < Duration::from_secs(30), "never examined");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(found().len() == 1 && !found()[0].contains("version unknown"), "{:#?}", found());
}

#[tokio::test]
async fn a_full_server_names_the_setting_and_charges_nothing() {
    let server = Server::start(&[]);
    let connection = Connection::open(&server.url(), patient()).await.unwrap();
    let script = Script::new(COUNT);
    assert_eq!(count(&connection, &script, "k").await, Ok(1));
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = count(&connection, &script, "k").await.unwrap_err();
    assert!(matches!(error, CallError::Server(_)), "{error:?}");
    assert!(error.to_string().contains("OOM") && error.to_string().contains("`maxmemory`"), "{error}");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(count(&connection, &script, "k").await, Ok(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_with_a_script_is_unavailable() {
    let server = Server::start(&["--lua-time-limit", "10"]);
    let connection = Connection::open(&server.url(), patient()).await.unwrap();
    let script = Script::new(COUNT);
    assert_eq!(count(&connection, &script, "k").await, Ok(1));
    std::thread::scope(|scope| {
        scope.spawn(|| server.cli(&["EVAL", "while true do end", "0"]));
        let started = Instant::now();
        while !server.cli(&["PING"]).contains("BUSY") {
            assert!(started.elapsed() < Duration::from_secs(20), "the server is not busy");
            std::thread::sleep(Duration::from_millis(5));
        }
        let busy = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(count(&connection, &script, "k"))
        });
        assert_eq!(server.cli(&["SCRIPT", "KILL"]).trim(), "OK");
        assert!(matches!(busy, Err(CallError::Unavailable(_))), "{busy:?}");
    });
    assert_eq!(count(&connection, &script, "k").await, Ok(2));
}
