//! The service behind the layers: it answers as the log says.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use tower::Service;

/// Answers each request with the status of its line, and an empty body.
#[derive(Clone, Debug, Default)]
pub struct Upstream {
    status: Arc<AtomicU16>,
    /// A request that has ended, whose memory can be used again.
    spare: Arc<Mutex<Option<Request<String>>>>,
}

impl Upstream {
    /// Sets the status of the next responses.
    pub(super) fn set_status(&self, status: u16) {
        self.status.store(status, Ordering::Relaxed);
    }

    /// An empty request, in the memory of a former one.
    pub(super) fn request(&self) -> Request<String> {
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).take();
        spare.unwrap_or_else(|| Request::new(String::new()))
    }
}

impl Service<Request<String>> for Upstream {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<String>) -> Self::Future {
        // What layers have left in it ends with the request.
        request.extensions_mut().clear();
        request.headers_mut().clear();
        *self.spare.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
        let mut response = Response::new(String::new());
        let status = StatusCode::from_u16(self.status.load(Ordering::Relaxed));
        *response.status_mut() = status.unwrap_or(StatusCode::OK);
        ready(Ok(response))
    }
}
