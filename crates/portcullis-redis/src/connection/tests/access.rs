//! Connections that the server refuses.

use std::time::{Duration, Instant};

use portcullis_servers::LEAST_RIGHTS;

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::transport::{CallError, ConnectError, Transport as _};

use super::scripts::{COUNT, count};
use super::server::{Log, Server};
use super::waiting::{patient, until};

async fn refusal(url: &str) -> ConnectError {
    let started = Instant::now();
    let error = Connection::open(url, patient()).await.expect_err("refused");
    println!("{error}");
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    assert!(!error.to_string().contains("pw"), "{error}");
    error
}

#[tokio::test]
async fn the_least_permissions_suffice() {
    let server = Server::start(&[]);
    let rules = [&["on", ">pw", "~portcullis:a*", "resetchannels", "-@all"], &LEAST_RIGHTS[..]].concat();
    server.cli(&[&["ACL", "SETUSER", "least"], &rules[..]].concat());
    let url = format!("redis://least:pw@127.0.0.1:{}", server.port);
    let connection = Connection::open(&url, patient()).await.unwrap();
    let script = Script::new(COUNT);
    assert_eq!(count(&connection, &script, "a").await, Ok(1));
    let error = count(&connection, &script, "other").await.unwrap_err();
    assert!(matches!(error, CallError::Denied(_)), "{error}");
    println!("{error}");
    println!("{}", server.cli(&["ACL", "LOG"]));
}

#[tokio::test]
async fn missing_permissions_are_named() {
    let server = Server::start(&[]);
    for missing in ["+evalsha", "+script|load", "+time"] {
        let rest = LEAST_RIGHTS.into_iter().filter(|rule| *rule != missing);
        let rules: Vec<_> =
            ["ACL", "SETUSER", "u", "reset", "on", ">pw", "~*", "-@all"].into_iter().chain(rest).collect();
        server.cli(&rules);
        let error = refusal(&format!("redis://u:pw@127.0.0.1:{}", server.port)).await;
        assert!(matches!(error, ConnectError::Permission { .. }), "{missing}: {error}");
        assert!(error.to_string().contains(missing.trim_start_matches('+')), "{missing}: {error}");
    }
}

#[tokio::test]
async fn a_user_that_cannot_load_scripts_learns_both_ways() {
    let server = Server::without_script_load();
    server.cli(&["ACL", "SETUSER", "portcullis", "-eval"]);
    let error = refusal(&server.url()).await;
    let ConnectError::Permission { reply, .. } = &error else { panic!("{error}") };
    assert!(reply.contains("'script|load'") && reply.contains("'eval'"), "{reply}");
    let error = error.to_string();
    assert!(error.contains("`+evalsha +script|load ") && error.contains("`+evalsha +eval`"), "{error}");
}

#[tokio::test]
async fn wrong_credentials_are_an_error() {
    let server = Server::start(&["--requirepass", "secret"]);
    let port = server.port;
    for user in ["", ":pw@", "nobody:pw@"] {
        let error = refusal(&format!("redis://{user}127.0.0.1:{port}")).await;
        assert!(matches!(error, ConnectError::Credentials { .. }), "{error}");
    }
    assert!(Connection::open(&format!("redis://:secret@127.0.0.1:{port}"), patient()).await.is_ok());
}

#[tokio::test]
async fn a_deleted_user_is_logged_once_per_outage() {
    let log = Log::capture();
    let server = Server::start(&[]);
    let user = [&["ACL", "SETUSER", "u", "reset", "on", ">pw", "~*", "-@all"], &LEAST_RIGHTS[..]].concat();
    server.cli(&user);
    let url = format!("redis://u:pw@127.0.0.1:{}", server.port);
    let connection = Connection::open(&url, patient()).await.unwrap();
    for lines in [3, 6] {
        // The server closes the user's connections at once.
        server.cli(&["ACL", "DELUSER", "u"]);
        until(|| log.lines().len() == lines - 1).await;
        // Time for a few more attempts, and for the next line about an outage.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        server.cli(&user);
        until(|| connection.availability(None).is_connected).await;
        let log = log.lines();
        assert_eq!(log.len(), lines, "{log:#?}");
        let [gone, refused, back] = &log[lines - 3..] else { panic!("three lines") };
        assert!(gone.contains("WARN") && gone.contains("redis cannot answer code=PC304 "), "{gone}");
        assert!(
            refused.contains("ERROR") && refused.contains("refused the credentials: WRONGPASS"),
            "{refused}"
        );
        assert!(refused.contains(" code=PC305 "), "{refused}");
        assert!(back.contains("INFO") && back.contains("redis answers again"), "{back}");
        assert!(!log.concat().contains("pw"), "{log:#?}");
    }
}

#[tokio::test]
async fn a_server_without_lua_is_an_error() {
    for commands in [&["EVALSHA"][..], &["SCRIPT", "EVAL"]] {
        let renamed: Vec<_> =
            commands.iter().flat_map(|command| ["--rename-command", *command, ""]).collect();
        let server = Server::start(&renamed);
        let error = refusal(&server.url()).await;
        assert!(matches!(error, ConnectError::Scripting { .. }), "{error}");
        let ConnectError::Scripting { reply, .. } = &error else { unreachable!() };
        assert!(commands.iter().all(|command| reply.contains(&format!("'{command}'"))), "{reply}");
    }
}

#[tokio::test]
async fn a_server_without_the_script_command_works() {
    let log = Log::capture();
    let mut server = Server::start(&["--rename-command", "SCRIPT", ""]);
    let connection = Connection::open(&server.admin_url(), patient()).await.unwrap();
    let script = Script::new(COUNT);
    for n in 1..=10 {
        assert_eq!(count(&connection, &script, "a").await, Ok(n));
    }
    // One for the check at the start, and one for the script.
    assert_eq!((server.calls("eval"), server.calls("evalsha")), (2, 11));
    server.kill();
    until(|| !connection.availability(None).is_connected).await;
    server.run();
    until(|| connection.availability(None).is_connected).await;
    assert_eq!(count(&connection, &script, "a").await, Ok(1));
    assert_eq!(server.calls("eval"), 1);
    let refused = log.lines().into_iter().filter(|line| line.contains("SCRIPT LOAD")).collect::<Vec<_>>();
    let [line] = &refused[..] else { panic!("{:#?}", log.lines()) };
    assert!(line.contains("INFO") && line.contains("unknown command") && line.contains("EVAL"), "{line}");
}

#[tokio::test]
async fn a_server_with_its_lua_module_unloaded_is_an_error() {
    let server = Server::start(&["--enable-module-command", "yes"]);
    // Lua is a module only in Valkey.
    let is_gone = server.cli(&["MODULE", "UNLOAD", "lua"]).trim() == "OK";
    let opened = Connection::open(&server.url(), patient()).await;
    assert_eq!(opened.is_err(), is_gone);
    if let Err(error) = opened {
        assert!(matches!(error, ConnectError::Scripting { .. }), "{error}");
        assert!(error.to_string().contains("load the lua module"), "{error}");
    }
}

#[tokio::test]
async fn a_cluster_url_for_a_single_server_is_an_error() {
    let server = Server::start(&[]);
    let error = refusal(&format!("redis-cluster://127.0.0.1:{}", server.port)).await;
    assert!(matches!(error, ConnectError::NotCluster { .. }), "{error}");
}

#[tokio::test]
async fn a_sentinel_url_for_a_server_is_an_error() {
    let server = Server::start(&[]);
    let url = format!("redis-sentinel://127.0.0.1:{}?sentinelServiceName=main", server.port);
    let error = refusal(&url).await;
    assert!(matches!(error, ConnectError::NotSentinel { .. }), "{error}");
}

#[tokio::test]
async fn bad_urls_are_errors_at_once() {
    for url in ["http://u:pw@localhost", "redis://u:pw@host:port", "localhost:6379", "rediss-sentinel://a"] {
        refusal(url).await;
    }
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_an_error() {
    let server = Server::start(&[]);
    let error = refusal(&format!("{}/99", server.admin_url())).await;
    assert!(matches!(error, ConnectError::Database { .. }), "{error}");
}

#[tokio::test]
async fn a_server_of_another_protocol_is_an_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            use tokio::io::AsyncWriteExt as _;
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    });
    let error = refusal(&format!("redis://127.0.0.1:{port}")).await;
    assert!(matches!(error, ConnectError::Protocol { .. }), "{error}");
    server.abort();
}
