//! A call of the store whose answer may be too late for its request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use portcullis_core::StoreError;
use portcullis_core::store::{Outcome, StoreFuture};

use crate::engine::Limits;

/// A call of the store.
///
/// # Cancel safety
///
/// If it is dropped without an answer, what it may hold is given up when the answer is there: a slot in a queue, and permits of
/// requests in flight. Other charges stay.
#[derive(Debug)]
pub struct StoreCall {
    pub(super) pending: StoreFuture<Outcome>,
    /// `None` if the call holds nothing, or after the answer.
    pub(super) gives_up: Option<Arc<Limits>>,
}

impl StoreCall {
    pub(super) fn new(limits: &Arc<Limits>, pending: StoreFuture<Outcome>, may_queue: bool) -> Self {
        let gives_up = may_queue || limits.holds_permits();
        Self { pending, gives_up: gives_up.then(|| Arc::clone(limits)) }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.pending.as_ready().is_some()
    }
}

impl Future for StoreCall {
    type Output = Result<Outcome, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Outcome, StoreError>> {
        let answer = Pin::new(&mut self.pending).poll(cx);
        if answer.is_ready() {
            self.gives_up = None;
        }
        answer
    }
}
