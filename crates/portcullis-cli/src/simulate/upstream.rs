//! The service behind the layers: it answers as the log says.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use tower::Service;

/// Answers each request with the status of its line, and an empty body.
#[derive(Clone, Debug, Default)]
pub struct Upstream {
    status: Arc<AtomicU16>,
}

impl Upstream {
    /// Sets the status of the next responses.
    pub(super) fn set_status(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }
}

impl Service<Request<String>> for Upstream {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        let mut response = Response::new(String::new());
        let status = StatusCode::from_u16(self.status.load(Ordering::Relaxed));
        *response.status_mut() = status.unwrap_or(StatusCode::OK);
        ready(Ok(response))
    }
}
