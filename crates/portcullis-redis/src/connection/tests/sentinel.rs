//! A primary behind a sentinel.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portcullis_testing::{RedisSentinels, RedisServer};

use crate::connection::{ConnectError, Connection, Options, Script};

use super::scripts::{COUNT, count};
use super::server::Server;

#[tokio::test]
async fn the_primary_is_found_and_its_refusal_seen() {
    let primary = Server::start(&["--requirepass", "secret"]);
    let port = Server::stopped(&[]).port;
    let path = std::env::temp_dir().join(format!("portcullis-sentinel-{port}.conf"));
    let mut file = std::fs::File::create(&path).unwrap();
    let primary_port = primary.port;
    let directory = std::env::temp_dir();
    writeln!(file, "port {port}\nbind 127.0.0.1\ndir {}", directory.display()).unwrap();
    writeln!(file, "sentinel monitor main 127.0.0.1 {primary_port} 1\nsentinel auth-pass main secret")
        .unwrap();
    let mut sentinel = Command::new(RedisServer::program())
        .arg(&path)
        .arg("--sentinel")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(started.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(10));
    }
    let url =
        |password: &str| format!("redis-sentinel://:{password}@127.0.0.1:{port}?sentinelServiceName=main");
    let connection = Connection::open(&url("secret"), Options::default()).await;
    let refused = Connection::open(&url("pw"), Options::default()).await;
    let counted = match &connection {
        Ok(connection) => count(connection, &Script::new(COUNT), "k").await,
        Err(_) => Ok(0),
    };
    sentinel.kill().unwrap();
    sentinel.wait().unwrap();
    std::fs::remove_file(path).unwrap();
    connection.unwrap();
    assert_eq!(counted, Ok(1));
    let error = refused.unwrap_err();
    println!("{error}");
    assert!(matches!(error, ConnectError::Credentials { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_says_nothing_or_what_is_wrong_is_passed_over() {
    let group = RedisSentinels::start(3, 1).unwrap();
    let script = Script::new(COUNT);
    let url = group.url();
    let open = || Connection::open(&url, Options::default());

    let mut passed = Vec::new();
    // Whichever is asked first.
    for sentinel in group.sentinels() {
        // It accepts connections, as the kernel does for it.
        sentinel.signal("STOP").unwrap();
        passed.push(found(&open().await.unwrap(), &script).await);
        sentinel.signal("CONT").unwrap();
    }
    let replica = group.servers()[1].port().to_string();
    for sentinel in group.sentinels() {
        sentinel.cli(&["SENTINEL", "REMOVE", "main"]).unwrap();
        passed.push(found(&open().await.unwrap(), &script).await);
        sentinel.cli(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &replica, "9"]).unwrap();
        passed.push(found(&open().await.unwrap(), &script).await);
        sentinel.cli(&["SENTINEL", "REMOVE", "main"]).unwrap();
        let primary = group.servers()[0].port().to_string();
        sentinel.cli(&["SENTINEL", "MONITOR", "main", "127.0.0.1", &primary, "2"]).unwrap();
    }
    assert_eq!(passed, [true; 9]);
}

async fn found(connection: &Connection, script: &Script) -> bool {
    let started = Instant::now();
    while let Err(error) = count(connection, script, "k").await {
        if started.elapsed() > Duration::from_secs(6) {
            println!("{error}");
            return false;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("found in {:?}", started.elapsed());
    true
}
