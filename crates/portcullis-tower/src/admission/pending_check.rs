//! Waits for the answer of the store, and gives up charged slots if the request leaves before.

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use portcullis_core::store::{Outcome, StoreFuture};
use portcullis_core::{StoreError, StoreErrorKind};

use super::refunds::{Keep, Refunds};
use super::{admit, in_flight};
use crate::config::LayerConfig;

/// A call of the store that has no answer yet.
///
/// # Cancel safety
///
/// If it is dropped before the answer, the charges stay, except for slots in queues and permits of requests in flight: a task waits
/// for the answer and gives them up. Otherwise requests that leave before they wait could fill a queue.
pub(super) struct PendingCheck {
    pending: StoreFuture<Outcome>,
    /// `Some` as long as an answer can put the request into a queue, or in flight; `None` where no policy does.
    given_up: Option<Arc<LayerConfig>>,
}

impl PendingCheck {
    pub(super) fn new(config: &Arc<LayerConfig>, pending: StoreFuture<Outcome>, may_queue: bool) -> Self {
        let gives_up = may_queue || config.holds_permits;
        Self { pending, given_up: gives_up.then(|| Arc::clone(config)) }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Outcome, StoreError>> {
        let answer = Pin::new(&mut self.pending).poll(cx);
        if answer.is_ready() {
            self.given_up = None;
        }
        answer
    }
}

impl Drop for PendingCheck {
    fn drop(&mut self) {
        let Some(config) = self.given_up.take() else { return };
        let never_used = StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Failed, "answered already")));
        let pending = mem::replace(&mut self.pending, never_used);
        let task_config = Arc::clone(&config);
        config.store.detach(async move {
            let Ok(charged) = pending.await else { return };
            task_config.store.emit_charges(charged.checks().iter().as_slice(), charged.decisions());
            in_flight::release(&task_config, &charged);
            let slot_at = admit::delay_end(charged.decision());
            let mut refunds = Refunds::start(&task_config, Some(&charged), slot_at, Keep::AllButSlots);
            poll_fn(|cx| refunds.poll(cx)).await;
        });
    }
}
