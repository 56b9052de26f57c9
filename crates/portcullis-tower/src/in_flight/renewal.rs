//! Renews the leases of permits that are held.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::{Renewal, Renewed};
use portcullis_core::{StoreError, StoreErrorKind};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Held, HeldPolicy, Shared};
use crate::event::{EventKind, report};

impl Shared {
    /// Makes sure that a task renews what is held. Without a runtime, nothing is renewed until another permit is taken in one.
    pub(super) fn ensure_runner(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        let is_missing = !std::mem::replace(&mut self.lock().has_runner, true);
        if is_missing {
            runtime.spawn(Runner(Some(Arc::clone(self))).run());
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
            if !std::mem::replace(&mut self.lock().has_runner, true) {
                runtime.spawn(Runner(Some(Arc::clone(self))).run());
            }
            if self.lock().has_runner {
                break;
            }
        }
        self.lock().is_moving = false;
    }

    /// How long to wait between two renewals; `None`, and no task, if nothing is held.
    fn next_interval(&self) -> Option<Duration> {
        let mut state = self.lock();
        let interval = state.policies.values().map(HeldPolicy::interval).min();
        if interval.is_none() {
            state.shortest = None;
        }
        let interval =
            interval.map(|interval| state.shortest.map_or(interval, |shortest| shortest.min(interval)));
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
        for mut ids in [local, stored] {
            while !ids.is_empty() {
                let batch = ids.split_off(ids.len().saturating_sub(MAX_BATCH));
                is_answered &= self.renew(batch, deadline).await;
            }
        }
        if !is_answered {
            let mut state = self.lock();
            state.shortest = state.shortest.into_iter().chain(shortest).min();
        }
        is_answered
    }

    async fn renew(&self, ids: Vec<u64>, deadline: Duration) -> bool {
        let (renewals, store): (Vec<_>, _) = {
            let state = self.lock();
            let held = ids.iter().filter_map(|id| Some((*id, state.held.get(id)?)));
            let store = ids.iter().find_map(|id| Some(Arc::clone(&state.held.get(id)?.store)));
            (held.map(|(id, held)| (id, Renewal::of(&held.receipt))).collect(), store)
        };
        // All layers of a limiter have one store.
        let Some(store) = store else { return true };
        let (ids, renewals): (Vec<_>, Vec<_>) = renewals.into_iter().unzip();
        let since = Instant::now();
        let answer = timeout(deadline, store.renew(renewals)).await.unwrap_or_else(|_| {
            Err(StoreError::new(
                StoreErrorKind::TimedOut,
                "a renewal of requests in flight has no answer in time",
            ))
        });
        // A panic of an observer of events must not end the task.
        let conclude = AssertUnwindSafe(|| {
            self.conclude(&ids, since, answer, |error| store.emit_store_state(Some(error)))
        });
        catch_unwind(conclude).unwrap_or(true)
    }

    /// Forgets permits that have lapsed, so that they are not released later. The other leases have begun at `since` or later.
    fn conclude(
        &self,
        ids: &[u64],
        since: Instant,
        answer: Result<Vec<Renewed>, StoreError>,
        failed: impl FnOnce(&StoreError),
    ) -> bool {
        let renewed = match answer {
            Ok(renewed) => renewed,
            Err(error) => {
                failed(&error);
                return false;
            }
        };
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
        true
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
