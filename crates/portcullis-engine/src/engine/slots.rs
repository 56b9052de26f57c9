//! Assigns the slots of rate-based policies to the requests of this process that wait for them.
//!
//! A slot is charged at the store when a request is admitted. If the request leaves before its slot, the requests behind it
//! move up by one slot each, and the last slot is refunded. Otherwise requests that leave would fill a queue with slots that
//! are not used.

mod queue;

use std::collections::HashMap;
use std::convert::Infallible;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use portcullis_core::store::{Checks, Outcome};
use portcullis_core::{Decision, Key, Receipt, StoreError, Strategy};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::engine::Limits;
use crate::engine::report;
pub(crate) use queue::Turn;
use queue::{Queue, Slot, SlotId, Wakers};

/// All queues of a limiter. The lock is not held during calls of the store or of wakers.
#[derive(Clone, Default)]
pub(crate) struct Queues(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    /// Only queues with waiting requests, spare slots, or a refund in progress.
    queues: HashMap<QueueId, Queue>,
    /// Spare slots in all queues.
    spare: usize,
    /// The number of the newest slot or request.
    number: u64,
    swept_at: Option<Instant>,
}

/// Is ready once the first call of a refund in the background has ended. The refund continues without it.
pub(crate) type RefundEnd = oneshot::Receiver<Infallible>;

/// The common properties of the slots of a queue: their cost, the state that was charged for them, and the quota, which may be that of
/// a caller.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct QueueId {
    policy: u128,
    strategy: Strategy,
    key: Key,
    cost: u64,
    charged_by: Option<NonZeroU64>,
}

impl QueueId {
    fn new(charged: &Outcome, index: usize) -> Option<Self> {
        let check = charged.checks().iter().nth(index)?;
        let charged_by = charged.fallback_id_of(index);
        let (policy, strategy) = (check.policy.digest(), *check.policy.strategy());
        Some(Self { policy, strategy, key: check.key, cost: check.cost, charged_by })
    }
}

impl Queues {
    /// Whether requests wait in a queue that a request with these checks would join.
    pub(crate) fn has_waiters(&self, checks: &Checks) -> bool {
        let shared = self.lock();
        checks.iter().filter(|check| check.policy.strategy().queues()).any(|check| {
            let (policy, strategy) = (check.policy.digest(), *check.policy.strategy());
            let id = QueueId { policy, strategy, key: check.key, cost: check.cost, charged_by: None };
            shared.queues.get(&id).is_some_and(Queue::has_waiters)
        })
    }

    /// Gives up the slot at `at` that the check at `index` was charged for. The request does not wait in the queue.
    ///
    /// Returns the end of the refund in the background that this has begun, if there is one.
    pub(crate) fn give_up_slot(
        &self,
        store: &Arc<Limits>,
        charged: &Outcome,
        index: usize,
        at: Instant,
    ) -> Option<RefundEnd> {
        let (id, position) = QueueId::new(charged, index).zip(charged.position(index))?;
        let waker = {
            let mut shared = self.lock();
            let slot = Slot { id: SlotId { position, number: shared.next_number() }, at };
            shared.queues.entry(id).or_insert_with(|| Queue::new(charged, index));
            shared.update(id, |queue| queue.add_spare([slot]))
        };
        waker.flatten().into_iter().for_each(Waker::wake);
        self.refund_spare(store, id)
    }

    /// Adds a request that waits for the slot at `at`. Returns its queue and its number there.
    pub(crate) fn join(&self, charged: &Outcome, index: usize, at: Instant) -> Option<(QueueId, u64)> {
        let (id, position) = QueueId::new(charged, index).zip(charged.position(index))?;
        let mut shared = self.lock();
        let number = shared.next_number();
        shared.queues.entry(id).or_insert_with(|| Queue::new(charged, index));
        shared.update(id, |queue| queue.join(Slot { id: SlotId { position, number }, at }));
        Some((id, number))
    }

    pub(crate) fn leave(&self, store: &Arc<Limits>, id: QueueId, number: u64, own: Instant) {
        let wakers = self.lock().update(id, |queue| queue.leave(number, own));
        wakers.into_iter().for_each(Wakers::wake);
        self.refund_spare(store, id);
    }

    pub(crate) fn turn(&self, id: QueueId, number: u64, own: Instant, waker: &Waker) -> Turn {
        let answer = {
            let mut shared = self.lock();
            let answer = shared.update(id, |queue| queue.turn(number, own, waker));
            if matches!(answer, Some((Turn::Go(_), _))) {
                shared.remove_if_over(id, Instant::now());
            }
            answer
        };
        let Some((turn, wakers)) = answer else { return Turn::alone(own) };
        wakers.wake();
        turn
    }

    /// Refunds spare slots, starting with the last, until a slot of another process or another cost is behind the next one.
    ///
    /// Returns the end of the refund if it continues in the background.
    pub(crate) fn refund_spare(&self, store: &Arc<Limits>, id: QueueId) -> Option<RefundEnd> {
        loop {
            let (receipt, slots) = self.lock().begin_refund(id)?;
            let (key, units) = (receipt.key(), receipt.cost());
            match store.refund(receipt).into_ready() {
                Ok(answer) => {
                    report::refunded(store, key, units, &answer);
                    if !self.end_refund(id, slots, &answer) {
                        return None;
                    }
                }
                Err(refund) => {
                    let mut guard = RefundGuard { queues: self.clone(), id, is_over: false };
                    let task_store = Arc::clone(store);
                    let (ended, end) = oneshot::channel();
                    store.detach(async move {
                        let answer = refund.await;
                        guard.is_over = true;
                        report::refunded(&task_store, key, units, &answer);
                        if guard.queues.end_refund(id, slots, &answer) {
                            guard.queues.refund_spare(&task_store, id);
                        }
                        drop(ended);
                    });
                    return Some(end);
                }
            }
        }
    }

    /// Keeps the slots that were not freed. Returns whether another refund may free more.
    fn end_refund(&self, id: QueueId, slots: Vec<Slot>, answer: &Result<Decision, StoreError>) -> bool {
        let ended = {
            let mut shared = self.lock();
            let ended = shared.update(id, |queue| queue.end_refund(slots, answer.as_ref().ok()));
            shared.remove_if_over(id, Instant::now());
            ended
        };
        let Some((goes_on, waker)) = ended else { return false };
        waker.into_iter().for_each(Waker::wake);
        goes_on
    }

    /// Queues and counts are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A refund in the background. If it is dropped before it is over, its slots are lost, and other slots can be refunded.
struct RefundGuard {
    queues: Queues,
    id: QueueId,
    is_over: bool,
}

impl Drop for RefundGuard {
    fn drop(&mut self) {
        if !self.is_over {
            let mut shared = self.queues.lock();
            shared.update(self.id, |queue| queue.end_refund(Vec::new(), None));
            shared.remove_if_over(self.id, Instant::now());
        }
    }
}

impl Shared {
    fn next_number(&mut self) -> u64 {
        self.number = self.number.wrapping_add(1);
        self.number
    }

    /// Changes a queue and updates the count of spare slots. `None` if there is no such queue.
    fn update<R>(&mut self, id: QueueId, change: impl FnOnce(&mut Queue) -> R) -> Option<R> {
        let queue = self.queues.get_mut(&id)?;
        let before = queue.spare();
        let result = change(queue);
        self.spare = self.spare.saturating_sub(before).saturating_add(queue.spare());
        Some(result)
    }

    /// Takes the last spare slots out of a queue, with a receipt for them. `None` if there are none, or if a refund is in
    /// progress.
    fn begin_refund(&mut self, id: QueueId) -> Option<(Receipt, Vec<Slot>)> {
        let now = Instant::now();
        if self.swept_at.is_none_or(|swept| now.saturating_duration_since(swept) >= SWEEP_INTERVAL) {
            self.swept_at = Some(now);
            self.queues.retain(|_, queue| !queue.is_over(now));
            self.spare = self.queues.values().map(Queue::spare).sum();
        }
        let refund = self.update(id, Queue::begin_refund).flatten();
        while self.spare > MAX_SPARE && self.update(id, Queue::forget_spare) == Some(true) {}
        self.remove_if_over(id, now);
        refund
    }

    fn remove_if_over(&mut self, id: QueueId, now: Instant) {
        if self.update(id, |queue| queue.is_over(now)) == Some(true) {
            self.queues.remove(&id);
        }
    }
}

/// How often queues are removed whose spare slots have passed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// The number of spare slots that are kept in all queues, equal to the default number of waiting requests: a few hundred
/// kilobytes. Beyond that, a slot that cannot be refunded at once is lost.
const MAX_SPARE: usize = 4_096;

#[cfg(test)]
mod tests;
