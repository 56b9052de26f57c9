//! Charges that are given back.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use portcullis_core::{Decision, Outcome, Receipt, StoreFuture, Strategy};
use tokio::time::Instant;

use super::Step;
use crate::rules::LayerConfig;

/// What a request keeps charged that does not reach the inner service.
#[derive(Clone, Copy)]
pub(super) enum Keep {
    Nothing,
    /// The charges of policies that count rejections.
    CountedRejections,
    /// Everything except slots in queues.
    AllButSlots,
}

impl Keep {
    fn includes(self, rules: &LayerConfig, receipt: &Receipt) -> bool {
        match self {
            Self::Nothing => false,
            Self::CountedRejections => rules.counts_rejection(receipt),
            Self::AllButSlots => !is_slot(receipt),
        }
    }
}

/// Refunds under way. Those that have no answer when this is dropped go on by themselves, in a task.
pub(super) struct Refunds {
    rules: Arc<LayerConfig>,
    pending: Vec<StoreFuture<Decision>>,
}

impl Refunds {
    /// Refunds what a request was charged, except for what it keeps. `slot` is the time of its slot, if it had to wait.
    ///
    /// A slot that is still to come is given up, so that requests behind it in this process move up. The refund of the last
    /// slot of the queue is not waited for here.
    pub(super) fn start(
        rules: &Arc<LayerConfig>,
        charged: Option<&Outcome>,
        slot: Option<Instant>,
        keep: Keep,
    ) -> Self {
        let mut pending = Vec::new();
        if let Some(charged) = charged {
            let slot = charged.queue_index().zip(slot.filter(|at| *at > Instant::now()));
            let refunded = charged.clone().into_receipts().filter(|receipt| !keep.includes(rules, receipt));
            for receipt in refunded {
                let receipt = match slot {
                    Some((index, at)) if is_slot(&receipt) => {
                        rules.queues().give_up_slot(rules, charged, index, at);
                        continue;
                    }
                    // Freed in the middle of a queue, a slot would let two requests go at once.
                    None if is_slot(&receipt) => receipt.if_newest(),
                    _ => receipt,
                };
                match rules.give_back(receipt).into_ready() {
                    Ok(answer) => rules.note_refund(&answer),
                    Err(refund) => pending.push(refund),
                }
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

fn is_slot(receipt: &Receipt) -> bool {
    matches!(receipt.policy().strategy(), Strategy::LeakyBucket(_))
}
