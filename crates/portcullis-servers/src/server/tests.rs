//! Tests of a single server.

use std::process::Command;

use super::*;

#[test]
fn a_restart_keeps_the_port_and_clears_the_memory() {
    let mut server = RedisServer::start().unwrap();
    server.cli(&["SET", "a", "1"]).unwrap();
    let (port, url) = (server.port(), server.url());
    server.restart().unwrap();
    assert_eq!((server.port(), server.url()), (port, url));
    assert_eq!(server.cli(&["DBSIZE"]).unwrap(), "0");
}

#[test]
fn a_persistent_server_keeps_its_data_after_a_kill() {
    let mut server = ServerSetup::new().persistent().server().unwrap();
    server.cli(&["SET", "a", "1", "PX", "100000"]).unwrap();
    server.kill().unwrap();
    assert!(!server.is_running());
    server.restart().unwrap();
    assert_eq!(server.cli(&["GET", "a"]).unwrap(), "1");
}

#[test]
fn a_paused_server_answers_after_it_continues() {
    let server = RedisServer::start().unwrap();
    server.signal("STOP").unwrap();
    server.signal("CONT").unwrap();
    assert_eq!(server.cli(&["PING"]).unwrap(), "PONG");
    assert!(server.calls("ping").unwrap() >= 1);
}

#[test]
fn the_environment_changes_with_a_restart() {
    // The log contains the local hour.
    let mut server = ServerSetup::new().environment("TZ", "AAA-6").server().unwrap();
    let hour = |server: &RedisServer| {
        let log = std::fs::read_to_string(server.directory.join("log")).unwrap();
        log.split(':').nth(1).unwrap().rsplit(' ').next().unwrap().parse::<u8>().unwrap()
    };
    let before = hour(&server);
    server.set_environment("TZ", Some("AAA-18"));
    server.restart().unwrap();
    let later = (hour(&server) + 24 - before) % 24;
    assert!((12..=13).contains(&later), "{later}");
}

#[test]
fn the_url_user_has_only_the_needed_rights() {
    let server = ServerSetup::new().namespace("shop").server().unwrap();
    let as_user = |words: &[&str]| {
        server.cli(&[&["--no-auth-warning", "--user", USER, "--pass", PASSWORD], words].concat()).unwrap()
    };
    assert_eq!(as_user(&["SET", "shop:a", "1"]), "OK");
    for refused in [&["SET", "portcullis:a", "1"][..], &["DEL", "shop:a"], &["PING"], &["ROLE"]] {
        assert!(as_user(refused).starts_with("NOPERM"), "{refused:?}");
    }
}

#[test]
fn the_url_user_has_eval_in_place_of_script_load() {
    let server = ServerSetup::new().without_script_load().server().unwrap();
    let as_user = |words: &[&str]| {
        server.cli(&[&["--no-auth-warning", "--user", USER, "--pass", PASSWORD], words].concat()).unwrap()
    };
    assert_eq!(as_user(&["EVAL", "return 1", "0"]), "1");
    assert!(as_user(&["SCRIPT", "LOAD", "return 1"]).starts_with("NOPERM"));
}

#[test]
fn a_tls_server_rejects_plain_connections() {
    if RedisServer::program() != "redis-server" {
        return;
    }
    let server = ServerSetup::new().tls().server().unwrap();
    assert!(server.url().starts_with("rediss://") && server.root_certificate().is_some());
    assert_eq!(server.cli(&["PING"]).unwrap(), "PONG");
    let plain = Command::new("redis-cli").args(["-p", &server.port().to_string(), "PING"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&plain.stdout).contains("PONG"));
}
