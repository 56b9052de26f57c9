//! Which policy has a shard.

use std::sync::Arc;

use portcullis_core::{Strategy, Timestamp};

use super::{Bounds, Shard};
use crate::overrides::SharedOverrides;
use crate::shards::unlocked::Unlocked;
use crate::table::halves;

impl Shard {
    /// An empty shard of the policy with a digest, which was registered at an instant. A call that has read an earlier one reads
    /// the clock again: until then there may have been states that have expired since.
    pub(crate) fn of_policy(
        (digest, latest): (u128, Timestamp),
        strategy: &Strategy,
        (bounds, unlocked): (Bounds, &Unlocked),
        overrides: Arc<SharedOverrides>,
    ) -> Self {
        let shard = Self::new(strategy, bounds, unlocked);
        Self { latest, policy: halves(digest), overrides: Some(overrides), ..shard }
    }

    /// Whether a policy with this digest has the shard. A call that has found the shard before it locked it has to look.
    #[inline]
    pub(crate) fn is_of(&self, digest: u128) -> bool {
        self.policy == halves(digest)
    }

    /// Whether a state still counts at an instant. Inspects all of them, if need be. `strategy` is any that has used the shard.
    pub(crate) fn has_living(&self, strategy: &Strategy, now: Timestamp) -> bool {
        let expires_at = |state: &_| self.time_steps.expires_at(strategy, state);
        self.table.has_living(expires_at, now)
            || self.overflow.iter().flatten().any(|entry| !entry.has_expired(now))
    }
}
