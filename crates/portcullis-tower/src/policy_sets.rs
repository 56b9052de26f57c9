//! Keeps what the checks of handlers need of their policies, so that it is made once for each set of policies.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use portcullis_core::Policy;
use smallvec::SmallVec;

use crate::event::EventLog;
use crate::layer_store::LayerStore;
use crate::response::ResponseSettings;

/// The sets of policies that handlers have checked, bounded in number.
///
/// A set has one log, so that its lines are throttled as those of a layer are. It keeps no reference to the registry that it
/// belongs to.
#[derive(Default)]
pub(crate) struct PolicySets {
    sets: RwLock<HashMap<SetId, PreparedSet>>,
    log: EventLog,
}

/// The digests of the policies, in their order.
type SetId = SmallVec<[u128; 4]>;

/// The store with the policies and the log of a set, and the settings of its responses.
#[derive(Clone)]
pub(crate) struct PreparedSet {
    pub(crate) store: Arc<LayerStore>,
    pub(crate) responses: Arc<ResponseSettings>,
}

impl PreparedSet {
    fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.store.policies().iter().map(|layer_policy| &layer_policy.policy)
    }
}

impl PolicySets {
    /// Returns the set of exactly these policies, in this order.
    pub(crate) fn get<'a>(&self, policies: impl Iterator<Item = &'a Policy> + Clone) -> Option<PreparedSet> {
        let id = id(policies.clone());
        let sets = self.sets.read().unwrap_or_else(PoisonError::into_inner);
        // A digest contains neither the quota nor the failure mode.
        sets.get(&id).filter(|set| set.policies().eq(policies)).cloned()
    }

    /// Keeps a set, unless [`MAX_SETS`] are kept.
    pub(crate) fn insert(&self, set: PreparedSet) {
        let id = id(set.policies());
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        if sets.len() < MAX_SETS || sets.contains_key(&id) {
            sets.insert(id, set);
        }
    }

    /// The log of checks whose policies are refused.
    pub(crate) fn log(&self) -> &EventLog {
        &self.log
    }
}

fn id<'a>(policies: impl Iterator<Item = &'a Policy>) -> SetId {
    policies.map(Policy::digest).collect()
}

/// A program has a few handlers that check. One that makes the names of its policies at run time prepares sets beyond this
/// number for each check anew.
const MAX_SETS: usize = 1_024;

#[cfg(test)]
mod tests {
    use portcullis_core::store::Store;
    use portcullis_core::{FailureMode, Quota};
    use portcullis_memory::MemoryStore;

    use super::*;
    use crate::Global;
    use crate::backend::Backend;
    use crate::policy::{KeySource, LayerPolicy};

    fn prepared(policies: &[Policy]) -> PreparedSet {
        let backend = Arc::new(Backend::new(Arc::new(MemoryStore::new()) as Arc<dyn Store>));
        let by_global = |policy: &Policy| {
            let key = KeySource::Sync(Arc::new(Global));
            LayerPolicy::new(policy.clone(), key)
        };
        let store = LayerStore::new(backend, policies.iter().map(by_global).collect());
        PreparedSet { store: Arc::new(store), responses: Arc::new(ResponseSettings::new()) }
    }

    #[test]
    fn a_set_is_found_by_equal_policies_in_order() {
        let sets = PolicySets::default();
        let [one, two] = ["one", "two"].map(|name| Policy::gcra(name, Quota::per_second(1)));
        let both = [one.clone(), two.clone()];
        sets.insert(prepared(&both));
        assert!(sets.get(both.iter()).is_some());
        assert!(sets.get(both.iter().rev()).is_none() && sets.get([&one].into_iter()).is_none());
        let closed = two.on_store_failure(FailureMode::Closed);
        assert!(sets.get([&one, &closed].into_iter()).is_none());
    }

    #[test]
    fn the_number_of_sets_is_bounded() {
        let sets = PolicySets::default();
        let policy = |number: usize| Policy::try_gcra(&number.to_string(), Quota::per_second(1)).unwrap();
        for number in 0..=MAX_SETS {
            sets.insert(prepared(&[policy(number)]));
        }
        assert!(sets.get([&policy(MAX_SETS - 1)].into_iter()).is_some());
        assert!(sets.get([&policy(MAX_SETS)].into_iter()).is_none());
        assert_eq!(sets.sets.read().unwrap().len(), MAX_SETS);
    }
}
