//! The least that a layer with an exact decision can do.
//!
//! It has no options, events, rejections or failure modes, and its handlers learn nothing of the decision. What it adds to a request is
//! what no layer with this store can go below.

use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Request, Response};
use portcullis::store::{MemoryStore, Store as _};
use portcullis::{Policy, Secret};
use tower::layer::util::Stack;
use tower::util::MapResponseLayer;
use tower::{Layer, Service};

use super::apps::{Limits, X_USER};

/// Makes the key of a request and asks the store.
#[derive(Clone, Debug)]
pub(super) struct MinimalLayer(Arc<Limit>);

#[derive(Debug)]
struct Limit {
    store: MemoryStore,
    secret: Secret,
    policy: Policy,
}

/// The layer without headers.
pub(super) fn minimal(limits: Limits) -> MinimalLayer {
    let secret = Secret::random_for_this_process(*b"a secret of ours");
    let policy = Policy::gcra("bench", limits.quota());
    MinimalLayer(Arc::new(Limit { store: MemoryStore::new(), secret, policy }))
}

/// Like [`minimal`], but with the three lines of `X-RateLimit`, whose values exist already.
pub(super) fn minimal_with_headers(
    limits: Limits,
) -> Stack<MinimalLayer, MapResponseLayer<impl Fn(Response<Body>) -> Response<Body> + Copy>> {
    Stack::new(minimal(limits), MapResponseLayer::new(with_lines))
}

fn with_lines(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    let value = || HeaderValue::from_static("1000");
    headers.insert(const { HeaderName::from_static("x-ratelimit-limit") }, value());
    headers.insert(const { HeaderName::from_static("x-ratelimit-remaining") }, value());
    headers.insert(const { HeaderName::from_static("x-ratelimit-reset") }, value());
    response
}

impl<S> Layer<S> for MinimalLayer {
    type Service = Minimal<S>;

    fn layer(&self, inner: S) -> Minimal<S> {
        Minimal { inner, limit: Arc::clone(&self.0) }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Minimal<S> {
    inner: S,
    limit: Arc<Limit>,
}

impl<S: Service<Request<Body>>> Service<Request<Body>> for Minimal<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> S::Future {
        let Limit { store, secret, policy } = &*self.limit;
        let mut hasher = secret.hasher();
        let user = request.headers().get(&X_USER).expect("all requests have a user");
        hasher.writer().part("user", user.as_bytes());
        let key = hasher.finish().expect("an identity of a few bytes is a key");
        let ready = store.check_now(policy, key, 1);
        assert!(
            matches!(ready, Some(Ok(ready)) if ready.decision.is_allowed()),
            "the limits are not used up"
        );
        self.inner.call(request)
    }
}
