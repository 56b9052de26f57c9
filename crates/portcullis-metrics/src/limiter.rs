//! The metrics of a limiter that belong to no policy.

use std::sync::{Mutex, MutexGuard, PoisonError};

use metrics::{Counter, Gauge};
use portcullis_core::StoreError;

use crate::catalog as names;
use crate::handles::{Counters, Handles};
use crate::labels::{Dropped, Overload, Reload, RequestOutcome, ShedClass, StoreFailure};

pub(crate) struct LimiterMetrics {
    pub(crate) requests: Counters<RequestOutcome>,
    pub(crate) skipped: Counter,
    pub(crate) preflights: Counter,
    unanswered: Counters<StoreFailure>,
    outages: Counter,
    pub(crate) recoveries: Counter,
    pub(crate) overloads: Counters<Overload>,
    pub(crate) shed: Counters<ShedClass>,
    pub(crate) would_shed: Counters<ShedClass>,
    pub(crate) dropped: Counters<Dropped>,
    pub(crate) reloads: Counters<Reload>,
    waiting_requests: Gauge,
    rules_generation: Gauge,
    /// The generation that is published. Held while it is.
    generation: Mutex<u64>,
}

impl LimiterMetrics {
    pub(crate) fn new(handles: &Handles) -> Self {
        let metrics = Self {
            requests: handles.counters(names::REQUESTS),
            skipped: handles.counter(names::SKIPPED, &[]),
            preflights: handles.counter(names::PREFLIGHTS, &[]),
            unanswered: handles.counters(names::UNANSWERED),
            outages: handles.counter(names::OUTAGES, &[]),
            recoveries: handles.counter(names::RECOVERIES, &[]),
            overloads: handles.counters(names::OVERLOADS),
            shed: handles.counters(names::SHED),
            would_shed: handles.counters(names::WOULD_SHED),
            dropped: handles.counters(names::DROPPED_CORRECTIONS),
            reloads: handles.counters(names::RULES_RELOADS),
            waiting_requests: handles.gauge(names::WAITING_REQUESTS, &[]),
            rules_generation: handles.gauge(names::RULES_GENERATION, &[]),
            generation: Mutex::default(),
        };
        metrics.waiting_requests(0);
        metrics.rules_generation(0);
        metrics
    }

    pub(crate) fn store_failed(&self, error: &StoreError, is_new: bool) {
        self.unanswered.count(error.into());
        if is_new {
            self.outages.increment(1);
        }
    }

    pub(crate) fn waiting_requests(&self, requests: usize) {
        self.waiting_requests.set(u32::try_from(requests).unwrap_or(u32::MAX));
    }

    pub(crate) fn rules_generation(&self, generation: u64) {
        self.publish(generation, self.published());
    }

    /// Publishes the generation of an event. If two are emitted at the same time, the one of the newer rules may arrive first.
    pub(crate) fn rules_changed(&self, generation: u64) {
        let published = self.published();
        if generation > *published {
            self.publish(generation, published);
        }
    }

    fn publish(&self, generation: u64, mut published: MutexGuard<'_, u64>) {
        *published = generation;
        self.rules_generation.set(as_f64(generation));
    }

    /// A number is consistent at any time, so a poisoned lock is safe to use.
    fn published(&self) -> MutexGuard<'_, u64> {
        self.generation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Exact up to 2^53, which no figure reaches.
#[expect(clippy::cast_precision_loss, reason = "no figure reaches 2^53")]
pub(crate) fn as_f64(value: u64) -> f64 {
    value as f64
}
