//! Servers that never outlive the test, however it ends.

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use portcullis_testing::RedisServer;

/// What the next test runs in a process of its own.
#[test]
fn holds_a_server_until_it_is_killed() {
    if std::env::var_os(HOLD).is_some() {
        let server = RedisServer::start().unwrap();
        println!("\n{ANNOUNCED}{}", server.port());
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
    let lines = BufReader::new(test.stdout.take().unwrap()).lines();
    let port = lines.map_while(Result::ok).find_map(|line| line.strip_prefix(ANNOUNCED)?.parse::<u16>().ok());
    let listens = || TcpStream::connect(("127.0.0.1", port.unwrap())).is_ok();
    assert!(listens());
    let directory = format!("portcullis-redis-{}-{}", test.id(), port.unwrap());
    let directory = std::env::temp_dir().join(directory);
    assert!(directory.exists());
    // SIGKILL: no destructor runs.
    test.kill().unwrap();
    test.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    while listens() || directory.exists() {
        assert!(Instant::now() < end, "the server on port {port:?} is still there");
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
