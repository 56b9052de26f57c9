//! Renews the leases of permits that are held.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::{Renewal, Renewed};
use portcullis_core::{StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Held, HeldPolicy, Shared};
use crate::engine::report;
use crate::event::EventKind;
use crate::task;

impl Shared {
    /// Makes sure that a task renews what is held. Without a runtime, nothing is renewed until another permit is taken in one.
    pub(super) fn ensure_runner(self: &Arc<Self>) {
        if let Ok(runtime) = Handle::try_current() {
            self.ensure_runner_in(&runtime);
        }
    }

    fn ensure_runner_in(self: &Arc<Self>, runtime: &Handle) {
        let is_missing = !std::mem::replace(&mut self.lock().has_runner, true);
        if is_missing {
            task::spawn(runtime, Runner(Some(Arc::clone(self))).run());
        }
    }

    /// Starts the task in the runtime of another permit, after its own has ended.
    fn move_runner(self: &Arc<Self>) {
        let runtimes: Vec<_> = {
            let mut state = self.lock();
            state.has_runner = false;
            // A runtime that has ended drops the task at once, which leads here again. A task that panics does so in any runtime.
            if state.is_moving || std::thread::panicking() {
                return;
            }
            state.is_moving = true;
            state.held.values().filter_map(|held| held.runtime.clone()).collect()
        };
        for runtime in runtimes {
            self.ensure_runner_in(&runtime);
            if self.lock().has_runner {
                break;
            }
        }
        self.lock().is_moving = false;
    }

    /// How long to wait between two renewals; `None`, and no task, if nothing is held.
    fn next_interval(&self) -> Option<Duration> {
        let mut state = self.lock();
        if state.policies.is_empty() {
            state.shortest = None;
        }
        let interval = state.policies.values().map(HeldPolicy::interval).chain(state.shortest).min();
        state.has_runner = interval.is_some();
        state.interval = interval.unwrap_or_default();
        interval
    }

    /// Renews everything that is held. Returns whether the store has answered, each call within `deadline`.
    async fn renew_all(&self, deadline: Duration) -> bool {
        let (local, stored, shortest) = {
            let mut state = self.lock();
            let is_local =
                |id: &u64| state.held.get(id).is_some_and(|held| held.receipt.fallback_id().is_some());
            let (local, stored): (Vec<u64>, Vec<u64>) = state.held.keys().copied().partition(is_local);
            (local, stored, state.shortest.take())
        };
        let mut is_answered = true;
        // Apart, because those of a fallback are renewed while the store fails.
        for batch in local.chunks(MAX_BATCH).chain(stored.chunks(MAX_BATCH)) {
            is_answered &= self.renew(batch, deadline).await;
        }
        if !is_answered {
            let mut state = self.lock();
            state.shortest = state.shortest.into_iter().chain(shortest).min();
        }
        is_answered
    }

    async fn renew(&self, ids: &[u64], deadline: Duration) -> bool {
        let ((ids, renewals), store): ((Vec<_>, Vec<_>), _) = {
            let state = self.lock();
            let held = ids.iter().filter_map(|id| Some((*id, state.held.get(id)?)));
            let store = held.clone().next().map(|(_, held)| Arc::clone(&held.store));
            (held.map(|(id, held)| (id, Renewal::of(&held.receipt))).unzip(), store)
        };
        // All layers of a limiter have one store.
        let Some(store) = store else { return true };
        let since = Instant::now();
        let answer = timeout(deadline, store.renew(renewals)).await.unwrap_or_else(|_| {
            Err(StoreError::new(
                StoreErrorKind::TimedOut,
                "a renewal of requests in flight has no answer in time",
            ))
        });
        let conclude = AssertUnwindSafe(|| match &answer {
            Ok(renewed) => self.conclude(&ids, since, renewed),
            Err(error) => store.emit_store_state(Some(error)),
        });
        // A panic of an observer of events must not end the task.
        catch_unwind(conclude).is_err() || answer.is_ok()
    }

    /// Forgets permits that have lapsed, so that they are not released later. The other leases have begun at `since` or later.
    fn conclude(&self, ids: &[u64], since: Instant, renewed: &[Renewed]) {
        let mut lapsed = Vec::new();
        {
            let mut state = self.lock();
            for (id, renewed) in ids.iter().zip(renewed) {
                // A permit that was released meanwhile is not there.
                if renewed.lapsed > 0 {
                    lapsed.extend(state.remove(*id));
                } else if let Some(held) = state.held.get_mut(id) {
                    held.since = since;
                }
            }
        }
        for Held { store, receipt, .. } in lapsed {
            let policy = receipt.policy().name();
            report::of_key(&store, policy, receipt.key(), EventKind::PermitLapsed { policy });
        }
    }
}

/// The task that renews what is held. `None` once nothing is.
struct Runner(Option<Arc<Shared>>);

impl Runner {
    async fn run(mut self) {
        let Some(shared) = self.0.clone() else { return };
        let (mut last, mut is_answered) = (Instant::now(), true);
        while let Some(interval) = shared.next_interval() {
            // Sooner after a failure, so that a lease survives several.
            let wait = if is_answered { interval } else { interval / RETRIES };
            if timeout_at(last + wait, shared.changed.notified()).await.is_ok() {
                continue;
            }
            is_answered = shared.renew_all(interval).await;
            last = Instant::now();
        }
        self.0 = None;
    }
}

impl Drop for Runner {
    /// Only if the runtime ends.
    fn drop(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.move_runner();
        }
    }
}

/// Bounds the memory of a call, and the time under the lock.
const MAX_BATCH: usize = 1_024;

/// How many times a renewal is repeated in the time between two.
const RETRIES: u32 = 4;
