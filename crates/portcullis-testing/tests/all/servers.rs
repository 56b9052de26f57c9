//! Servers that never outlive the test, however it ends.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portcullis_testing::{RedisCluster, RedisSentinels, RedisServer, ServerSetup};

/// What the next test runs in a process of its own.
#[test]
fn holds_a_server_until_it_is_killed() {
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
        std::thread::sleep(Duration::from_mins(1));
    }
}

#[test]
fn a_test_that_is_killed_leaves_no_server_behind() {
    let mut test = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "servers::holds_a_server_until_it_is_killed", "--nocapture"])
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
    let end = Instant::now() + Duration::from_secs(5);
    while ports.iter().any(listens) || directories.iter().any(|directory| directory.exists()) {
        assert!(Instant::now() < end, "a server of the ports {ports:?} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_that_cannot_start_says_so_and_leaves_nothing_behind() {
    let error = RedisServer::start_with(&["--no-such-option", "1"]).unwrap_err().to_string();
    assert!(error.contains("redis-server") && error.contains("cargo xtask test"), "{error}");
}

/// All tests run on Valkey where it takes the place of `redis-server`; this is how they know.
#[test]
fn the_program_that_is_asked_for_is_the_one_that_runs() {
    let server = RedisServer::start().unwrap();
    let is_valkey = server.cli(&["INFO", "server"]).unwrap().contains("server_name:valkey");
    let program = RedisServer::program().into_string().unwrap();
    assert_eq!(is_valkey, program.ends_with("valkey-server"), "{program}");
}

const HOLD: &str = "PORTCULLIS_TEST_HOLDS_A_SERVER";
const ANNOUNCED: &str = "port ";
const ALL: &str = "all";
