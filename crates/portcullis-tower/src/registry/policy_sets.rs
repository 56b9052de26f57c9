//! Keeps what the checks of handlers need of their policies, so that it is made once for each set of policies.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use portcullis_core::Policy;
use smallvec::SmallVec;

use crate::limit::Limit;
use portcullis_engine::EventLog;
use portcullis_engine::Limits;
use portcullis_engine::policies::Membership;
use portcullis_response::internal::ResponseSettings;

/// The sets of policies that handlers have checked, bounded in number.
///
/// A set has one log, so that its lines are throttled as those of a layer are. It keeps no reference to the registry that it
/// belongs to.
#[derive(Default)]
pub(crate) struct PolicySets {
    sets: RwLock<HashMap<SetId, Entry>>,
    log: EventLog,
}

/// The digests of the policies, in their order.
type SetId = SmallVec<[u128; 4]>;

struct Entry {
    /// The policies as the handlers state them.
    declared: Box<[Policy]>,
    /// The generation of the policies that the set agrees with.
    generation: u64,
    set: PreparedSet,
}

/// The store with the policies and the log of a set, and the settings of its responses.
#[derive(Clone)]
pub(crate) struct PreparedSet {
    pub(crate) policies: Arc<Vec<Limit>>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) responses: Arc<ResponseSettings>,
    /// Keeps the names of the policies registered.
    pub(crate) membership: Arc<Membership>,
}

impl PolicySets {
    /// Returns the set of exactly these policies, in this order, and the generation that it agrees with.
    pub(crate) fn get<'a>(
        &self,
        declared: impl Iterator<Item = &'a Policy> + Clone,
    ) -> Option<(u64, PreparedSet)> {
        let id = id(declared.clone());
        let sets = self.sets.read().unwrap_or_else(PoisonError::into_inner);
        // A digest contains neither the quota nor the failure mode.
        let entry = sets.get(&id).filter(|entry| entry.declared.iter().eq(declared))?;
        Some((entry.generation, entry.set.clone()))
    }

    /// Keeps a set, unless [`MAX_SETS`] are kept.
    pub(crate) fn insert(&self, declared: Box<[Policy]>, generation: u64, set: PreparedSet) {
        let id = id(declared.iter());
        let mut sets = self.sets.write().unwrap_or_else(PoisonError::into_inner);
        let replaced = if sets.len() < MAX_SETS || sets.contains_key(&id) {
            sets.insert(id, Entry { declared, generation, set })
        } else {
            None
        };
        // It may be the last with its names, which are forgotten under a lock of their own.
        drop(sets);
        drop(replaced);
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
    use portcullis_core::{FailureMode, Gcra, PolicySettings, Quota};
    use portcullis_memory::MemoryStore;

    use super::*;
    use crate::{Global, PolicyExt as _};
    use portcullis_engine::Engine;

    fn insert(sets: &PolicySets, policies: &[Policy]) {
        let engine = Arc::new(Engine::new(Arc::new(MemoryStore::new()) as Arc<dyn Store>));
        let membership = engine.join(Box::default(), None).unwrap();
        let by_global = policies.iter().map(|policy| policy.clone().by(Global)).collect::<Vec<_>>();
        let limits = Arc::new(Limits::new(engine, by_global.iter().map(Limit::to_limit).collect()));
        let set = PreparedSet {
            policies: Arc::new(by_global),
            limits,
            responses: Arc::new(ResponseSettings::default()),
            membership,
        };
        sets.insert(policies.into(), 0, set);
    }

    #[test]
    fn a_set_is_found_by_equal_policies_in_order() {
        let sets = PolicySets::default();
        let [one, two] = ["one", "two"].map(|name| Policy::gcra(name, Quota::per_second(1)));
        let both = [one.clone(), two.clone()];
        insert(&sets, &both);
        assert!(sets.get(both.iter()).is_some());
        assert!(sets.get(both.iter().rev()).is_none() && sets.get([&one].into_iter()).is_none());
        let closed = two.on_store_failure(FailureMode::Closed);
        assert!(sets.get([&one, &closed].into_iter()).is_none());
    }

    #[test]
    fn the_number_of_sets_is_bounded() {
        let sets = PolicySets::default();
        let policy = |number: usize| {
            Policy::try_new(&number.to_string(), Gcra::new(Quota::per_second(1)), PolicySettings::default())
                .unwrap()
        };
        for number in 0..=MAX_SETS {
            insert(&sets, &[policy(number)]);
        }
        assert!(sets.get([&policy(MAX_SETS - 1)].into_iter()).is_some());
        assert!(sets.get([&policy(MAX_SETS)].into_iter()).is_none());
        assert_eq!(sets.sets.read().unwrap().len(), MAX_SETS);
    }
}
