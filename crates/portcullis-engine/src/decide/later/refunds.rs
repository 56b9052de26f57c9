//! Refunds what a request was charged that is not admitted after all.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use portcullis_core::store::{Outcome, StoreFuture};
use portcullis_core::{Decision, Key, Receipt};
use tokio::time::Instant;

use crate::PolicySet;
use crate::engine::Limits;
use crate::engine::report;
use crate::engine::slots::RefundEnd;
use crate::limit::is_in_flight;

/// Which charges of a request stay.
#[derive(Clone, Copy, Debug)]
pub enum Keep {
    /// All charges are refunded.
    Nothing,
    /// The charges of these policies stay.
    Of(PolicySet),
    /// All charges stay except slots in queues, which other requests can use.
    AllButSlots,
}

impl Keep {
    fn includes(self, limits: &Limits, receipt: &Receipt) -> bool {
        match self {
            Self::Nothing => false,
            Self::Of(policies) => {
                let is_own = |index: usize| limits.policies()[index].policy.name() == receipt.policy().name();
                policies.indexes().any(is_own)
            }
            Self::AllButSlots => !is_slot(receipt),
        }
    }
}

/// Refunds of one request, which begin at once.
///
/// # Cancel safety
///
/// Refunds that are left when it is dropped continue in a task.
#[derive(Debug)]
pub struct Refunds {
    limits: Arc<Limits>,
    pending: Vec<(Key, u64, StoreFuture<Decision>)>,
    /// The refund of a slot that goes on in a task.
    slot: Option<RefundEnd>,
}

impl Refunds {
    /// `slot_at` is when the slot of the request in a queue begins.
    pub fn start(
        limits: &Arc<Limits>,
        charged: Option<&Outcome>,
        slot_at: Option<Instant>,
        keep: Keep,
    ) -> Self {
        let mut refunds = Self { limits: Arc::clone(limits), pending: Vec::new(), slot: None };
        if let Some(charged) = charged {
            let queued = charged.queue_index().zip(slot_at.filter(|at| *at > Instant::now()));
            // Permits are released with the request.
            let refunded = charged.clone().into_receipts();
            let refunded =
                refunded.filter(|receipt| !is_in_flight(receipt.policy()) && !keep.includes(limits, receipt));
            for receipt in refunded {
                match queued {
                    Some((index, at)) if is_slot(&receipt) => {
                        // The next request of the client would find the queue full otherwise, and keep it so.
                        let backlog = &limits.engine().backlog;
                        refunds.slot = backlog.queues.give_up_slot(limits, charged, index, at);
                    }
                    _ => refunds.add(receipt),
                }
            }
        }
        refunds
    }

    /// Begins those of more charges. Permits are released with the request.
    pub(super) fn and(mut self, receipts: impl Iterator<Item = Receipt>) -> Self {
        receipts.filter(|receipt| !is_in_flight(receipt.policy())).for_each(|receipt| self.add(receipt));
        self
    }

    /// Begins one more refund.
    fn add(&mut self, receipt: Receipt) {
        // A slot freed in the middle of a queue would let two requests proceed at once.
        let receipt = if is_slot(&receipt) { receipt.if_newest() } else { receipt };
        let (key, units) = (receipt.key(), receipt.cost());
        match self.limits.refund(receipt).into_ready() {
            Ok(answer) => report::refunded(&self.limits, key, units, &answer),
            Err(refund) => self.pending.push((key, units, refund)),
        }
    }

    pub(super) fn are_over(&self) -> bool {
        self.pending.is_empty() && self.slot.is_none()
    }
}

impl Future for Refunds {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { limits, pending, slot } = &mut *self;
        pending.retain_mut(|(key, units, refund)| match Pin::new(refund).poll(cx) {
            Poll::Ready(answer) => {
                report::refunded(limits, *key, *units, &answer);
                false
            }
            Poll::Pending => true,
        });
        // Its sender is dropped at the end, and sends nothing.
        slot.take_if(|end| Pin::new(end).poll(cx).is_ready());
        if self.are_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Refunds {
    fn drop(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        let limits = Arc::clone(&self.limits);
        self.limits.detach(async move {
            for (key, units, refund) in pending {
                report::refunded(&limits, key, units, &refund.await);
            }
        });
    }
}

fn is_slot(receipt: &Receipt) -> bool {
    receipt.policy().strategy().queues()
}
