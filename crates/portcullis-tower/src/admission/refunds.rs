//! Charges that are given back.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use portcullis_core::{Decision, Receipt, StoreFuture};

use super::Step;
use crate::rules::Rules;

/// Refunds under way. Those that have no answer when this is dropped go on by themselves, in a task.
pub(super) struct Refunds {
    rules: Arc<Rules>,
    pending: Vec<StoreFuture<Decision>>,
}

impl Refunds {
    pub(super) fn start(rules: &Arc<Rules>, charged: impl IntoIterator<Item = Receipt>) -> Self {
        let mut pending = Vec::new();
        for receipt in charged {
            match rules.give_back(receipt).into_ready() {
                Ok(answer) => rules.note_refund(&answer),
                Err(refund) => pending.push(refund),
            }
        }
        Self { rules: Arc::clone(rules), pending }
    }

    pub(super) fn are_over(&self) -> bool {
        self.pending.is_empty()
    }

    /// Waits for all at once.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let rules = &self.rules;
        self.pending.retain_mut(|refund| match Pin::new(refund).poll(cx) {
            Poll::Ready(answer) => {
                rules.note_refund(&answer);
                false
            }
            Poll::Pending => true,
        });
        if self.are_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Refunds {
    fn drop(&mut self) {
        let pending = mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        let rules = Arc::clone(&self.rules);
        self.rules.detach(async move {
            for refund in pending {
                rules.note_refund(&refund.await);
            }
        });
    }
}

/// A rejected request whose refunds are under way.
pub(super) struct Refunding {
    refunds: Refunds,
    response: Response<Full<Bytes>>,
}

impl Refunding {
    pub(super) fn new(refunds: Refunds, response: Response<Full<Bytes>>) -> Self {
        Self { refunds, response }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        ready!(self.refunds.poll(cx));
        Poll::Ready(Step::rejected(mem::take(&mut self.response)))
    }
}
