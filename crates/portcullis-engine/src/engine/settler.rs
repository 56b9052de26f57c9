//! What goes on after its request is gone: tasks, bounded in number, and settlements, which are repeated if the store has certainly not
//! made them. Releases of permits of requests in flight may be repeated in any case.
//!
//! ```text
//! end of a response ──► one call ──► done
//!                          │  ▲
//!         certainly undone ▼  │ when it is due
//!                         queue ──► given up: an event
//! ```
//!
//! The queue outlasts runtimes, and is filled without one. So it is no `DelayQueue` of tokio-util, which is bound to one runtime and
//! panics without; its `TaskTracker` bounds no number of tasks, and does not know of what waits.

mod queue;
mod tasks;

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_core::store::StoreFuture;
use portcullis_core::{Receipt, Settlement, StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::engine::Limits;
use crate::engine::report;
use crate::event::{EventKind, SettlementLoss};
use crate::limit::is_in_flight;
use crate::task::spawn;
use queue::{FIRST_DELAY, MAX_RELEASES, MAX_WAITING, Queue, backoff};
pub(crate) use tasks::Tasks;
pub use tasks::{NoTask, TaskPermit};

/// The settlements of all layers of one limiter that are not made yet. Clones share them.
#[derive(Clone, Default)]
pub struct Settler(Arc<Shared>);

/// The settlements that are left after `Limiter::drain`, and those that were given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct Drained {
    /// How many settlements are left. Their reservations stay charged if the process ends now.
    pub left: usize,
    /// The units that they would refund or charge, in total.
    pub units: u64,
    /// How many settlements were [given up](crate::EventKind::SettlementLost) since the limiter was made.
    pub lost: u64,
    /// The units that they would have refunded or charged, in total.
    pub lost_units: u64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the task that repeats settlements.
    due: Notify,
    /// Wakes the drains when a settlement is made or given up.
    done: Notify,
}

#[derive(Default)]
struct State {
    queue: Queue<Pending>,
    /// How many in the queue are releases, which take no space from the others.
    releases: usize,
    /// What is left is in the queue, or the store was asked for it.
    totals: Drained,
    /// The task that repeats settlements, one after the other, until the queue is empty.
    repeating: Option<JoinHandle<()>>,
    /// Whether the limiter is gone, so that nothing may start another task.
    is_abandoned: bool,
    /// Each drain in progress has a clone. Meanwhile attempts are not counted.
    draining: Arc<()>,
}

/// A settlement that is not made yet.
struct Pending {
    store: Arc<Limits>,
    receipt: Receipt,
    cost: u64,
    attempts: u32,
}

opaque_debug!(Settler);

impl Settler {
    /// Settles a charge at `cost`, in the background unless the store answers at once.
    pub fn settle(&self, store: &Arc<Limits>, receipt: Receipt, cost: u64) {
        let pending = Pending { store: Arc::clone(store), receipt, cost, attempts: 0 };
        let permit = store.engine().backlog.task_permit();
        if let Err(NoTask::TooMany) = permit {
            // A call is sent only if a task can wait for its answer.
            return self.0.retry(pending);
        }
        match (pending.call().into_ready(), permit) {
            (Ok(answer), _) => self.0.answered(pending, answer),
            (Err(_), Err(_)) => self.0.give_up(&pending, SettlementLoss::NoRuntime),
            (Err(answer), Ok(permit)) => {
                self.0.lock().totals.add(pending.units());
                permit.spawn(Call::new(&self.0, pending).answered(answer));
            }
        }
    }

    /// Waits until all settlements are made or given up, at most for `deadline`.
    pub async fn drain(&self, deadline: Duration) -> Drained {
        // Otherwise polling the numbers would use up the attempts.
        if !deadline.is_zero() {
            let _draining = self.0.lock().start_drain();
            // What is left then is returned.
            let _ = timeout(deadline, self.0.all_done()).await;
        }
        self.0.lock().totals
    }

    /// Drops what waits as soon as no task repeats it. Nothing may start another task, and what waits keeps the limiter in memory.
    pub fn abandon(&self) {
        self.0.lock().is_abandoned = true;
        self.0.run();
    }
}

impl Shared {
    fn answered(self: &Arc<Self>, pending: Pending, answer: Result<Settlement, StoreError>) {
        let Pending { store, receipt, cost, .. } = &pending;
        match answer {
            Ok(settlement) if pending.is_release() => {
                let decision = &settlement.decision;
                report::of_key(
                    store,
                    decision.policy(),
                    receipt.key(),
                    EventKind::PermitReleased { decision },
                );
            }
            Ok(settlement) => report::settled(store, receipt.key(), receipt.cost(), *cost, &settlement),
            Err(error) => {
                store.emit_store_state(Some(&error));
                match error.kind() {
                    StoreErrorKind::Forbidden | StoreErrorKind::Unsupported => {
                        self.give_up(&pending, SettlementLoss::Refused);
                    }
                    // A second release of one permit changes nothing.
                    kind if kind.may_repeat() || pending.is_release() => self.retry(pending),
                    _ => self.give_up(&pending, SettlementLoss::Unknown),
                }
            }
        }
    }

    /// Puts a settlement into the queue after an attempt.
    fn retry(self: &Arc<Self>, pending: Pending) {
        let refused = self.lock().push(pending);
        match refused {
            None => self.run(),
            Some((pending, cause)) => self.give_up(&pending, cause),
        }
    }

    fn give_up(&self, pending: &Pending, cause: SettlementLoss) {
        let Pending { store, receipt, cost, .. } = pending;
        {
            let totals = &mut self.lock().totals;
            totals.lost = totals.lost.saturating_add(1);
            totals.lost_units = totals.lost_units.saturating_add(pending.units());
        }
        report::lost(store, receipt, *cost, cause);
    }

    /// Makes sure that a task repeats what is due. Without a runtime that is left to the next settlement, or to a drain, if there may
    /// be one.
    fn run(self: &Arc<Self>) {
        let mut state = self.lock();
        // The task of a runtime that has ended is finished.
        if state.repeating.as_ref().is_some_and(|task| !task.is_finished()) {
            self.due.notify_one();
        } else if !state.queue.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            let is_handed_over = Arc::<AtomicBool>::default();
            let repeating = Repeating {
                shared: Arc::clone(self),
                is_done: false,
                is_handed_over: Arc::clone(&is_handed_over),
            };
            state.repeating = Some(spawn(&runtime, repeating.repeat()));
            // A runtime that ends drops the task at once, while the state is locked here.
            if is_handed_over.swap(true, SeqCst) {
                drop(state);
                self.forget_if_abandoned();
            }
        } else {
            drop(state);
            self.forget_if_abandoned();
        }
    }

    /// Drops what waits if nothing will repeat it. The last one may drop the limiter, so the state is not locked then.
    fn forget_if_abandoned(&self) {
        let mut state = self.lock();
        let waiting = state.is_abandoned.then(|| mem::take(&mut state.queue));
        drop(state);
        drop(waiting);
    }

    async fn all_done(self: &Arc<Self>) {
        loop {
            let done = self.done.notified();
            if self.lock().totals.left == 0 {
                return;
            }
            self.run();
            // Looks again, because the runtime of the task may have ended.
            let _ = timeout(FIRST_DELAY, done).await;
        }
    }

    /// The state is consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Adds a settlement after an attempt. Returns it with the cause if it is to be given up.
    fn push(&mut self, mut pending: Pending) -> Option<(Pending, SettlementLoss)> {
        let is_draining = Arc::strong_count(&self.draining) > 1;
        pending.attempts = pending.attempts.saturating_add(u32::from(!is_draining));
        let delay = if is_draining { Some(FIRST_DELAY) } else { backoff(pending.attempts) };
        let Some(delay) = delay else { return Some((pending, SettlementLoss::GivenUp)) };
        let (units, is_release) = (pending.units(), pending.is_release());
        let most = MAX_WAITING + if is_release { MAX_RELEASES } else { self.releases };
        if let Err(pending) = self.queue.push(Instant::now() + delay, pending, most) {
            return Some((pending, SettlementLoss::QueueFull));
        }
        self.releases += usize::from(is_release);
        self.totals.add(units);
        None
    }

    /// Makes everything due. Attempts are not counted as long as the result is held.
    fn start_drain(&mut self) -> Arc<()> {
        self.queue.make_all_due(Instant::now());
        Arc::clone(&self.draining)
    }

    /// Takes the first settlement if it is due. Otherwise the task waits until it is, or ends.
    fn next(&mut self) -> Result<Pending, Option<Instant>> {
        let next = self.queue.take_due(Instant::now());
        match &next {
            Ok(pending) => {
                self.releases = self.releases.saturating_sub(usize::from(pending.is_release()));
            }
            Err(Some(_)) => {}
            Err(None) => self.repeating = None,
        }
        next
    }
}

impl Drained {
    fn add(&mut self, units: u64) {
        self.left = self.left.saturating_add(1);
        self.units = self.units.saturating_add(units);
    }

    fn remove(&mut self, units: u64) {
        self.left = self.left.saturating_sub(1);
        self.units = self.units.saturating_sub(units);
    }
}

impl Pending {
    fn call(&self) -> StoreFuture<Settlement> {
        self.store.settle(self.receipt.copy_for_retry(), self.cost)
    }

    /// Whether it releases the permit of a request in flight.
    fn is_release(&self) -> bool {
        is_in_flight(self.receipt.policy())
    }

    /// The units that the settlement refunds or charges.
    fn units(&self) -> u64 {
        self.receipt.cost().abs_diff(self.cost)
    }
}

/// What a task does that repeats what waits. If it is dropped before all is done, as with its runtime, something may be left.
struct Repeating {
    shared: Arc<Shared>,
    is_done: bool,
    /// Whether what has started it, or its end, has been here. The second of them forgets what waits.
    is_handed_over: Arc<AtomicBool>,
}

impl Repeating {
    async fn repeat(mut self) {
        loop {
            let next = self.shared.lock().next();
            match next {
                Ok(pending) => {
                    let call = Call::new(&self.shared, pending);
                    if let Some(answer) = call.pending.as_ref().map(Pending::call) {
                        call.answered(answer).await;
                    }
                }
                // Earlier if another one is due earlier, or all are.
                Err(Some(due)) => drop(timeout_at(due, self.shared.due.notified()).await),
                Err(None) => break self.is_done = true,
            }
        }
    }
}

impl Drop for Repeating {
    fn drop(&mut self) {
        if !self.is_done && self.is_handed_over.swap(true, SeqCst) {
            self.shared.forget_if_abandoned();
        }
    }
}

/// A settlement that the store was asked to make. If it is dropped without an answer, as with the runtime, its fate is unknown.
struct Call {
    shared: Arc<Shared>,
    pending: Option<Pending>,
    units: u64,
}

impl Call {
    fn new(shared: &Arc<Shared>, pending: Pending) -> Self {
        Self { shared: Arc::clone(shared), units: pending.units(), pending: Some(pending) }
    }

    async fn answered(mut self, answer: StoreFuture<Settlement>) {
        let answer = answer.await;
        if let Some(pending) = self.pending.take() {
            self.shared.answered(pending, answer);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.shared.give_up(&pending, SettlementLoss::Unknown);
        }
        // Last, so that a drain that sees no settlement in flight sees those that were put into the queue.
        self.shared.lock().totals.remove(self.units);
        self.shared.done.notify_waiters();
    }
}
