//! Calls the observers of a registry, without a lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::{Event, Observer};

/// A list that only grows, and is read without a lock. Without observers, an event costs one load.
#[derive(Default)]
pub(crate) struct Observers {
    first: Link,
    /// What the observers ask for, in one word, which every request reads.
    asks: AtomicU8,
}

/// Bits of [`Observers::asks`].
const PRESENT: u8 = 1;
const FINGERPRINTS: u8 = 2;
const CHARGES: u8 = 4;

#[derive(Default)]
struct Link(OnceLock<Box<Node>>);

struct Node {
    observer: Arc<dyn Observer>,
    has_panicked: AtomicBool,
    next: Link,
}

impl Observers {
    pub(crate) fn add(&self, observer: Arc<dyn Observer>) {
        let fingerprints = if observer.wants_fingerprints() { FINGERPRINTS } else { 0 };
        let charges = if observer.wants_charges() { CHARGES } else { 0 };
        let mut node =
            Box::new(Node { observer, has_panicked: AtomicBool::new(false), next: Link::default() });
        let mut end = &self.first;
        while let Err(not_the_end) = end.0.set(node) {
            node = not_the_end;
            end = &end.0.get().expect("only a list with a node refuses another").next;
        }
        self.asks.fetch_or(PRESENT | fingerprints | charges, Relaxed);
    }

    /// Whether there is an observer.
    #[inline]
    pub(crate) fn are_present(&self) -> bool {
        self.ask_for(PRESENT)
    }

    /// Whether an observer asks for the fingerprints of keys.
    #[inline]
    pub(crate) fn want_fingerprints(&self) -> bool {
        self.ask_for(FINGERPRINTS)
    }

    /// Whether an observer asks for each charge.
    #[inline]
    pub(crate) fn want_charges(&self) -> bool {
        self.ask_for(CHARGES)
    }

    #[inline]
    fn ask_for(&self, bit: u8) -> bool {
        self.asks.load(Relaxed) & bit != 0
    }

    /// Calls all observers. A panic of one ends here: it changes nothing for the request, nor for the other observers.
    #[inline]
    pub(crate) fn emit(&self, event: &Event<'_>) {
        if self.are_present() {
            self.call(event);
        }
    }

    #[inline(never)]
    fn call(&self, event: &Event<'_>) {
        let mut rest = &self.first;
        while let Some(node) = rest.0.get() {
            let called = catch_unwind(AssertUnwindSafe(|| node.observer.on_event(event)));
            if let Err(cause) = called {
                // What it holds may panic when it is dropped, as in a destructor during another panic.
                drop(catch_unwind(AssertUnwindSafe(|| drop(cause))));
                node.log_panic();
            }
            rest = &node.next;
        }
    }
}

impl Node {
    /// Once, because it is a mistake in the program, and each event may show it. The hook of panics has printed the message.
    fn log_panic(&self) {
        if !self.has_panicked.swap(true, Relaxed) {
            tracing::error!(
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
