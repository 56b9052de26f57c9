//! The overrides of the keys of a policy.

use portcullis_core::overrides::Effect;
use portcullis_core::{Policy, StoreError, StoreErrorKind, Timestamp};

use super::{LOG_INTERVAL, LockedShards, ShardKey, Shards};

impl Shards {
    /// The error of an override for which there is no room, which is also logged from time to time. Not to be called under a lock.
    #[cold]
    pub(crate) fn no_room_for_override(&self, now: Timestamp) -> StoreError {
        let (policy, overrides) = (self.policy(), self.overrides.next_multiple_of(self.mutexes.len()));
        if let Some(changes) = self.refused_overrides.due(now, LOG_INTERVAL) {
            tracing::warn!(
                %policy,
                overrides,
                changes,
                "the memory store has no room for more overrides of this policy: raise `override_capacity`; changes counted since \
                 the last such line"
            );
        }
        let message = format!(
            "policy {policy} has no room for another override: about {overrides} grants and blocks are kept; raise \
             `override_capacity`"
        );
        StoreError::new(StoreErrorKind::Failed, message)
    }
}

impl LockedShards<'_> {
    /// What the override of a key whose shard is locked does to a check.
    pub(crate) fn effect_on(&mut self, key: &ShardKey<'_>, policy: &Policy, now: Timestamp) -> Effect {
        let index = self.index_of(key);
        self.guards[index].1.effect(key.id, policy, now)
    }
}
