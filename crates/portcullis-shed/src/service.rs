//! The service: decides about each request before the inner service is asked for more than its readiness.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use portcullis_tower::internal::{discard, rated};
use tower_service::Service;

use crate::body::ShedBody;
use crate::config::{Entry, ShedConfig};
use crate::future::ShedFuture;

/// A service whose requests are shed under overload. Made by a [`ShedLayer`](crate::ShedLayer).
///
/// Its clones share their limit. The request body and the error are those of the inner service: a rejection is a response.
///
/// It is always ready, unless the inner service has failed: otherwise requests would wait for the inner service where no layer counts
/// them. An admitted request waits for the inner service, as inside of a
/// [`ConcurrencyLimit`](https://docs.rs/tower/latest/tower/limit/struct.ConcurrencyLimit.html), in its response future, in flight and with
/// its clock running.
#[derive(Debug)]
pub struct Shed<S> {
    inner: S,
    config: Arc<ShedConfig>,
    /// Whether the inner service was polled ready for the next call.
    is_ready: bool,
}

impl<S> Shed<S> {
    pub(crate) fn new(inner: S, config: Arc<ShedConfig>) -> Self {
        Self { inner, config, is_ready: false }
    }

    /// Returns the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service, mutably.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Unwraps the inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: Clone> Clone for Shed<S> {
    fn clone(&self) -> Self {
        Self::new(self.inner.clone(), Arc::clone(&self.config))
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for Shed<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    ReqBody: Body + Send + 'static,
{
    type Response = Response<ShedBody<ResBody>>;
    type Error = S::Error;
    type Future = ShedFuture<S, ReqBody>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        match self.inner.poll_ready(cx) {
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            polled => self.is_ready = polled.is_ready(),
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let (mut parts, mut body) = request.into_parts();
        let mut permit = match self.config.enter(&parts) {
            Entry::Admitted(permit) => permit,
            Entry::Rejected(response) => {
                // What was polled ready may hold a permit, which the next request on this connection may need much later.
                self.inner = self.inner.clone();
                self.is_ready = false;
                discard(&parts, body, None, self.config.discarded_bytes);
                return ShedFuture::rejected(response);
            }
        };
        if let Some(permit) = &mut permit {
            if let Some(rate) = self.config.body_rate.filter(|_| !self.config.is_shadow) {
                let (rated, claim) = rated(rate, &parts, body);
                body = rated;
                if let Some(claim) = claim {
                    permit.keep_claim(claim);
                }
            }
            if self.config.leaves_permit {
                permit.hand_over(&mut parts.extensions);
            }
        }
        let request = Request::from_parts(parts, body);
        if mem::take(&mut self.is_ready) {
            return ShedFuture::called(self.inner.call(request), permit);
        }
        // The instance that was polled is the one that is called. A clone that is not ready replaces it.
        let clone = self.inner.clone();
        ShedFuture::waiting(mem::replace(&mut self.inner, clone), request, permit)
    }
}

#[cfg(feature = "tonic")]
impl<S: tonic::server::NamedService> tonic::server::NamedService for Shed<S> {
    const NAME: &'static str = S::NAME;
}
