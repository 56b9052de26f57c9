//! Publishes the figures of stores.

mod names;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ptr::addr_eq;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use metrics::{Counter, Gauge, Unit};
use portcullis_core::PolicyName;
use portcullis_core::store::{Figure, FigureKind, FigureUnit, Store};

use crate::catalog::MetricKind;
use crate::events::Events;
use crate::handles::Handles;
use crate::limiter::as_f64;

use self::names::Names;

/// The figures that were published, and the stores that have reported them.
///
/// The numbers of several stores are added up. What a store counts is published by its growth since it was last asked, so that a
/// counter never falls: neither with a store that is gone, nor with a policy that a store has forgotten and begins anew.
pub(crate) struct Figures {
    handles: Handles,
    /// Locked while a store reports: the figures of two calls at once would come in any order, and a counter would seem to fall.
    published: Mutex<Published>,
}

#[derive(Default)]
struct Published {
    names: Names,
    series: HashMap<Id, Series>,
    /// Stores that were dropped since are removed by the next call.
    stores: Vec<Reported>,
}

/// The name of a figure, and its policy.
type Id = (&'static str, Option<PolicyName>);

struct Series {
    handle: Handle,
    unit: FigureUnit,
}

enum Handle {
    Counter(Counter),
    /// What only grows, and is no whole number: the total so far.
    Growing(Gauge, u64),
    Gauge(Gauge),
}

/// What a store has reported when it was last asked.
struct Reported {
    store: Weak<dyn Store>,
    values: HashMap<Id, u64>,
    waiting_requests: usize,
}

impl Figures {
    pub(crate) fn new(handles: &Handles) -> Self {
        Self { handles: handles.clone(), published: Mutex::default() }
    }

    /// Asks a store for its figures, and publishes them. Returns how many requests wait with all stores.
    pub(crate) fn refresh(&self, events: &Events, store: &Arc<dyn Store>, waiting_requests: usize) -> usize {
        // The state is consistent between any two statements, so a poisoned lock is safe to use.
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        let Published { names, series, stores } = &mut *published;
        stores.retain(|reported| reported.store.strong_count() > 0);
        let mut values = HashMap::new();
        store.figures(&mut |figure| {
            // Figures of several policies under one label would overwrite each other.
            if figure.policy.is_some_and(|policy| !events.policies().has_label(policy)) {
                return;
            }
            let id = (figure.name, figure.policy.cloned());
            if let Entry::Vacant(entry) = series.entry(id.clone()) {
                let Some(name) = names.of(figure) else { return };
                entry.insert(self.make(name, figure));
            }
            values.insert(id, figure.value);
        });

        let is_it = |reported: &Reported| addr_eq(reported.store.as_ptr(), Arc::as_ptr(store));
        let before = stores.iter().position(is_it).map(|index| stores.swap_remove(index));
        for (id, value) in &values {
            let before = before.as_ref().and_then(|reported| reported.values.get(id)).copied();
            if let Some(series) = series.get_mut(id) {
                series.grow(value.saturating_sub(before.unwrap_or(0)));
            }
        }
        stores.push(Reported { store: Arc::downgrade(store), values, waiting_requests });
        for (id, series) in series.iter() {
            // 0 for what no store reports any more.
            series.set(stores.iter().filter_map(|reported| reported.values.get(id)).sum());
        }
        stores.iter().map(|reported| reported.waiting_requests).sum()
    }

    fn make(&self, name: &str, figure: Figure<'_>) -> Series {
        let unit = match figure.unit {
            FigureUnit::Bytes => Unit::Bytes,
            FigureUnit::Microseconds => Unit::Seconds,
            _ => Unit::Count,
        };
        let kind = if is_counter(figure) { MetricKind::Counter } else { MetricKind::Gauge };
        let name = name.to_owned();
        self.handles.describe_one(name.clone(), kind, Some(unit), figure.help);
        let label = figure.policy.map(|policy| ("policy", policy.as_str()));
        let labels = label.as_slice();
        let handle = match figure.kind {
            _ if is_counter(figure) => Handle::Counter(self.handles.counter(name, labels)),
            FigureKind::Counter => Handle::Growing(self.handles.gauge(name, labels), 0),
            _ => Handle::Gauge(self.handles.gauge(name, labels)),
        };
        Series { handle, unit: figure.unit }
    }
}

impl Series {
    /// Adds to what only grows.
    fn grow(&mut self, by: u64) {
        match &mut self.handle {
            Handle::Counter(counter) => counter.increment(by),
            Handle::Growing(gauge, total) => {
                *total = total.saturating_add(by);
                gauge.set(in_unit(*total, self.unit));
            }
            Handle::Gauge(_) => {}
        }
    }

    /// Sets what may fall.
    fn set(&self, value: u64) {
        if let Handle::Gauge(gauge) = &self.handle {
            gauge.set(in_unit(value, self.unit));
        }
    }
}

/// In the base units of Prometheus.
fn in_unit(value: u64, unit: FigureUnit) -> f64 {
    match unit {
        FigureUnit::Microseconds => as_f64(value) / 1e6,
        _ => as_f64(value),
    }
}

/// Whether a figure becomes a counter. Counters of the facade are whole numbers, so a time becomes a gauge, in seconds.
fn is_counter(figure: Figure<'_>) -> bool {
    figure.kind == FigureKind::Counter && figure.unit != FigureUnit::Microseconds
}
