//! Figures while a server does not answer.

use std::time::{Duration, Instant};

use portcullis_core::store::{CallOutcome, Store as _};

use super::{Calls, Errors, Figures, RedisStore, Server, is_allowed, patient, user};
use crate::connection::tests::waiting::until;

/// Long, because a call that is sent with less than half of it left opens no breaker.
const DEADLINE: Duration = Duration::from_secs(2);

async fn open(server: &Server) -> RedisStore {
    patient(server.url()).deadline(DEADLINE).connect().await.unwrap()
}

/// Makes checks until one is answered.
async fn recover(store: &RedisStore, errors: &mut Errors) {
    let started = Instant::now();
    loop {
        let answer = store.check(user(0)).await;
        if errors.count(answer) {
            return;
        }
        assert!(started.elapsed() < Duration::from_secs(30), "it does not recover");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a counter of the store has grown.
async fn grows(store: &RedisStore, name: &str) {
    let before = Figures::of(store).0[name];
    until(|| Figures::of(store).0[name] > before).await;
}

/// Asserts that no time is counted as an outage any more.
async fn is_steady(store: &RedisStore) {
    let before = Figures::of(store).get(["degraded", "breaker_opens", "reconnects"]);
    assert!(is_allowed(&store.check(user(0)).await));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(Figures::of(store).get(["degraded", "breaker_opens", "reconnects"]), before);
}

#[tokio::test]
async fn a_lost_connection_is_degraded_until_it_is_renewed() {
    let mut server = Server::start(&[]);
    let (store, mut errors) = (open(&server).await, Errors::default());
    recover(&store, &mut errors).await;
    is_steady(&store).await;
    let scripts = Figures::of(&store).0["scripts_loaded"];

    server.kill();
    until(|| !store.is_connected()).await;
    for _ in 0..10 {
        assert!(!errors.count(store.check(user(0)).await));
    }
    let figures = Figures::of(&store);
    assert_eq!(figures.get(["connections", "connections_down", "reconnects"]), [0, 1, 0]);
    assert_eq!(figures.errors(), errors.all());
    grows(&store, "degraded").await;

    server.run();
    recover(&store, &mut errors).await;
    let figures = Figures::of(&store);
    assert_eq!(figures.get(["connections", "connections_down", "reconnects"]), [1, 0, 1]);
    assert!(figures.0["scripts_loaded"] > scripts, "the new server had no script");
    assert_eq!(figures.errors(), errors.all());
    is_steady(&store).await;
}

#[tokio::test]
async fn a_silent_server_opens_the_breaker_until_it_replies() {
    let server = Server::start(&[]);
    let (store, mut errors) = (open(&server).await, Errors::default());
    recover(&store, &mut errors).await;
    let (calls, before) = (Calls::observe(&store), Figures::of(&store));
    server.signal("STOP");
    assert!(!errors.count(store.check(user(0)).await));
    let figures = Figures::of(&store);
    assert_eq!(figures.get(["breaker_open", "breaker_opens", "breaker_closed"]), [1, 1, 0]);
    assert_eq!(figures.errors(), [("timed_out", 1)]);
    // The outage began when the call was sent.
    let degraded = figures.0["degraded"] - before.0["degraded"];
    assert!(u128::from(degraded) >= DEADLINE.as_micros(), "{degraded}");
    let observed = calls.take();
    let [call] = observed[..] else { panic!("{observed:?}") };
    assert_eq!((call.decisions, call.outcome), (1, CallOutcome::Failed("timed_out")));
    assert!(call.latency >= DEADLINE, "{call:?}");
    grows(&store, "degraded").await;
    until(|| Figures::of(&store).0["breaker_half_open"] == 1).await;
    // The call without a reply, and no probe of the connection itself.
    assert_eq!(Figures::of(&store).0["calls"], before.0["calls"] + 1);

    server.signal("CONT");
    recover(&store, &mut errors).await;
    let figures = Figures::of(&store);
    assert_eq!(figures.get(["breaker_open", "breaker_half_open", "breaker_closed"]), [0, 0, 1]);
    assert_eq!(figures.errors(), errors.all());
    is_steady(&store).await;
}
