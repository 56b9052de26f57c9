//! The overrides of the keys of a shard.

use portcullis_core::overrides::{Effect, Override};
use portcullis_core::{Policy, Timestamp};

use super::Shard;
use crate::overrides::{Displaces, NoRoom, SharedOverrides};
use crate::table::whole;

impl Shard {
    /// What the override of a key does to a check under a policy.
    #[inline]
    pub(crate) fn effect(&mut self, id: u128, policy: &Policy, now: Timestamp) -> Effect {
        self.overrides_of(id).map_or(Effect::None, |(overrides, id)| overrides.effect(id, policy, now))
    }

    /// The override of a key.
    pub(crate) fn get_override(&self, id: u128) -> Override {
        self.overrides_of(id).map_or(Override::NONE, |(overrides, id)| overrides.get(id))
    }

    /// Applies `change` to the override of a key.
    pub(crate) fn change_override<T>(
        &mut self,
        id: u128,
        now: Timestamp,
        displaces: Displaces,
        change: impl FnOnce(&mut Override) -> T,
    ) -> Result<T, NoRoom> {
        let (overrides, id) = self.overrides_of(id).ok_or(NoRoom)?;
        overrides.change(id, now, displaces, change)
    }

    /// The overrides, and the id of a key there: under the digest that all their policies have.
    #[inline]
    fn overrides_of(&self, id: u128) -> Option<(&SharedOverrides, u128)> {
        let overrides = self.overrides.as_deref()?;
        Some((overrides, id ^ whole(self.policy) ^ overrides.digest()))
    }
}
