//! Calls the observers of a registry, without a lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use arc_swap::ArcSwap;
use portcullis_log::codes;

use super::{Event, Observer};

/// The observers, which are read without a lock. Without one, an event costs one load.
#[derive(Default)]
pub struct Observers {
    all: ArcSwap<Vec<Observed>>,
    /// What the observers ask for, in one word, which every request reads.
    asks: AtomicU8,
}

/// Bits of [`Observers::asks`].
const PRESENT: u8 = 1;
const FINGERPRINTS: u8 = 2;
const CHARGES: u8 = 4;

#[derive(Clone)]
struct Observed {
    observer: Arc<dyn Observer>,
    has_panicked: Arc<AtomicBool>,
}

opaque_debug!(Observers);

impl Observers {
    /// Adds an observer, which gets all events from now on.
    pub fn add(&self, observer: Arc<dyn Observer>) {
        let fingerprints = if observer.wants_fingerprints() { FINGERPRINTS } else { 0 };
        let charges = if observer.wants_charges() { CHARGES } else { 0 };
        let added = [Observed { observer, has_panicked: Arc::default() }];
        self.all.rcu(|all| [all.as_slice(), &added].concat());
        self.asks.fetch_or(PRESENT | fingerprints | charges, Relaxed);
    }

    /// Whether there is an observer.
    #[inline]
    pub fn are_present(&self) -> bool {
        self.ask_for(PRESENT)
    }

    /// Whether an observer asks for the fingerprints of keys.
    #[inline]
    pub fn want_fingerprints(&self) -> bool {
        self.ask_for(FINGERPRINTS)
    }

    /// Whether an observer asks for each charge.
    #[inline]
    pub fn want_charges(&self) -> bool {
        self.ask_for(CHARGES)
    }

    #[inline]
    fn ask_for(&self, bit: u8) -> bool {
        self.asks.load(Relaxed) & bit != 0
    }

    /// Calls all observers. A panic of one ends here: it changes nothing for the request, nor for the other observers.
    #[inline]
    pub fn emit(&self, event: &Event<'_>) {
        if self.are_present() {
            self.call(event);
        }
    }

    #[inline(never)]
    fn call(&self, event: &Event<'_>) {
        for observed in self.all.load().iter() {
            let called = catch_unwind(AssertUnwindSafe(|| observed.observer.on_event(event)));
            if let Err(cause) = called {
                // What it holds may panic when it is dropped, as in a destructor during another panic.
                drop(catch_unwind(AssertUnwindSafe(|| drop(cause))));
                observed.log_panic();
            }
        }
    }
}

impl Observed {
    /// Once, because it is a mistake in the program, and each event may show it. The hook of panics has printed the message.
    fn log_panic(&self) {
        if !self.has_panicked.swap(true, Relaxed) {
            tracing::error!(
                code = %codes::OBSERVER_PANICKED,
                "an observer of the rate limiter has panicked: requests go on, and it gets further events; this is logged once for \
                 each observer"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::EventKind;
    use crate::event::LayerPolicies;

    fn emit(observers: &Observers) {
        observers.emit(&Event::new(&[], EventKind::NotReady));
    }

    #[test]
    fn a_panic_of_an_observer_ends_with_its_call() {
        let (observers, calls) = (Observers::default(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..2 {
            let calls = Arc::clone(&calls);
            observers.add(Arc::new(move |event: &Event<'_>| {
                assert!(matches!(event.policies, LayerPolicies(&[])));
                calls.fetch_add(1, Relaxed);
                panic!("the observer fails");
            }));
        }
        emit(&observers);
        emit(&observers);
        assert_eq!(calls.load(Relaxed), 4);
    }

    #[test]
    fn an_observer_that_panics_during_a_panic_aborts_nothing() {
        struct Emitter(Observers);
        impl Drop for Emitter {
            fn drop(&mut self) {
                emit(&self.0);
            }
        }
        let during_another = catch_unwind(AssertUnwindSafe(|| {
            let emitter = Emitter(Observers::default());
            emitter.0.add(Arc::new(|_: &Event<'_>| panic!("the observer fails")));
            panic!("the service fails");
        }));
        assert_eq!(during_another.unwrap_err().downcast_ref(), Some(&"the service fails"));
    }
}
