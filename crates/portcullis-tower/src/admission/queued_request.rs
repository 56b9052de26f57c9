//! Waits for the turn of a request in its queue, and gives its slot up if the request leaves.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use portcullis_core::store::Outcome;
use tokio::time::{Instant, Sleep};

use super::refunds::{Keep, Refunds};
use crate::config::LayerConfig;
use crate::queues::{QueueId, Turn};

/// A request that waits for its slot.
///
/// # Cancel safety
///
/// If it is dropped before its turn, it gives up its slot, and requests behind it move up.
pub(super) struct QueuedRequest {
    config: Arc<LayerConfig>,
    /// `None` after its turn.
    charged: Option<Outcome>,
    /// `None` if it waits for slots in several queues, which it cannot exchange.
    joined: Option<Joined>,
    /// The time of the slot that it was charged for.
    own: Instant,
    sleep: Pin<Box<Sleep>>,
}

#[derive(Clone, Copy)]
struct Joined {
    queue: QueueId,
    number: u64,
    /// The index of the check in the outcome.
    index: usize,
}

impl QueuedRequest {
    /// Puts a request into the queue that it was charged for, with a slot at `at`.
    pub(super) fn new(config: &Arc<LayerConfig>, charged: Outcome, at: Instant) -> Self {
        let joined = charged.queue_index().and_then(|index| {
            let (queue, number) = config.registry.queues().join(&charged, index, at)?;
            Some(Joined { queue, number, index })
        });
        let sleep = Box::pin(tokio::time::sleep_until(at));
        let request = Self { config: Arc::clone(config), charged: Some(charged), joined, own: at, sleep };
        // If an earlier slot is spare, the request moves up at once, and its own slot can be refunded.
        if let Some(Joined { queue, .. }) = joined {
            config.registry.queues().refund_spare(&config.store, queue);
        }
        request
    }

    /// Waits for the turn. Returns the charged outcome, with the slot that the request uses.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        loop {
            let turn = match self.joined {
                Some(Joined { queue, number, .. }) => {
                    self.config.registry.queues().turn(queue, number, self.own, cx.waker())
                }
                None => Turn::alone(self.own),
            };
            match turn {
                Turn::Go(position) => {
                    let charged = self.charged.take().expect("a queued request is not polled after its turn");
                    return Poll::Ready(match self.joined.zip(position) {
                        Some((joined, position)) => charged.with_position(joined.index, position),
                        None => charged,
                    });
                }
                Turn::Wait(until) => {
                    if self.sleep.deadline() != until {
                        self.sleep.as_mut().reset(until);
                    }
                    ready!(self.sleep.as_mut().poll(cx));
                }
            }
        }
    }
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        let Some(charged) = self.charged.take() else { return };
        match self.joined {
            Some(Joined { queue, number, .. }) => {
                self.config.registry.queues().leave(&self.config.store, queue, number, self.own);
            }
            // Gives up its slots in several queues.
            None => drop(Refunds::start(&self.config, Some(&charged), None, Keep::AllButSlots)),
        }
    }
}
