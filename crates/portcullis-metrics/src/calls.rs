//! Counts the calls of a store to its server.

use std::sync::{Arc, OnceLock};

use metrics::Histogram;
use portcullis_core::store::{CallObserver, CallOutcome, Store, StoreCall};

use crate::catalog as names;
use crate::handles::{Counters, Handles};
use crate::labels::{CallEnd, Labels as _, StoreFailure};

/// The metrics of calls, which exist as soon as a store with a server is observed.
pub(crate) struct Calls {
    handles: Handles,
    series: OnceLock<Series>,
}

struct Series {
    answered: Histogram,
    failed: Histogram,
    decisions: Histogram,
    errors: Counters<StoreFailure>,
}

/// The observer of one store.
struct Observer(Arc<Calls>);

impl Calls {
    pub(crate) fn new(handles: &Handles) -> Self {
        Self { handles: handles.clone(), series: OnceLock::new() }
    }

    /// Counts the calls of a store from now on.
    pub(crate) fn observe(self: &Arc<Self>, store: &dyn Store) {
        let observer = Arc::new(Observer(Arc::clone(self)));
        let kept = Arc::downgrade(&observer);
        store.observe_calls(observer);
        // A store without a server drops the observer.
        if kept.strong_count() > 0 {
            self.series();
        }
    }

    /// Whether a store with a server is observed.
    pub(crate) fn has_server(&self) -> bool {
        self.series.get().is_some()
    }

    fn series(&self) -> &Series {
        self.series.get_or_init(|| {
            let duration = |end: CallEnd| {
                let labels = [(CallEnd::LABEL, CallEnd::TEXTS[end.index()])];
                self.handles.histogram(names::STORE_CALL_DURATION, &labels)
            };
            Series {
                answered: duration(CallEnd::Answered),
                failed: duration(CallEnd::Failed),
                decisions: self.handles.histogram(names::STORE_CALL_DECISIONS, &[]),
                errors: self.handles.counters(names::STORE_CALL_ERRORS),
            }
        })
    }
}

impl CallObserver for Observer {
    fn on_call(&self, call: &StoreCall) {
        let series = self.0.series();
        series.decisions.record(call.decisions);
        match call.outcome {
            CallOutcome::Failed(kind) => {
                series.failed.record(call.latency);
                series.errors.count(StoreFailure::of(kind));
            }
            _ => series.answered.record(call.latency),
        }
    }
}
