//! A check that the store has not answered yet.

use std::future::poll_fn;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use portcullis_core::{Checks, Outcome, StoreError, StoreErrorKind, StoreFuture, Strategy};

use super::passing;
use super::refunds::{Keep, Refunds};
use crate::rules::LayerConfig;

/// A check that the store has not answered yet.
///
/// # Cancel safety
///
/// Dropped before the answer, it leaves what was charged, except for slots in queues: a task waits for the answer and gives
/// them up. Otherwise requests that leave before they wait could fill a queue.
pub(super) struct PendingCheck {
    store: StoreFuture<Outcome>,
    /// As long as an answer can put the request into a queue. `None` where no policy is a leaky bucket.
    may_queue: Option<Arc<LayerConfig>>,
}

impl PendingCheck {
    pub(super) fn new(rules: &Arc<LayerConfig>, store: StoreFuture<Outcome>, may_queue: bool) -> Self {
        Self { store, may_queue: may_queue.then(|| Arc::clone(rules)) }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Outcome, StoreError>> {
        let answer = Pin::new(&mut self.store).poll(cx);
        if answer.is_ready() {
            self.may_queue = None;
        }
        answer
    }
}

impl Drop for PendingCheck {
    fn drop(&mut self) {
        let Some(rules) = self.may_queue.take() else { return };
        let never_used = StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Failed, "answered already")));
        let store = mem::replace(&mut self.store, never_used);
        let task_rules = Arc::clone(&rules);
        rules.detach(async move {
            let Ok(charged) = store.await else { return };
            let slot = passing::until(&charged);
            let mut refunds = Refunds::start(&task_rules, Some(&charged), slot, Keep::AllButSlots);
            poll_fn(|cx| refunds.poll(cx)).await;
        });
    }
}

/// Whether the answer to checks may put a request into a queue.
pub(super) fn may_queue(checks: &Checks) -> bool {
    checks.iter().any(|check| check.cost > 0 && matches!(check.policy.strategy(), Strategy::LeakyBucket(_)))
}
