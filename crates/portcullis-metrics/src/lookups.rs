//! Publishes the figures of registries: of look-ups, and of layers that shed load.

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

/// The figures that are gauges, and their metrics.
const GAUGES: [(&str, &str); 3] = [
    ("lookup_entries", names::LOOKUP_ENTRIES),
    ("shed_limit", names::SHED_LIMIT),
    ("shed_in_flight", names::SHED_IN_FLIGHT),
];

/// The metrics of the look-ups of all registries. A counter grows by what a registry has counted since it was last asked.
pub(crate) struct Lookups {
    counters: [Counter; COUNTERS.len()],
    gauges: [Gauge; GAUGES.len()],
    /// Registries that were dropped since are removed by the next call.
    registries: Mutex<Vec<Reported>>,
}

/// What a registry has reported when it was last asked.
struct Reported {
    registry: Weak<dyn Any + Send + Sync>,
    counts: [u64; COUNTERS.len()],
    values: [u64; GAUGES.len()],
}

impl Lookups {
    pub(crate) fn new(handles: &Handles) -> Self {
        let gauges = GAUGES.map(|(_, name)| handles.gauge(name, &[]));
        for gauge in &gauges {
            gauge.set(0);
        }
        let counters = COUNTERS.map(|(_, name)| handles.counter(name, &[]));
        Self { counters, gauges, registries: Mutex::default() }
    }

    pub(crate) fn refresh(&self, registry: &Registry) {
        // Locked while the registry reports: otherwise two calls at once could count something twice. The state is consistent between
        // any two statements, so a poisoned lock is safe to use.
        let mut registries = self.registries.lock().unwrap_or_else(PoisonError::into_inner);
        registries.retain(|reported| reported.registry.strong_count() > 0);
        let mut now = Reported {
            registry: registry.instance(),
            counts: [0; COUNTERS.len()],
            values: [0; GAUGES.len()],
        };
        registry.figures(&mut |figure| {
            if let Some(index) = COUNTERS.iter().position(|(name, _)| *name == figure.name) {
                now.counts[index] = figure.value;
            } else if let Some(index) = GAUGES.iter().position(|(name, _)| *name == figure.name) {
                now.values[index] = figure.value;
            }
        });
        let is_it = |reported: &Reported| addr_eq(reported.registry.as_ptr(), now.registry.as_ptr());
        let before = registries.iter().position(is_it).map(|index| registries.swap_remove(index).counts);
        let before = before.unwrap_or_default();
        for ((counter, now), before) in self.counters.iter().zip(now.counts).zip(before) {
            counter.increment(now.saturating_sub(before));
        }
        registries.push(now);
        for (index, gauge) in self.gauges.iter().enumerate() {
            gauge.set(as_f64(registries.iter().map(|reported| reported.values[index]).sum()));
        }
    }
}
