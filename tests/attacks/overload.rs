//! A flood that a store cannot keep up with, in every failure mode.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use axum::{Router, routing};
use portcullis::store::{MemoryStore, StoreErrorKind, StoreFuture};
use portcullis::{ClientIp, FailureMode, Limiter, Policy, PolicyExt as _, Secret, StoreError};
use portcullis_tests::{AroundStore, per_half_century};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::raw::{count, get, pipelined, serve};

const LIMIT: usize = 10;

/// Sends 2 000 requests over 20 connections. Returns their statuses, and the number of requests handled.
async fn flood(failure: FailureMode) -> (Vec<u16>, usize) {
    // Makes a few slow checks at a time, and rejects the rest as overload.
    let permits = Arc::new(Semaphore::new(2));
    let store = AroundStore::new(MemoryStore::new(), move |decide| {
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            let error = StoreError::new(StoreErrorKind::Overloaded, "too many calls wait");
            return StoreFuture::ready(Err(error));
        };
        let answer = decide();
        StoreFuture::boxed(async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            drop(permit);
            answer.await
        })
    });
    let policy = Policy::fixed_window("address", per_half_century(LIMIT.try_into().unwrap()));
    let limiter = Limiter::new(store, Secret::published());
    let layer = limiter.layer(policy.on_store_failure(failure).by(ClientIp::peer()));
    let calls = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&calls);
    let handler = async move || {
        count.fetch_add(1, Relaxed);
    };
    let server: SocketAddr = serve(Router::new().route("/", routing::get(handler)).route_layer(layer)).await;
    let mut connections = JoinSet::new();
    for _ in 0..20 {
        connections.spawn(pipelined(66, server, (0..100).map(|_| get(""))));
    }
    (connections.join_all().await.concat(), calls.load(Relaxed))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_holds_in_every_mode_when_the_store_is_overloaded() {
    for failure in [
        FailureMode::default(),
        FailureMode::Open,
        FailureMode::OpenFor(Duration::from_secs(2)),
        FailureMode::local(4),
        FailureMode::Closed,
    ] {
        let (answers, calls) = flood(failure).await;
        assert_eq!((count(&answers, 200), calls), (LIMIT, LIMIT), "{failure}");
        let (limited, overloaded) = (count(&answers, 429), count(&answers, 503));
        assert_eq!(limited + overloaded, 2_000 - LIMIT, "{failure}");
        assert!(overloaded > 0, "{failure}");
    }
}
