//! Stores on clients of the user, and on several connections.

use std::time::{Duration, Instant};

use ::fred::clients::{Client, Pool};
use ::fred::interfaces::ClientLike;
use ::fred::types::config::{Config, ReconnectPolicy};
use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Anchor, FixedWindow, Policy, PolicyName, Quota, Strategy};
use tokio::time::timeout;

use crate::RedisStore;
use crate::connection::tests::server::Server;
use crate::connection::tests::waiting::until;
use crate::store::tests::{check, key, patient};

/// Its window begins with the first request, so that it does not end during a test.
fn three() -> Policy {
    let window = FixedWindow::new(Quota::per_hour(3)).unwrap().anchored(Anchor::FirstRequest);
    Policy::new(PolicyName::literal("three"), Strategy::FixedWindow(window))
}

async fn decisions(store: &RedisStore) -> [bool; 4] {
    let mut allowed = [false; 4];
    for allowed in &mut allowed {
        *allowed = check(store, &three(), 1).await.is_allowed();
    }
    allowed
}

/// The server's lines about the connections of the store's user.
fn connections(server: &Server) -> Vec<String> {
    let list = server.cli(&["CLIENT", "LIST", "TYPE", "NORMAL"]);
    list.lines().filter(|line| line.contains(" user=portcullis ")).map(str::to_owned).collect()
}

/// The number of connections whose latest command was a decision.
fn deciding(server: &Server) -> usize {
    connections(server).iter().filter(|line| line.contains(" cmd=evalsha ")).count()
}

fn config(server: &Server) -> Config {
    // The client sends PING after the store was dropped.
    server.cli(&["ACL", "SETUSER", "portcullis", "+ping"]);
    Config::from_url(&server.url()).unwrap()
}

/// Whether a client still answers. A command on a closed client never ends, hence the timeout.
async fn answers(client: &Client) -> bool {
    let pong = timeout(Duration::from_secs(10), client.ping::<String>(None)).await;
    pong.is_ok_and(|pong| pong.is_ok_and(|pong| pong == "PONG"))
}

#[tokio::test]
async fn a_store_on_a_client_decides_and_keeps_it_connected() {
    let server = Server::start(&[]);
    let client = Client::new(config(&server), None, None, Some(ReconnectPolicy::default()));
    let _task = client.init().await.unwrap();
    let store = RedisStore::with_client(client.clone()).deadline(Duration::from_secs(5));
    let store = store.connect().await.unwrap();
    assert_eq!(decisions(&store).await, [true, true, true, false]);
    assert_eq!((connections(&server).len(), deciding(&server)), (1, 1));
    let before = connection_ids(&server);
    drop(store);
    for _ in 0..3 {
        assert!(answers(&client).await);
    }
    assert_eq!(connection_ids(&server), before, "it is the same connection");
}

#[tokio::test]
async fn a_store_on_a_pool_uses_all_clients_and_keeps_them_connected() {
    let server = Server::start(&[]);
    let pool = Pool::new(config(&server), None, None, Some(ReconnectPolicy::default()), 2).unwrap();
    let _task = pool.init().await.unwrap();
    let store = RedisStore::with_pool(pool.clone()).deadline(Duration::from_secs(5));
    let store = store.connect().await.unwrap();
    assert_eq!(decisions(&store).await, [true, true, true, false]);
    assert_eq!((connections(&server).len(), deciding(&server)), (2, 2));
    let before = connection_ids(&server);
    drop(store);
    for client in pool.clients() {
        assert!(answers(client).await);
    }
    assert_eq!(connection_ids(&server), before, "they are the same connections");
}

#[tokio::test]
async fn a_store_makes_its_connections_and_replaces_a_lost_one() {
    let server = Server::start(&[]);
    let store = patient(server.url()).connections(3).connect().await.unwrap();
    assert_eq!(decisions(&store).await, [true, true, true, false]);
    let before = connection_ids(&server);
    assert_eq!((before.len(), deciding(&server)), (3, 3));

    store.reset(&three(), key(&["ada"])).await.unwrap();
    let mut allowed = Vec::new();
    for killed in before.iter().map(Some).chain([None]) {
        if let Some(killed) = killed {
            assert_eq!(server.cli(&["CLIENT", "KILL", "ID", killed]), "1");
        }
        let started = Instant::now();
        // The server does not receive commands on a connection that it has closed, so they charge nothing.
        let outcome = loop {
            match store.check(Checks::one(three(), key(&["ada"]), 1)).await {
                Ok(outcome) => break outcome,
                Err(error) => assert!(started.elapsed() < Duration::from_secs(20), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        allowed.push(outcome.is_allowed());
        until(|| connections(&server).len() >= 3).await;
    }
    assert_eq!(allowed, [true, true, true, false]);
    let after = connection_ids(&server);
    assert!(after.len() == 3 && after.iter().all(|id| !before.contains(id)), "{before:?} {after:?}");
}

fn connection_ids(server: &Server) -> Vec<String> {
    let id = |line: &String| line.split(' ').find_map(|word| word.strip_prefix("id=")).unwrap().to_owned();
    connections(server).iter().map(id).collect()
}
