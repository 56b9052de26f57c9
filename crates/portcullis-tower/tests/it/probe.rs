//! A service that checks the contract of `tower::Service`, and requests for it.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use portcullis_core::Decision;
use portcullis_tower::{Charge, RateLimit, RateLimitLayer};
use tower::{Layer as _, Service, ServiceExt as _};

/// Panics when an instance is called that was not polled ready. Puts the decision it finds into its response.
#[derive(Default)]
pub(crate) struct Probe {
    ready: bool,
    calls: Arc<AtomicUsize>,
}

impl Probe {
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

impl Clone for Probe {
    fn clone(&self) -> Self {
        Self { ready: false, calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request<String>> for Probe {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<String>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "an instance was called that was not polled ready");
        self.calls.fetch_add(1, Ordering::Relaxed);
        let mut response = Response::new(Full::from("inner"));
        if let Some(charge) = request.extensions_mut().remove::<Charge>() {
            response.extensions_mut().insert(Seen(charge.decision()));
        }
        ready(Ok(response))
    }
}

/// The decision that the inner service saw.
#[derive(Clone)]
pub(crate) struct Seen(pub(crate) Decision);

/// The parts of a response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) seen: Option<Decision>,
    pub(crate) in_response: Option<Decision>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// All headers, sorted, one per entry.
    pub(crate) fn all_headers(&self) -> Vec<String> {
        let mut lines: Vec<_> =
            self.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }
}

/// A probe inside of the layer, which leaves it the charge, and a clone of the probe.
pub(crate) fn probed(layer: &RateLimitLayer) -> (RateLimit<Probe>, Probe) {
    let probe = Probe::default();
    (layer.clone().with_charge().layer(probe.clone()), probe)
}

/// Sends a request to a clone of the service.
pub(crate) async fn send(service: &RateLimit<Probe>, request: Request<String>) -> Answer {
    let (parts, body) = service.clone().oneshot(request).await.unwrap().into_parts();
    let text = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        seen: parts.extensions.get::<Seen>().map(|seen| seen.0.clone()),
        in_response: parts.extensions.get::<Decision>().cloned(),
        text: String::from_utf8(text.to_vec()).unwrap(),
    }
}

pub(crate) fn request(headers: &[(&str, &str)]) -> Request<String> {
    let mut request = Request::builder().uri("/");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(String::new()).unwrap()
}

pub(crate) fn grpc(headers: &[(&str, &str)]) -> Request<String> {
    let mut request = request(headers);
    *request.method_mut() = Method::POST;
    request.headers_mut().insert("content-type", "application/grpc+proto".parse().unwrap());
    request
}
