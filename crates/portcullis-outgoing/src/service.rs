//! The service around an HTTP client.

mod future;
mod pacing;

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tower_service::Service;

use crate::error::OutgoingError;
use crate::message::{OutgoingRequest, OutgoingResponse};
use crate::shared::Shared;
use future::Sent;
use pacing::Start;

pub use future::OutgoingFuture;

/// An HTTP client whose requests are paced. Made by an [`OutgoingLayer`](crate::OutgoingLayer).
///
/// Its clones share their budgets, and which keys are closed. Requests, their bodies and the answers are those of the inner service. A
/// request is never repeated.
#[derive(Clone)]
pub struct Outgoing<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Outgoing<S> {
    pub(crate) fn new(inner: S, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
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

impl<S, R> Service<R> for Outgoing<S>
where
    S: Service<R> + Clone,
    S::Response: OutgoingResponse,
    R: OutgoingRequest,
{
    type Response = S::Response;
    type Error = OutgoingError<S::Error>;
    type Future = OutgoingFuture<S, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(OutgoingError::Inner)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let Self { inner, shared } = self;
        // Where the request is not sent now, the instance that was polled ready is dropped: it may hold what others wait for.
        if shared.config.registry.is_off() {
            return OutgoingFuture::sent(inner.call(request), None);
        }
        let (parts, rest) = request.split();
        let key = shared.key(&parts);
        let request = R::join(parts, rest);
        let key = match key {
            Ok(Some(key)) => key,
            Ok(None) => return OutgoingFuture::sent(inner.call(request), None),
            Err(error) => {
                *inner = inner.clone();
                return OutgoingFuture::failed(OutgoingError::Key(error));
            }
        };
        match pacing::start(shared, key) {
            Start::Send(charge) => {
                let sent = Sent { shared: Arc::clone(shared), key, charge };
                OutgoingFuture::sent(inner.call(request), Some(sent))
            }
            Start::Wait(pacing) => {
                *inner = inner.clone();
                OutgoingFuture::waiting(*pacing, inner.clone(), request)
            }
            Start::Refuse(refusal) => {
                *inner = inner.clone();
                OutgoingFuture::failed(refusal.into())
            }
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Outgoing<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("inner", &self.inner)
            .field("policy", self.shared.config.policy.name())
            .finish_non_exhaustive()
    }
}
