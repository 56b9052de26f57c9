//! Events of requests that are decided without a layer.

use super::Registry;
use portcullis_engine::{Event, EventKind};

impl Registry {
    /// Emits an event to the log and to the observers, as a layer does. For programs that decide with the [store](Self::store) itself, such as a
    /// server whose requests are decided under other policies each time: what they decide is then in metrics and in the admin API.
    ///
    /// The event has no policies but those that its kind names, and no fingerprints. [`EventKind::Charged`], `PermitAcquired` and
    /// `PermitReleased` are dropped unless an observer [asks](crate::Observer::wants_charges) for charges.
    pub fn emit_event(&self, kind: EventKind<'_>) {
        let observers = self.engine.observers();
        let of_charges = matches!(
            kind,
            EventKind::Charged { .. } | EventKind::PermitAcquired { .. } | EventKind::PermitReleased { .. }
        );
        if of_charges && !observers.want_charges() {
            return;
        }
        let event = Event::new(&[], kind);
        self.engine.emit(self.policy_sets.log(), &event);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use portcullis_core::{Decision, Policy, Quota, Secret, Timestamp};
    use portcullis_memory::MemoryStore;

    use super::*;

    #[test]
    fn observers_get_what_a_program_emits() {
        let registry = Registry::new(Arc::new(MemoryStore::new()), Secret::published());
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&calls);
        registry.observe(Arc::new(move |event: &Event<'_>| {
            assert_eq!(event.policies.names().count(), 0);
            counter.fetch_add(1, Relaxed);
        }));
        let policy = Policy::gcra("calls", Quota::per_second(1));
        let decision = Decision::degraded(&policy, Timestamp::EPOCH);
        registry.emit_event(EventKind::Admitted { decisions: std::slice::from_ref(&decision) });
        registry.emit_event(EventKind::Charged { decision: &decision, units: 1 });
        assert_eq!(calls.load(Relaxed), 1, "nobody asks for charges");
    }
}
