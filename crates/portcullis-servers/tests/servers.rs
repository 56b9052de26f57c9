//! Servers end with the test, however it ends.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portcullis_servers::{RedisCluster, RedisSentinels, RedisServer, ServerSetup};

/// The next test runs this one in a separate process.
#[test]
fn helper_holds_servers_until_killed() {
    if std::env::var_os(HOLD).is_some() {
        let server = ServerSetup::new().persistent().server().unwrap();
        let group = RedisSentinels::start(1, 1).unwrap();
        let cluster = RedisCluster::start(1, 0).unwrap();
        println!();
        for server in
            [&server].into_iter().chain(group.servers()).chain(group.sentinels()).chain(cluster.nodes())
        {
            println!("{ANNOUNCED}{}", server.port());
        }
        println!("{ALL}");
        std::thread::sleep(Duration::from_secs(60));
    }
}

#[test]
fn servers_end_when_their_test_is_killed() {
    let mut test = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_holds_servers_until_killed", "--nocapture"])
        .env(HOLD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(test.stdout.take().unwrap()).lines().map_while(Result::ok);
    let lines = lines.take_while(|line| line != ALL);
    let ports: Vec<u16> = lines.filter_map(|line| line.strip_prefix(ANNOUNCED)?.parse().ok()).collect();
    assert_eq!(ports.len(), 5);
    let directory = |port: &u16| {
        let name = format!("portcullis-redis-{}-{port}", test.id());
        std::env::temp_dir().join(name)
    };
    let directories: Vec<_> = ports.iter().map(directory).collect();
    let listens = |port: &u16| TcpStream::connect(("127.0.0.1", *port)).is_ok();
    assert!(ports.iter().all(listens) && directories.iter().all(|directory| directory.exists()));
    // SIGKILL: no destructor runs.
    test.kill().unwrap();
    test.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(30);
    while ports.iter().any(listens) || directories.iter().any(|directory| directory.exists()) {
        assert!(Instant::now() < end, "a server on one of the ports {ports:?} still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_failed_start_names_the_program_and_the_fix() {
    let error = RedisServer::start_with(&["--no-such-option", "1"]).unwrap_err().to_string();
    assert!(error.contains("redis-server") && error.contains("cargo xtask test"), "{error}");
}

/// `PORTCULLIS_REDIS_SERVER` makes all tests run on Valkey. This test proves that it takes effect.
#[test]
fn the_configured_server_program_runs() {
    let server = RedisServer::start().unwrap();
    let is_valkey = server.cli(&["INFO", "server"]).unwrap().contains("server_name:valkey");
    let program = RedisServer::program().into_string().unwrap();
    assert_eq!(is_valkey, program.ends_with("valkey-server"), "{program}");
}

const HOLD: &str = "PORTCULLIS_TEST_HOLDS_A_SERVER";
const ANNOUNCED: &str = "port ";
const ALL: &str = "all";
