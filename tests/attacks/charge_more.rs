//! A stream that is kept open and charges for every piece.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::routing::get;
use portcullis::key::Global;
use portcullis::{Charge, Limiter, Policy, PolicyExt as _, Quota};
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_tests::per_half_century;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

const PIECES: u64 = 20_000;
/// The number of the server's tasks that charge at once.
const TASKS: u64 = 20;
const BUDGET: u64 = 1_000_000;

/// Sends a byte for every unit that it has charged, and sends the charge to `done` at the end.
async fn stream(State(done): State<mpsc::Sender<Charge>>, charge: Charge) -> Body {
    let (sender, pieces) = mpsc::channel(64);
    tokio::spawn(async move {
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let (charge, sender) = (charge.clone(), sender.clone());
            tasks.spawn(async move {
                for _ in 0..PIECES / TASKS {
                    assert!(charge.charge_more(1).await.unwrap().is_allowed());
                    sender.send(Ok::<_, Infallible>(Bytes::from_static(b"."))).await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        done.send(charge).await.unwrap();
    });
    Body::from_stream(ReceiverStream::new(pieces))
}

/// Refunds its charge, so that Redis loads the scripts that a refund needs under each policy.
async fn refund(charge: Charge) {
    charge.refund().await.unwrap();
}

/// A client keeps a stream open until it has all pieces. Then the server refunds what the client was charged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_of_20_000_charges_is_one_call_per_policy() {
    let redis = RedisServer::start().unwrap();
    let limiter = Limiter::redis(redis.url()).deadline(Duration::from_secs(10)).await.unwrap();
    let layer = limiter
        .layer(Policy::token_bucket("bucket", Quota::per_week(BUDGET)).by(Global))
        .with_charge()
        .and(Policy::fixed_window("window", per_half_century(BUDGET)));
    let (done, mut charges) = mpsc::channel(1);
    let app = Router::new()
        .route("/stream", get(stream))
        .route("/refund", get(refund))
        .layer(layer)
        .with_state(done);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app).into_future());
    assert!(portcullis_tests::get(&format!("{url}/refund")).await.status().is_success());
    let response = portcullis_tests::get(&format!("{url}/stream")).await;
    assert_eq!(response.body().len(), usize::try_from(PIECES).unwrap());
    let charge = within_a_minute("charge after the stream", charges.recv()).await.unwrap();

    let calls = redis.calls("evalsha").unwrap();
    charge.refund().await.unwrap();
    assert_eq!(redis.calls("evalsha").unwrap(), calls + 2);
    let used = |policy| BUDGET - charge.for_policy(policy).unwrap().decision().remaining();
    assert_eq!(used("window"), 0, "all charges are in one window");
    // In a bucket, only the last 64 charges are freed, and a unit flows back every 600 ms.
    let left = PIECES + 1 - 64;
    assert!((left - 200..=left).contains(&used("bucket")), "{}", used("bucket"));
}
