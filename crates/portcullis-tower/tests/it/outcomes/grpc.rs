//! gRPC, whose status is in the trailers or in the headers.

use std::time::Duration;

use http_body_util::BodyExt as _;
use portcullis_tower::Usage;
use tower::Service as _;

use super::*;
use crate::steps::{Step, Steps};

fn is_unauthenticated(outcome: &ResponseOutcome<'_>) -> bool {
    outcome.grpc_status() == Some(16)
}

/// A body that ends after these frames.
fn body(frames: &[Step]) -> Steps {
    Steps::new(&[frames, &[Step::End]].concat())
}

type Call = portcullis_tower::ResponseBody<Steps>;

async fn call(layer: &RateLimitLayer, head: &[(&str, &str)], status: u16, body: Steps) -> Response<Call> {
    let mut response = Response::builder().status(status).header("content-type", "application/grpc");
    for (name, value) in head {
        response = response.header(*name, *value);
    }
    let response = response.body(body).unwrap();
    let response = Arc::new(Mutex::new(Some(response)));
    let mut service = layer.layer(service_fn(move |_: Request<String>| {
        let response = response.lock().unwrap().take().unwrap();
        async { Ok::<_, Infallible>(response) }
    }));
    service.call(request(200)).await.unwrap()
}

#[tokio::test]
async fn a_call_is_judged_by_the_status_in_its_trailers() {
    for mode in [Mode::Ready, Mode::Later] {
        for (charges_after, at_head) in [(false, 8), (true, 9)] {
            for (status, expected) in
                [(Some("0"), 9), (Some("16"), 8), (Some("5"), 9), (None, 8), (Some("malformed"), 9)]
            {
                let store = Arc::<TestStore>::default();
                store.set(mode);
                let registry = registry_of(store);
                let limit = limit_of(9).charge_when(is_unauthenticated);
                let limit = if charges_after { limit.charge_after() } else { limit };
                let layer = layer(&registry, limit);
                let response = call(&layer, &[], 200, body(&[Step::Data, Step::Trailers(status)])).await;
                assert_eq!(remaining(&response), at_head, "the headers come before the outcome");
                assert_eq!(left(&registry, 9).await, at_head);
                let collected = response.into_body().collect().await.unwrap();
                assert!(collected.trailers().is_some());
                eventually(async || left(&registry, 9).await == expected).await;
            }
        }
    }
}

#[tokio::test]
async fn a_call_without_a_body_is_judged_by_its_head() {
    let registry = registry();
    let layer = layer(&registry, limit_of(9).charge_when(is_unauthenticated));
    for (head, status, expected) in [
        (&[("grpc-status", "0")][..], 200, 9),
        (&[("grpc-status", "16")], 200, 8),
        (&[("grpc-status", "7")], 200, 8),
        // A proxy has responded, not a gRPC server.
        (&[], 503, 8),
    ] {
        let response = call(&layer, head, status, body(&[])).await;
        assert_eq!(remaining(&response), expected);
    }
}

#[tokio::test]
async fn a_call_without_a_status_stays_charged() {
    for (frames, polls) in [
        (body(&[Step::Data]), 2),
        (body(&[Step::Data, Step::Error]), 2),
        (body(&[Step::Data, Step::Trailers(Some("0"))]), 1),
        (body(&[Step::Data, Step::Trailers(Some("0"))]), 0),
        (body(&[]), 1),
    ] {
        for (refunds, expected) in [(false, 8), (true, 9)] {
            let registry = registry();
            let limit = limit_of(9).charge_when(is_unauthenticated);
            let limit = if refunds { limit.refund_unanswered() } else { limit };
            let layer = layer(&registry, limit);
            let mut response = call(&layer, &[], 200, frames.clone()).await;
            for _ in 0..polls {
                drop(response.body_mut().frame().await);
            }
            drop(response);
            assert_eq!(left(&registry, 9).await, expected);
        }
    }
}

#[tokio::test]
async fn a_permit_is_held_until_the_trailers() {
    let registry = registry();
    let layer = layer(&registry, limit_of(9).charge_when(is_unauthenticated).charge_after_at_most(1));
    let response = call(&layer, &[], 200, body(&[Step::Data, Step::Trailers(Some("16"))])).await;
    let rejected = echo(&layer).oneshot(request(200)).await.unwrap();
    assert_eq!(rejected.status(), 429);
    drop(response.into_body().collect().await);
    assert_eq!(send(&echo(&layer), request(200)).await, (200, 8));
}

#[tokio::test]
async fn a_reservation_is_refunded_by_outcome() {
    for (outcome, charged) in [("0", 0), ("16", 7)] {
        let registry = registry();
        let layer = layer(&registry, limit_of(100).reserve(40).charge_when(is_unauthenticated));
        let service = layer.layer(service_fn(move |request: Request<String>| {
            request.extensions().get::<Usage>().unwrap().add(7);
            let body = body(&[Step::Data, Step::Trailers(Some(outcome))]);
            let response = Response::builder().header("content-type", "application/grpc").body(body);
            async { Ok::<_, Infallible>(response.unwrap()) }
        }));
        let response = service.oneshot(request(200)).await.unwrap();
        let _ = response.into_body().collect().await;
        assert_eq!(registry.drain(Duration::from_secs(1)).await.left, 0);
        assert_eq!(left(&registry, 100).await, 100 - charged, "status {outcome}");
    }
}
