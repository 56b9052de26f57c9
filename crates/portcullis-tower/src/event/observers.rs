//! Calls the observers of a registry, without a lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;

use super::{Event, Observer};

/// A list that only grows, and is read without a lock. Without observers, an event costs one load.
#[derive(Default)]
pub(crate) struct Observers(OnceLock<Box<Node>>);

struct Node {
    observer: Arc<dyn Observer>,
    next: Observers,
}

impl Observers {
    pub(crate) fn add(&self, observer: Arc<dyn Observer>) {
        let mut node = Box::new(Node { observer, next: Self::default() });
        let mut end = self;
        loop {
            match end.0.set(node) {
                Ok(()) => return,
                Err(not_the_end) => node = not_the_end,
            }
            end = &end.0.get().expect("only a list with a node refuses another").next;
        }
    }

    /// A panic of an observer propagates, unless the event is emitted while the thread unwinds from another panic: that would abort
    /// the process.
    pub(crate) fn emit(&self, event: &Event<'_>) {
        let mut rest = self;
        while let Some(node) = rest.0.get() {
            if thread::panicking() {
                drop(catch_unwind(AssertUnwindSafe(|| node.observer.on_event(event))));
            } else {
                node.observer.on_event(event);
            }
            rest = &node.next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventKind;
    use crate::event::LayerPolicies;

    #[test]
    fn an_observer_that_panics_during_a_panic_aborts_nothing() {
        struct Emitter(Observers);
        impl Drop for Emitter {
            fn drop(&mut self) {
                self.0.emit(&Event { policies: LayerPolicies(&[]), kind: EventKind::NotReady });
            }
        }
        let panicking_observers = || {
            let observers = Observers::default();
            observers.add(Arc::new(|_: &Event<'_>| panic!("the observer fails")));
            Emitter(observers)
        };
        let alone = catch_unwind(AssertUnwindSafe(|| drop(panicking_observers())));
        assert_eq!(alone.unwrap_err().downcast_ref(), Some(&"the observer fails"));
        let during_another = catch_unwind(AssertUnwindSafe(|| {
            let _emitter = panicking_observers();
            panic!("the service fails");
        }));
        assert_eq!(during_another.unwrap_err().downcast_ref(), Some(&"the service fails"));
    }
}
