//! What those that follow files and documents need of the rules.

use std::sync::{Arc, PoisonError, Weak};

use super::{LiveRules, ReloadError, Shared};
use crate::load::Loader;
use crate::rules::Rules;

/// The rules, without keeping them.
#[derive(Clone)]
pub(crate) struct WeakLiveRules(Weak<Shared>);

impl LiveRules {
    pub(crate) fn downgrade(&self) -> WeakLiveRules {
        WeakLiveRules(Arc::downgrade(&self.0))
    }

    /// Replaces where the rules come from, and reads them again. Nothing is replaced if that fails, and nothing is reported: see
    /// [`reject`](Self::reject). Reports the reload.
    #[cfg_attr(not(feature = "signed"), allow(dead_code, reason = "only signed documents change a load"))]
    pub(crate) fn reload_from(&self, change: impl FnOnce(&Loader) -> Loader) -> Result<u64, ReloadError> {
        let _reloading = self.0.reloads.lock().unwrap_or_else(PoisonError::into_inner);
        let rules = Rules::load(&change(self.current().loader())).map_err(ReloadError::Invalid)?;
        let generation = self.0.swap(rules)?;
        self.0.registry.rules_reloaded(generation);
        Ok(generation)
    }
}

impl WeakLiveRules {
    /// `None` if no clone of the rules and no layer of them is left.
    pub(crate) fn upgrade(&self) -> Option<LiveRules> {
        self.0.upgrade().map(LiveRules)
    }
}
