//! A request with a slot in a queue.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};

use portcullis_core::store::Outcome;
use tokio::time::{Instant, sleep_until};

use super::refunds::{Keep, Refunds};
use crate::engine::Limits;
use crate::engine::slots::{QueueId, Turn};

/// A request that waits for its slot. Its turn may come earlier, if a request ahead of it gives up.
///
/// # Cancel safety
///
/// If it is dropped, it gives its slot up.
pub(super) struct Slot {
    limits: Arc<Limits>,
    /// `None` after its turn.
    charged: Option<Outcome>,
    /// `None` if it has slots in several queues, or one that no other request can use.
    joined: Option<Joined>,
    own: Instant,
}

#[derive(Clone, Copy)]
struct Joined {
    queue: QueueId,
    number: u64,
    /// The index of the queue's policy in the checks.
    index: usize,
}

impl Slot {
    pub(super) fn join(limits: &Arc<Limits>, charged: Outcome, own: Instant) -> Self {
        let queues = &limits.engine().backlog.queues;
        let joined = charged.queue_index().and_then(|index| {
            let (queue, number) = queues.join(&charged, index, own)?;
            Some(Joined { queue, number, index })
        });
        let slot = Self { limits: Arc::clone(limits), charged: Some(charged), joined, own };
        // If an earlier slot is spare, the request moves up at once, and its own slot can be refunded.
        if let Some(Joined { queue, .. }) = joined {
            queues.refund_spare(limits, queue);
        }
        slot
    }

    /// Waits for the turn of the request. Returns what it was charged, with the position of the slot that it uses.
    pub(super) async fn turn(mut self) -> Outcome {
        let mut sleep = pin!(sleep_until(self.own));
        let position = poll_fn(|cx| {
            loop {
                let turn = match self.joined {
                    Some(Joined { queue, number, .. }) => {
                        self.limits.engine().backlog.queues.turn(queue, number, self.own, cx.waker())
                    }
                    None => Turn::alone(self.own),
                };
                match turn {
                    Turn::Go(position) => return Poll::Ready(position),
                    Turn::Wait(until) => {
                        if sleep.deadline() != until {
                            sleep.as_mut().reset(until);
                        }
                        ready!(sleep.as_mut().poll(cx));
                    }
                }
            }
        })
        .await;
        let charged = self.charged.take().expect("the turn comes once");
        match self.joined.zip(position) {
            Some((joined, position)) => charged.with_position(joined.index, position),
            None => charged,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(charged) = self.charged.take() else { return };
        match self.joined {
            Some(Joined { queue, number, .. }) => {
                self.limits.engine().backlog.queues.leave(&self.limits, queue, number, self.own);
            }
            None => drop(Refunds::start(&self.limits, Some(&charged), None, Keep::AllButSlots)),
        }
    }
}
