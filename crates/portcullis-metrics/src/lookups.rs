//! Publishes the figures of look-ups.

use std::any::Any;
use std::ptr::addr_eq;
use std::sync::{Mutex, PoisonError, Weak};

use metrics::{Counter, Gauge};
use portcullis_tower::Registry;

use crate::catalog as names;
use crate::handles::Handles;
use crate::limiter::as_f64;

/// The figures that are counters, and their metrics.
const COUNTERS: [(&str, &str); 5] = [
    ("lookup_hits", names::LOOKUP_HITS),
    ("lookups", names::LOOKUPS),
    ("lookups_joined", names::LOOKUPS_JOINED),
    ("lookups_failed", names::LOOKUPS_FAILED),
    ("lookups_timed_out", names::LOOKUPS_TIMED_OUT),
];

/// The metrics of the look-ups of all registries. A counter grows by what a registry has counted since it was last asked.
pub(crate) struct Lookups {
    counters: [Counter; COUNTERS.len()],
    entries: Gauge,
    /// Those that were dropped since are removed by the next call.
    registries: Mutex<Vec<Reported>>,
}

/// What a registry has reported when it was last asked.
struct Reported {
    registry: Weak<dyn Any + Send + Sync>,
    counts: [u64; COUNTERS.len()],
    entries: u64,
}

impl Lookups {
    pub(crate) fn new(handles: &Handles) -> Self {
        let entries = handles.gauge(names::LOOKUP_ENTRIES, &[]);
        entries.set(0);
        let counters = COUNTERS.map(|(_, name)| handles.counter(name, &[]));
        Self { counters, entries, registries: Mutex::default() }
    }

    pub(crate) fn refresh(&self, registry: &Registry) {
        // Locked while the registry reports: otherwise two calls at once could count something twice. The state is consistent between
        // any two statements, so a poisoned lock is safe to use.
        let mut registries = self.registries.lock().unwrap_or_else(PoisonError::into_inner);
        registries.retain(|reported| reported.registry.strong_count() > 0);
        let mut now = Reported { registry: registry.instance(), counts: [0; COUNTERS.len()], entries: 0 };
        registry.figures(&mut |figure| {
            if let Some(index) = COUNTERS.iter().position(|(name, _)| *name == figure.name) {
                now.counts[index] = figure.value;
            } else if figure.name == "lookup_entries" {
                now.entries = figure.value;
            }
        });
        let is_it = |reported: &Reported| addr_eq(reported.registry.as_ptr(), now.registry.as_ptr());
        let before = registries.iter().position(is_it).map(|index| registries.swap_remove(index).counts);
        let before = before.unwrap_or_default();
        for ((counter, now), before) in self.counters.iter().zip(now.counts).zip(before) {
            counter.increment(now.saturating_sub(before));
        }
        registries.push(now);
        self.entries.set(as_f64(registries.iter().map(|reported| reported.entries).sum()));
    }
}
