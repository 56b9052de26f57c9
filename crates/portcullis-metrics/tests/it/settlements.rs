//! Settlements that are given up, by cause, and units beyond a debt.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use portcullis_core::StoreErrorKind::{Forbidden, Overtaken, TimedOut, Unavailable, Unsupported};
use portcullis_core::{Policy, Quota};
use portcullis_tower::{Charge, Global, Header, PolicyExt as _, RateLimitLayer};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::failing::{Mode, Setup, respond};
use crate::support::from_user;

const LOST: [&str; 2] = ["portcullis_settlements_lost_total", "portcullis_settlement_units_lost_total"];

/// A layer that reserves 10 units.
fn reserves(setup: &Setup, name: &'static str) -> RateLimitLayer {
    let policy = Policy::fixed_window(name, Quota::per_week(1_000_000));
    RateLimitLayer::new(Arc::clone(&setup.registry), policy.by(Global).reserve(10))
}

/// Reserves while the store answers, and settles in a mode of it.
async fn settle_in(setup: &Setup, layer: &RateLimitLayer, mode: Mode, used: u64) {
    setup.set(Mode::Ready);
    let response = respond(layer, used).await;
    setup.set(mode);
    drop(response);
}

#[tokio::test(start_paused = true)]
async fn lost_settlements_are_counted_by_cause_with_their_units() {
    let setup = Setup::new();
    let [unknown, refused, given_up] = ["unknown", "refused", "given up"].map(|name| reserves(&setup, name));
    for kind in [TimedOut, Overtaken, TimedOut] {
        settle_in(&setup, &unknown, Mode::fails(kind), 3).await;
    }
    for kind in [Forbidden, Unsupported] {
        settle_in(&setup, &refused, Mode::fails(kind), 25).await;
    }
    for _ in 0..4 {
        settle_in(&setup, &given_up, Mode::fails(Unavailable), 9).await;
    }
    // One that is repeated in time is not lost.
    assert!(setup.recorded.nonzero(&LOST).keys().all(|series| !series.contains("given up")));
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    settle_in(&setup, &given_up, Mode::fails(Unavailable), 9).await;
    setup.set(Mode::Ready);
    assert_eq!(setup.registry.drain(Duration::from_secs(60)).await.left, 0);
    setup.counted(
        &LOST,
        &[
            ("portcullis_settlements_lost_total{policy=\"unknown\",cause=\"unknown\"}", 3),
            ("portcullis_settlement_units_lost_total{policy=\"unknown\"}", 3 * 7),
            ("portcullis_settlements_lost_total{policy=\"refused\",cause=\"refused\"}", 2),
            ("portcullis_settlement_units_lost_total{policy=\"refused\"}", 2 * 15),
            ("portcullis_settlements_lost_total{policy=\"given up\",cause=\"given_up\"}", 4),
            ("portcullis_settlement_units_lost_total{policy=\"given up\"}", 4),
        ],
    );
}

#[tokio::test(start_paused = true)]
async fn settlements_beyond_the_queue_are_counted_as_lost() {
    let setup = Setup::new();
    let tokens = reserves(&setup, "tokens");
    for _ in 0..1_024 + 3 {
        settle_in(&setup, &tokens, Mode::fails(Unavailable), 8).await;
    }
    setup.counted(
        &LOST,
        &[
            ("portcullis_settlements_lost_total{policy=\"tokens\",cause=\"queue_full\"}", 3),
            ("portcullis_settlement_units_lost_total{policy=\"tokens\"}", 3 * 2),
        ],
    );
}

#[test]
fn settlements_without_a_runtime_are_counted_as_lost() {
    let setup = Setup::new();
    let tokens = reserves(&setup, "tokens");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for mode in [Mode::Later, Mode::Ready, Mode::Later] {
        setup.set(Mode::Ready);
        let response = runtime.block_on(respond(&tokens, 6));
        setup.set(mode);
        drop(response);
    }
    setup.counted(
        &LOST,
        &[
            ("portcullis_settlements_lost_total{policy=\"tokens\",cause=\"no_runtime\"}", 2),
            ("portcullis_settlement_units_lost_total{policy=\"tokens\"}", 2 * 4),
        ],
    );
}

#[tokio::test]
async fn units_beyond_the_debt_are_counted() {
    let setup = Setup::new();
    let policy = |name| Policy::fixed_window(name, Quota::per_week(10));
    let layer =
        RateLimitLayer::new(Arc::clone(&setup.registry), policy("handlers").by(Header::named("x-user")))
            .with_charge();
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let used = request.headers()["x-used"].to_str().unwrap().parse().unwrap();
        request.extensions().get::<Charge>().unwrap().settle(used).await.unwrap();
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    // The debt of each key is at most another 10 units.
    for (user, used) in [("ada", "23"), ("bob", "20"), ("eve", "27")] {
        let mut request = from_user(user);
        request.headers_mut().insert("x-used", used.parse().unwrap());
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), 200);
    }
    let bodies = policy("bodies").by(Global).reserve(4);
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), bodies);
    settle_in(&setup, &layer, Mode::Ready, 25).await;
    setup.counted(
        &["portcullis_uncharged_units_total", "portcullis_charged_units_total"],
        &[
            ("portcullis_charged_units_total{policy=\"bodies\"}", 20),
            ("portcullis_charged_units_total{policy=\"handlers\"}", 3 * 20),
            ("portcullis_uncharged_units_total{policy=\"bodies\"}", 5),
            ("portcullis_uncharged_units_total{policy=\"handlers\"}", 3 + 7),
        ],
    );
}
