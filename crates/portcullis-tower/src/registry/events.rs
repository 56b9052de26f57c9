//! Events of requests that are decided without a layer.

use portcullis_core::store::Checks;

use super::Registry;
use portcullis_engine::{Event, EventKeys, EventKind, Observer as _};

impl Registry {
    /// Emits an event to the log and to the observers, as a layer does. For programs that decide with the [store](Self::store) itself, such as a
    /// server whose requests are decided under other policies each time: what they decide is then in metrics and in the admin API.
    ///
    /// The event has no policies but those that its kind names, and no fingerprints. [`EventKind::Charged`], `PermitAcquired` and
    /// `PermitReleased` are dropped unless an observer [asks](crate::Observer::wants_charges) for charges.
    pub fn emit_event(&self, kind: EventKind<'_>) {
        self.emit_event_about(kind, || None);
    }

    /// Like [`emit_event`](Self::emit_event), with the keys that the event is about, for its
    /// [fingerprints](crate::Event::fingerprints). `checks` is called only if an observer asks for them.
    pub fn emit_event_about(&self, kind: EventKind<'_>, checks: impl FnOnce() -> Option<Checks>) {
        let observers = self.engine.observers();
        let of_charges = matches!(
            kind,
            EventKind::Charged { .. } | EventKind::PermitAcquired { .. } | EventKind::PermitReleased { .. }
        );
        if of_charges && !observers.want_charges() {
            return;
        }
        let checks = if observers.want_fingerprints() { checks() } else { None };
        let keys = checks.as_ref().map_or(EventKeys::None, EventKeys::of_checks);
        let event = Event::new(&[], kind).with_keys(keys);
        self.policy_sets.log().on_event(&event);
        observers.emit(&event);
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
        registry.add_observer(Arc::new(move |event: &Event<'_>| {
            assert_eq!(event.policies.names().count(), 0);
            counter.fetch_add(1, Relaxed);
        }));
        let policy = Policy::gcra("calls", Quota::per_second(1));
        let decision = Decision::degraded(&policy, Timestamp::EPOCH);
        registry.emit_event(EventKind::Admitted { decisions: std::slice::from_ref(&decision) });
        registry.emit_event(EventKind::Charged { decision: &decision, units: 1 });
        assert_eq!(calls.load(Relaxed), 1, "nobody asks for charges");
    }
    /// Asks for fingerprints, and keeps them.
    #[derive(Default)]
    struct Keys(std::sync::Mutex<Vec<u128>>);

    impl crate::Observer for Keys {
        fn on_event(&self, event: &Event<'_>) {
            let keys = event.fingerprints().map(|(_, key)| key.key().fingerprint());
            self.0.lock().unwrap().extend(keys);
        }

        fn wants_fingerprints(&self) -> bool {
            true
        }
    }

    #[test]
    fn keys_are_made_only_for_those_who_ask() {
        let registry = Registry::new(Arc::new(MemoryStore::new()), Secret::published());
        let policy = Policy::gcra("calls", Quota::per_second(1));
        let key = portcullis_core::Key::from_fingerprints(7, 7, 1);
        let made = AtomicUsize::new(0);
        let checks = || {
            made.fetch_add(1, Relaxed);
            Some(Checks::one(policy.clone(), key, 1))
        };
        registry.emit_event_about(EventKind::Skipped, checks);
        assert_eq!(made.load(Relaxed), 0);
        let keys = Arc::new(Keys::default());
        registry.add_observer(Arc::clone(&keys) as Arc<dyn crate::Observer>);
        registry.emit_event_about(EventKind::Skipped, checks);
        assert_eq!((made.load(Relaxed), keys.0.lock().unwrap().as_slice()), (1, &[7][..]));
    }
}
