//! Headers that determine the form of a rejection.

mod accept;
mod grpc_content_type;

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use portcullis_core::{Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer, Registry};
use tokio::runtime::{Builder, Runtime};
use tower::{Layer as _, ServiceExt as _, service_fn};

/// Checks that a rejection has the format that a model of RFC 9110, section 12.5.1, selects, for the lines of `Accept` in the
/// input.
pub fn accept(input: &[u8]) {
    accept::check(input);
}

/// Checks that a rejection is gRPC exactly for a POST whose first `Content-Type` is one of gRPC, and that its own content type
/// has no byte of the request. The first byte of the input selects the method, and the others are the lines of `Content-Type`.
pub fn grpc_content_type(input: &[u8]) {
    grpc_content_type::check(input);
}

/// The lines of an input that HTTP allows as the value of a header.
fn values(input: &[u8]) -> Vec<HeaderValue> {
    input.split(|byte| *byte == b'\n').filter_map(|line| HeaderValue::from_bytes(line).ok()).collect()
}

/// The response to a request that is rejected because its cost can never fit. Its body is one for a page.
fn rejection(method: Method, name: &HeaderName, values: &[HeaderValue]) -> Response<Bytes> {
    thread_local! {
        static LAYER: RateLimitLayer = {
            let registry = Registry::new(Arc::new(MemoryStore::new()), Secret::published());
            let policy = Policy::gcra("one", Quota::per_hour(1));
            RateLimitLayer::new(Arc::new(registry), policy.by(Global).cost(2))
        };
        static RUNTIME: Runtime = Builder::new_current_thread().build().expect("a runtime without I/O can be made");
    }

    let mut request = Request::new(String::new());
    *request.method_mut() = method;
    for value in values {
        request.headers_mut().append(name, value.clone());
    }
    let inner = service_fn(async |_: Request<String>| -> Result<Response<String>, Infallible> {
        unreachable!("every request is rejected")
    });
    let service = LAYER.with(|layer| layer.layer(inner));
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let (parts, body) =
                service.oneshot(request).await.unwrap_or_else(|never| match never {}).into_parts();
            let Ok(body) = body.collect().await;
            Response::from_parts(parts, body.to_bytes())
        })
    })
}
