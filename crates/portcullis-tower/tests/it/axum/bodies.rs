//! Layers whose responses have the body of Axum, beside the same layers whose bodies a router boxes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use bytes::Bytes;
use http::{HeaderMap, Method};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt as _;
use portcullis_core::{Concurrency, Policy, Quota};
use portcullis_tower::{
    Event, Global, Limit, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Registry, Usage,
};
use tower::ServiceExt as _;

use crate::support::registry;

/// A body of three chunks, each of which uses 10 units, and trailers.
struct Streaming {
    usage: Option<Usage>,
    frames: VecDeque<Frame<Bytes>>,
}

impl http_body::Body for Streaming {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = self.frames.pop_front();
        if let Some(usage) = self.usage.as_ref().filter(|_| frame.as_ref().is_some_and(Frame::is_data)) {
            usage.add(10);
        }
        Poll::Ready(frame.map(Ok))
    }
}

async fn stream(mut request: Request) -> Response {
    let is_grpc = request.headers().get("content-type").is_some_and(|value| value == "application/grpc");
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "5".parse().unwrap());
    let chunks = ["one", "two", "three"].map(|chunk| Frame::data(Bytes::from_static(chunk.as_bytes())));
    let frames = chunks.into_iter().chain([Frame::trailers(trailers)]).collect();
    let mut response =
        Response::new(Body::new(Streaming { usage: request.extensions_mut().remove(), frames }));
    let content_type = if is_grpc { "application/grpc" } else { "text/plain" };
    response.headers_mut().insert("content-type", content_type.parse().unwrap());
    response
}

fn layer(registry: &Arc<Registry>, limit: Limit) -> RateLimitLayer {
    RateLimitLayer::new(Arc::clone(registry), limit)
}

type Setting = fn(&Arc<Registry>) -> RateLimitLayer;

/// Two layers that leave bodies as they are, and one for each reason to observe their ends.
const SETTINGS: [(&str, Setting); 5] = [
    ("plain", |registry| layer(registry, Policy::fixed_window("all", Quota::per_day(2)).by(Global))),
    ("no headers", |registry| {
        let all = Policy::fixed_window("all", Quota::per_day(2));
        layer(registry, all.by(Global)).headers(RateLimitHeaders::NONE)
    }),
    ("reserved", |registry| {
        layer(registry, Policy::fixed_window("tokens", Quota::per_day(150)).by(Global).reserve(100))
    }),
    ("in flight", |registry| layer(registry, Concurrency::new("exports", 1).by(Global))),
    ("by outcome", |registry| {
        let failed = Policy::fixed_window("failed", Quota::per_day(2));
        layer(registry, failed.by(Global).charge_when(|outcome| outcome.grpc_status() == Some(5)))
    }),
];

fn requests() -> Vec<Request> {
    let of = |method: Method, headers: &[(&str, &str)]| {
        let request = Request::builder().method(method).uri("/");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(Body::empty()).unwrap()
    };
    vec![
        of(Method::GET, &[]),
        of(Method::POST, &[("content-type", "application/grpc")]),
        of(Method::HEAD, &[]),
        of(Method::GET, &[("accept", "application/json")]),
        of(Method::POST, &[("content-type", "application/grpc")]),
    ]
}

/// How much of a body a client takes.
#[derive(Clone, Copy, Debug)]
enum Taken {
    Whole,
    OneFrame,
    Nothing,
}

/// All that is seen of the answers: heads, bodies, and events in between.
async fn answers(setting: Setting, is_for_axum: bool, taken: Taken) -> Vec<String> {
    let registry = registry();
    let seen = Arc::<Mutex<Vec<String>>>::default();
    let list = Arc::clone(&seen);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        list.lock().unwrap().push(format!("{:?}", event.kind));
    }));
    let see = |what: String| seen.lock().unwrap().push(what);
    let (layer, app) = (setting(&registry), Router::new().route("/", any(stream)));
    let app = if is_for_axum { app.layer(layer.for_axum()) } else { app.layer(layer) };
    let mut held = None;
    for request in requests() {
        let (parts, mut body) = app.clone().oneshot(request).await.unwrap().into_parts();
        see(format!("{} {:?} {:?} {}", parts.status, parts.headers, body.size_hint(), body.is_end_stream()));
        match taken {
            Taken::Whole => {
                let collected = body.collect().await.unwrap();
                see(format!("{:?} {:?}", collected.trailers().cloned(), collected.to_bytes()));
            }
            Taken::OneFrame => see(format!("{:?}", body.frame().await.map(Result::unwrap))),
            // The first stays in flight to the end.
            Taken::Nothing => held = held.or(Some(body)),
        }
        assert_eq!(registry.drain(Duration::from_secs(5)).await.left, 0);
    }
    drop(held);
    assert_eq!(registry.drain(Duration::from_secs(5)).await.left, 0);
    std::mem::take(&mut seen.lock().unwrap())
}

#[tokio::test]
async fn both_bodies_are_answered_and_observed_alike() {
    for (name, setting) in SETTINGS {
        for taken in [Taken::Whole, Taken::OneFrame, Taken::Nothing] {
            let boxed = answers(setting, false, taken).await;
            assert_eq!(boxed, answers(setting, true, taken).await, "{name} {taken:?}");
            let has = |status: &str| boxed.iter().any(|seen| seen.starts_with(status));
            let rejects =
                matches!((name, taken), ("plain" | "no headers", _) | ("in flight", Taken::Nothing));
            assert!(has("200") && (has("429") || !rejects), "{name} {taken:?}");
        }
    }
}

#[tokio::test]
async fn the_end_of_a_body_for_axum_is_observed() {
    for (name, taken, expected) in [
        ("reserved", Taken::Whole, "Refunded"),
        ("in flight", Taken::Whole, "PermitReleased"),
        ("in flight", Taken::OneFrame, "PermitReleased"),
        ("by outcome", Taken::Whole, "Refunded"),
    ] {
        let (_, setting) = SETTINGS.into_iter().find(|(known, _)| *known == name).unwrap();
        let seen = answers(setting, true, taken).await;
        assert!(seen.iter().any(|seen| seen.starts_with(expected)), "{name} {taken:?}: {seen:#?}");
    }
}
