//! Calls the observers of a registry, without a lock.

use std::sync::{Arc, OnceLock};

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

    pub(crate) fn emit(&self, event: &Event<'_>) {
        let mut rest = self;
        while let Some(node) = rest.0.get() {
            node.observer.on_event(event);
            rest = &node.next;
        }
    }
}
