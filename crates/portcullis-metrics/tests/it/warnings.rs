//! Rare events that an operator should look at: each of the closed list.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response, StatusCode};
use portcullis_core::{Concurrency, FailureMode, Policy, Quota, StoreError, StoreErrorKind};
use portcullis_tower::{Global, Limit, RateLimitLayer, ResponseOutcome};
use portcullis_usage::UsageReader;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::failing::{Mode, Setup, respond, respond_with};
use crate::support::from_user;

fn plenty(name: &'static str) -> Policy {
    Policy::fixed_window(name, Quota::per_week(1_000))
}

#[tokio::test]
async fn each_warning_is_counted_exactly() {
    let setup = Setup::new();
    let layer = |limit: Limit| RateLimitLayer::new(Arc::clone(&setup.registry), limit.by(Global));

    let is_refused = |outcome: &ResponseOutcome<'_>| outcome.status() == 401;
    let full =
        layer(Limit::new(plenty("guesses")).charge_when(is_refused).charge_after().charge_after_at_most(0));
    for _ in 0..3 {
        assert_eq!(respond(&full, 0).await.status(), 429);
    }
    let panics = layer(Limit::new(plenty("judged")).charge_when(|_| panic!("a bug in a closure")));
    for _ in 0..2 {
        assert_eq!(respond(&panics, 0).await.status(), 200);
    }
    let nested = (layer(plenty("nested").into()), layer(plenty("nested").into()));
    let nested = nested
        .layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(String::new()))));
    for _ in 0..4 {
        assert_eq!(nested.clone().oneshot(from_user("ada")).await.unwrap().status(), 200);
    }
    let in_flight = layer(Concurrency::new("sockets", 1).into());
    for _ in 0..5 {
        drop(respond_with(&in_flight, 0, StatusCode::SWITCHING_PROTOCOLS).await);
    }
    let reads = layer(Limit::new(plenty("tokens")).reserve(5).read_usage(UsageReader::OPENAI));
    let reads = reads.layer(service_fn(async |_: Request<String>| {
        Response::builder().header("content-length", "0").body(String::new())
    }));
    for _ in 0..6 {
        assert_eq!(reads.clone().oneshot(from_user("ada")).await.unwrap().status(), 200);
    }
    // Once for each outage that a layer sees.
    let outage = StoreError::new(StoreErrorKind::Unavailable, "down").with_outage(Duration::from_secs(3_600));
    setup.set(Mode::Fails(outage));
    let open = || plenty("open").on_store_failure(FailureMode::OpenFor(Duration::from_secs(60)));
    for layer in [layer(open().into()), layer(open().into())] {
        for _ in 0..3 {
            assert_eq!(respond(&layer, 0).await.status(), 503);
        }
    }
    setup.counted(
        &["portcullis_warnings_total"],
        &[
            ("portcullis_warnings_total{policy=\"guesses\",warning=\"too_many_unsettled\"}", 3),
            ("portcullis_warnings_total{policy=\"judged\",warning=\"outcome_panicked\"}", 2),
            ("portcullis_warnings_total{policy=\"nested\",warning=\"charged_twice\"}", 4),
            ("portcullis_warnings_total{policy=\"sockets\",warning=\"upgrade_released\"}", 5),
            ("portcullis_warnings_total{policy=\"tokens\",warning=\"usage_lost\"}", 6),
            ("portcullis_warnings_total{policy=\"open\",warning=\"open_for_expired\"}", 2),
        ],
    );
}
