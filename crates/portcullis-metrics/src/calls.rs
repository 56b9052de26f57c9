//! Counts the calls of a store to its server.

use metrics::Histogram;
use portcullis_core::store::{CallObserver, CallOutcome, StoreCall};

use crate::catalog as names;
use crate::handles::{Counters, Handles};
use crate::labels::{CallEnd, Labels as _, StoreFailure};

pub(crate) struct Calls {
    answered: Histogram,
    failed: Histogram,
    decisions: Histogram,
    errors: Counters<StoreFailure>,
}

impl Calls {
    pub(crate) fn new(handles: &Handles) -> Self {
        let duration = |end: CallEnd| {
            let labels = [(CallEnd::LABEL, CallEnd::TEXTS[end.index()])];
            handles.histogram(names::STORE_CALL_DURATION, &labels)
        };
        Self {
            answered: duration(CallEnd::Answered),
            failed: duration(CallEnd::Failed),
            decisions: handles.histogram(names::STORE_CALL_DECISIONS, &[]),
            errors: handles.counters(names::STORE_CALL_ERRORS, &[]),
        }
    }
}

impl CallObserver for Calls {
    fn on_call(&self, call: &StoreCall) {
        self.decisions.record(call.decisions);
        match call.outcome {
            CallOutcome::Failed(kind) => {
                self.failed.record(call.latency);
                self.errors.count(StoreFailure::of(kind));
            }
            _ => self.answered.record(call.latency),
        }
    }
}
