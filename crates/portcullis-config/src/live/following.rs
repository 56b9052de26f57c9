//! What those that follow files and documents need of the rules.

use std::sync::{Arc, Weak};

use super::{LiveRules, Shared};

/// The rules, without keeping them.
#[derive(Clone)]
pub(crate) struct WeakLiveRules(Weak<Shared>);

impl LiveRules {
    pub(crate) fn downgrade(&self) -> WeakLiveRules {
        WeakLiveRules(Arc::downgrade(&self.0))
    }
}

impl WeakLiveRules {
    /// `None` if no clone of the rules and no layer of them is left.
    pub(crate) fn upgrade(&self) -> Option<LiveRules> {
        self.0.upgrade().map(LiveRules)
    }
}
