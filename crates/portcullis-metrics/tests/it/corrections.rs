//! Charges, refunds and permits: what is charged in the end is the difference of two counters.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use portcullis_core::{Concurrency, Policy, Quota};
use portcullis_tower::{Charge, Global, KeyError, Lookup, PolicyExt as _, RateLimitLayer};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{Recorded, from_user, send};

const UNITS: [&str; 2] = ["portcullis_charged_units_total", "portcullis_refunded_units_total"];

#[tokio::test]
async fn refunds_and_later_charges_are_counted_apart() {
    let (registry, recorded) = Recorded::registry(100);
    let policy = Policy::fixed_window("exports", Quota::per_week(100));
    let layer = RateLimitLayer::new(registry, policy.by(Global).cost(10)).with_charge();
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let charge = request.extensions().get::<Charge>().unwrap();
        let _ = charge.charge_more(7).await.unwrap();
        assert!(!charge.charge_more(1_000).await.unwrap().is_allowed());
        charge.settle(4).await.unwrap();
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let response = service.oneshot(Request::new(String::new())).await.unwrap();
    assert_eq!(response.status(), 200);
    let counted = recorded.nonzero(&[UNITS[0], UNITS[1], "portcullis_denied_charges_total"]);
    let expected = [
        ("portcullis_charged_units_total{policy=\"exports\"}", 17),
        ("portcullis_denied_charges_total{policy=\"exports\"}", 1),
        ("portcullis_refunded_units_total{policy=\"exports\"}", 13),
    ];
    assert_eq!(counted, expected.map(|(series, value)| (series.to_owned(), value)).into());
}

#[tokio::test]
async fn a_request_that_a_look_up_rejects_is_charged_and_refunded() {
    let (registry, recorded) = Recorded::registry(100);
    let layer = RateLimitLayer::new(registry, Policy::fixed_window("all", Quota::per_week(100)).by(Global))
        .and(
            Policy::fixed_window("user", Quota::per_week(100))
                .by_async(|_: &http::request::Parts| async { Err::<Lookup, _>(KeyError::server("no")) }),
        );
    assert_eq!(send(&layer, from_user("ada")).await, 503);
    let counted = recorded.nonzero(&UNITS);
    let expected = UNITS.map(|name| (format!("{name}{{policy=\"all\"}}"), 1));
    assert_eq!(counted, expected.into());
}

#[tokio::test]
async fn permits_of_requests_in_flight_are_counted_by_what_happens() {
    let (registry, recorded) = Recorded::registry(100);
    let layer = RateLimitLayer::new(
        Arc::clone(&registry),
        Policy::fixed_window("all", Quota::per_week(100)).by(Global),
    )
    .and(Concurrency::new("busy", 1));
    let service = layer.layer(service_fn(async |_: Request<String>| {
        Ok::<_, Infallible>(Response::new(String::from("body")))
    }));
    let held = service.clone().oneshot(Request::new(String::new())).await.unwrap();
    let rejected = service.oneshot(Request::new(String::new())).await.unwrap();
    assert_eq!((held.status().as_u16(), rejected.status().as_u16()), (200, 429));
    let permit = |event| format!("portcullis_permits_total{{policy=\"busy\",event=\"{event}\"}}");
    assert_eq!(recorded.nonzero(&["portcullis_permits_total"]), [(permit("acquired"), 1)].into());
    drop(held);
    let _ = registry.drain(std::time::Duration::from_secs(60)).await;
    let both = [(permit("acquired"), 1), (permit("released"), 1)];
    assert_eq!(recorded.nonzero(&["portcullis_permits_total"]), both.into());
}
