//! Settles reservations, and repeats settlements that the store has certainly not made. Releases permits of requests in flight, which
//! may be repeated in any case.
//!
//! ```text
//! end of a response ──► one call ──► done
//!                          │  ▲
//!         certainly undone ▼  │ when it is due
//!                         queue ──► given up: an event
//! ```

mod queue;

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_core::store::StoreFuture;
use portcullis_core::{Receipt, Settlement, StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout, timeout_at};

use crate::detached::NoTask;
use crate::event::{EventKind, SettlementLoss, report};
use crate::limit::is_in_flight;
use crate::limits::Limits;
use queue::{FIRST_DELAY, First, MAX_RELEASES, MAX_WAITING, Queue, backoff};

/// The settlements of all layers of one limiter that are not made yet. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Settlements(Arc<Shared>);

/// The settlements that are left after [`Registry::drain`](crate::Registry::drain), and those that were given up.
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
    /// Wakes those who wait until no settlement is left.
    done: Notify,
}

#[derive(Default)]
struct State {
    queue: Queue<Pending>,
    /// How many in the queue are releases, which take no space from the others.
    releases: usize,
    /// What is in flight is left, without what waits in the queue.
    totals: Drained,
    /// Whether a task repeats settlements.
    has_runner: bool,
    /// How many calls wait until no settlement is left.
    drains: usize,
}

/// A settlement that is not made yet.
struct Pending {
    store: Arc<Limits>,
    receipt: Receipt,
    cost: u64,
    attempts: u32,
}

impl Settlements {
    /// Settles a charge at `cost`, in the background unless the store answers at once.
    pub(crate) fn settle(&self, store: &Arc<Limits>, receipt: Receipt, cost: u64) {
        let pending = Pending { store: Arc::clone(store), receipt, cost, attempts: 0 };
        let permit = match store.engine().task_permit() {
            // Nothing is sent that nobody could wait for.
            Err(NoTask::TooMany) => return self.0.retry(pending),
            Err(NoTask::NoRuntime) => None,
            Ok(permit) => Some(permit),
        };
        match pending.call().into_ready() {
            Ok(answer) => self.0.answered(pending, answer),
            Err(answer) => {
                let call = InFlight::start(&self.0, &mut self.0.lock(), pending);
                match permit {
                    Some(permit) => permit.spawn(call.answered(answer)),
                    None => call.give_up(SettlementLoss::NoRuntime),
                }
            }
        }
    }

    /// Waits until all settlements are made or given up, at most for `deadline`.
    pub(crate) async fn drain(&self, deadline: Duration) -> Drained {
        if deadline.is_zero() {
            // Otherwise polling the numbers would use up the attempts.
            return self.0.lock().left();
        }
        let draining = Draining::start(&self.0);
        let all_done = async {
            loop {
                let mut done = pin!(self.0.done.notified());
                done.as_mut().enable();
                if self.0.lock().left().left == 0 {
                    return;
                }
                self.0.ensure_runner();
                done.await;
            }
        };
        // What is left then is returned.
        let _ = timeout(deadline, all_done).await;
        drop(draining);
        self.0.lock().left()
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
                    kind if kind.may_repeat() => self.retry(pending),
                    StoreErrorKind::Forbidden | StoreErrorKind::Unsupported => {
                        self.give_up(&pending, SettlementLoss::Refused);
                    }
                    // A second release of one permit changes nothing.
                    _ if pending.is_release() => self.retry(pending),
                    _ => self.give_up(&pending, SettlementLoss::Unknown),
                }
            }
        }
    }

    /// Puts a settlement into the queue after an attempt.
    fn retry(self: &Arc<Self>, mut pending: Pending) {
        let given_up = {
            let mut state = self.lock();
            let delay = if state.drains > 0 {
                Some(FIRST_DELAY)
            } else {
                pending.attempts = pending.attempts.saturating_add(1);
                backoff(pending.attempts)
            };
            match delay {
                None => Some((pending, SettlementLoss::GivenUp)),
                Some(delay) => {
                    let is_release = pending.is_release();
                    let others = if is_release { MAX_RELEASES } else { state.releases };
                    let refused =
                        state.queue.push(Instant::now() + delay, pending, MAX_WAITING + others).err();
                    state.releases += usize::from(is_release && refused.is_none());
                    refused.map(|pending| (pending, SettlementLoss::QueueFull))
                }
            }
        };
        match given_up {
            Some((pending, cause)) => self.give_up(&pending, cause),
            None => self.run(),
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

    /// Starts a task again whose runtime has ended.
    fn ensure_runner(self: &Arc<Self>) {
        let is_missing = {
            let state = self.lock();
            !state.has_runner && state.queue.items().next().is_some()
        };
        if is_missing {
            self.run();
        }
    }

    /// Makes sure that a task repeats what is due. Without a runtime that is left to the next settlement, or to a drain.
    fn run(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        if std::mem::replace(&mut self.lock().has_runner, true) {
            self.due.notify_one();
        } else {
            runtime.spawn(Runner(Some(Arc::clone(self))).run());
        }
    }

    /// The state is consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn left(&self) -> Drained {
        self.queue.items().fold(self.totals, |left, pending| left.plus(pending.units()))
    }
}

impl Drained {
    fn plus(self, units: u64) -> Self {
        Self { left: self.left.saturating_add(1), units: self.units.saturating_add(units), ..self }
    }

    fn minus(self, units: u64) -> Self {
        Self { left: self.left.saturating_sub(1), units: self.units.saturating_sub(units), ..self }
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

/// A settlement that the store was asked to make. If it is dropped without an answer, as with the runtime, its fate is unknown.
struct InFlight {
    shared: Arc<Shared>,
    pending: Option<Pending>,
    units: u64,
}

impl InFlight {
    fn start(shared: &Arc<Shared>, state: &mut State, pending: Pending) -> Self {
        let units = pending.units();
        state.totals = state.totals.plus(units);
        Self { shared: Arc::clone(shared), pending: Some(pending), units }
    }

    async fn answered(mut self, answer: StoreFuture<Settlement>) {
        let answer = answer.await;
        if let Some(pending) = self.pending.take() {
            self.shared.answered(pending, answer);
        }
    }

    fn give_up(mut self, cause: SettlementLoss) {
        if let Some(pending) = self.pending.take() {
            self.shared.give_up(&pending, cause);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.shared.give_up(&pending, SettlementLoss::Unknown);
        }
        // Last, so that a drain that sees no settlement in flight sees those that were put into the queue.
        let mut state = self.shared.lock();
        state.totals = state.totals.minus(self.units);
        drop(state);
        self.shared.done.notify_waiters();
    }
}

/// The task that repeats settlements, one after the other. `None` once the queue is empty.
struct Runner(Option<Arc<Shared>>);

impl Runner {
    async fn run(mut self) {
        while let Some(shared) = self.0.clone() {
            let (call, due) = {
                let mut state = shared.lock();
                match state.queue.take_due(Instant::now()) {
                    First::Due(pending) => {
                        state.releases = state.releases.saturating_sub(usize::from(pending.is_release()));
                        (Some(InFlight::start(&shared, &mut state, pending)), None)
                    }
                    First::DueAt(due) => (None, Some(due)),
                    First::Empty => {
                        state.has_runner = false;
                        self.0 = None;
                        (None, None)
                    }
                }
            };
            if let Some(call) = call
                && let Some(answer) = call.pending.as_ref().map(Pending::call)
            {
                call.answered(answer).await;
            }
            if let Some(due) = due {
                // Earlier if another one is due earlier, or all are.
                let _ = timeout_at(due, shared.due.notified()).await;
            }
        }
    }
}

impl Drop for Runner {
    /// Only if the runtime ends.
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.lock().has_runner = false;
            // A drain in another runtime starts the next one.
            shared.done.notify_waiters();
        }
    }
}

/// Makes everything due, and keeps attempts from being counted, until it is dropped.
struct Draining<'a>(&'a Shared);

impl<'a> Draining<'a> {
    fn start(shared: &'a Arc<Shared>) -> Self {
        let mut state = shared.lock();
        state.drains = state.drains.saturating_add(1);
        state.queue.make_all_due(Instant::now());
        drop(state);
        shared.run();
        Self(shared)
    }
}

impl Drop for Draining<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.drains = state.drains.saturating_sub(1);
    }
}
