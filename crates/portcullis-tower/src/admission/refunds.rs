//! Refunds the charges of requests that do not reach the inner service.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use portcullis_core::store::{Outcome, StoreFuture};
use portcullis_core::{Decision, Key, Receipt};
use tokio::time::Instant;

use super::{Rejected, Step};
use crate::config::LayerConfig;
use crate::policy::is_in_flight;
use crate::queues::RefundEnd;

/// The charges that stay if a request does not reach the inner service.
#[derive(Clone, Copy)]
pub(super) enum Keep {
    Nothing,
    /// The charges of policies that count rejections.
    CountedRejections,
    /// Everything except slots in queues.
    AllButSlots,
}

impl Keep {
    fn includes(self, config: &LayerConfig, receipt: &Receipt) -> bool {
        match self {
            Self::Nothing => false,
            Self::CountedRejections => stays_on_rejection(config, receipt),
            Self::AllButSlots => !is_slot(receipt),
        }
    }
}

/// Refunds in progress. Those that have no answer when this is dropped continue in a task.
pub(super) struct Refunds {
    config: Arc<LayerConfig>,
    /// With the key and the units of the charge.
    pending: Vec<(Key, u64, StoreFuture<Decision>)>,
    /// That of a slot that was given up.
    slot: Option<RefundEnd>,
}

impl Refunds {
    /// Refunds the charges of a request, except for those that `keep` includes. `slot_at` is the time of its slot, if it had to
    /// wait.
    ///
    /// A slot in the future is given up, so that requests behind it in this process move up, and the last slot of the queue is
    /// refunded.
    pub(super) fn start(
        config: &Arc<LayerConfig>,
        charged: Option<&Outcome>,
        slot_at: Option<Instant>,
        keep: Keep,
    ) -> Self {
        let (mut pending, mut slot) = (Vec::new(), None);
        if let Some(charged) = charged {
            let queued = charged.queue_index().zip(slot_at.filter(|at| *at > Instant::now()));
            // Permits are released with the request.
            let refunded = charged.clone().into_receipts();
            let refunded =
                refunded.filter(|receipt| !is_in_flight(receipt.policy()) && !keep.includes(config, receipt));
            for receipt in refunded {
                let receipt = match queued {
                    Some((index, at)) if is_slot(&receipt) => {
                        // The next request of the client would find the queue full otherwise, and keep it so.
                        slot = config.registry.queues().give_up_slot(&config.store, charged, index, at);
                        continue;
                    }
                    // A slot freed in the middle of a queue would let two requests proceed at once.
                    None if is_slot(&receipt) => receipt.if_newest(),
                    _ => receipt,
                };
                let (key, units) = (receipt.key(), receipt.cost());
                match config.store.refund(receipt).into_ready() {
                    Ok(answer) => config.store.emit_refund(key, units, &answer),
                    Err(refund) => pending.push((key, units, refund)),
                }
            }
        }
        Self { config: Arc::clone(config), pending, slot }
    }

    pub(super) fn are_over(&self) -> bool {
        self.pending.is_empty() && self.slot.is_none()
    }

    /// Polls all refunds concurrently.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let config = &self.config;
        self.pending.retain_mut(|(key, units, refund)| match Pin::new(refund).poll(cx) {
            Poll::Ready(answer) => {
                config.store.emit_refund(*key, *units, &answer);
                false
            }
            Poll::Pending => true,
        });
        // Its sender is dropped at the end, and sends nothing.
        self.slot.take_if(|end| Pin::new(end).poll(cx).is_ready());
        if self.are_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Refunds {
    fn drop(&mut self) {
        let pending = mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        let config = Arc::clone(&self.config);
        self.config.store.detach(async move {
            for (key, units, refund) in pending {
                config.store.emit_refund(key, units, &refund.await);
            }
        });
    }
}

/// A rejected request whose refunds are in progress.
pub(super) struct Refunding {
    refunds: Refunds,
    /// Until the refunds are over.
    rejected: Option<Rejected>,
}

impl Refunding {
    pub(super) fn new(refunds: Refunds, rejected: Rejected) -> Self {
        Self { refunds, rejected: Some(rejected) }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        ready!(self.refunds.poll(cx));
        Poll::Ready(Step::rejected(self.rejected.take().expect("a rejection is not polled after its end")))
    }
}

/// Whether a charge stays when a look-up rejects the request.
fn stays_on_rejection(config: &LayerConfig, charged: &Receipt) -> bool {
    let policy = charged.policy().name();
    let layer_policy = config.policies().iter().find(|layer_policy| layer_policy.policy.name() == policy);
    layer_policy.is_some_and(|layer_policy| {
        layer_policy.keeps_charge_of_look_up(charged.key(), config.registry.secret())
    })
}

fn is_slot(receipt: &Receipt) -> bool {
    receipt.policy().strategy().queues()
}
