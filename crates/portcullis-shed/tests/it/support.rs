//! A limiter, a service that checks the contract of `tower::Service`, and a body without an end.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::Full;
use portcullis_core::{ManualClock, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::Registry;
use tower::Service;

pub(crate) fn registry() -> Arc<Registry> {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    Arc::new(Registry::new(Arc::new(store), Secret::published()))
}

/// Answers at once. Panics when an instance is called that was not polled ready.
#[derive(Default)]
pub(crate) struct Probe {
    is_ready: bool,
}

impl Clone for Probe {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Service<Request<String>> for Probe {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        assert!(std::mem::take(&mut self.is_ready), "an instance was called that was not polled ready");
        ready(Ok(Response::new(Full::from("inner"))))
    }
}

/// A body of which nothing arrives.
pub(crate) struct Silent;

impl Body for Silent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}
