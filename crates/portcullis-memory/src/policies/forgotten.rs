//! Policies are forgotten when their place is needed, so that rules can be edited for as long as the process lives.
//!
//! A policy is forgotten if no state and no override of it counts any more, and it was neither checked nor registered for a minute. Its next
//! check registers it again, so nothing is lost.

use std::sync::Arc;

use portcullis_core::{Policy, Timestamp};

use super::Policies;
use crate::overrides::SharedOverrides;
use crate::shards::Shards;
use crate::sync::Ordering;

impl Policies {
    /// Forgets the policy that was not used for longest, if one can be forgotten. To be called under the lock of changes.
    pub(super) fn forget_one(&self, now: Timestamp) -> bool {
        let idle = self.iter().filter_map(|shards| {
            let since = shards.idle_since(now, self.is_in_company(shards))?;
            Some((since, shards))
        });
        let longest = idle.min_by_key(|(since, _)| *since);
        let forgotten = longest.and_then(|(_, shards)| shards.forget(now, self.is_in_company(shards)));
        if let Some(overflowed_checks) = forgotten {
            self.forgotten_overflows.fetch_add(overflowed_checks, Ordering::Relaxed);
        }
        forgotten.is_some()
    }

    /// The overrides of the policies that have the name of a policy, and its kind of strategy.
    pub(super) fn overrides_of(&self, policy: &Policy) -> Option<Arc<SharedOverrides>> {
        let digest = policy.override_digest();
        self.iter().map(Shards::overrides).find(|overrides| overrides.digest() == digest)
    }

    /// Whether another policy shares the overrides.
    fn is_in_company(&self, shards: &Shards) -> bool {
        let own = shards.overrides();
        self.iter().filter(|other| Arc::ptr_eq(&own, &other.overrides())).count() > 1
    }
}
