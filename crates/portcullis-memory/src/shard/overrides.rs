//! The overrides of the keys of a shard.

use portcullis_core::overrides::{Effect, Override};
use portcullis_core::{Policy, Timestamp};

use super::Shard;
use crate::overrides::{Displaces, NoRoom, Overrides};

impl Shard {
    /// What the override of a key does to a check under a policy.
    #[inline]
    pub(crate) fn effect(&mut self, id: u128, policy: &Policy, now: Timestamp) -> Effect {
        self.overrides.as_mut().map_or(Effect::None, |overrides| overrides.effect(id, policy, now))
    }

    /// The override of a key.
    pub(crate) fn get_override(&self, id: u128) -> Override {
        self.overrides.as_ref().and_then(|overrides| overrides.get(id)).copied().unwrap_or_default()
    }

    /// The number of overrides, including those that have expired and were not swept yet.
    pub(crate) fn override_count(&self) -> usize {
        self.overrides.as_ref().map_or(0, |overrides| overrides.len())
    }

    /// Applies `change` to the override of a key, of which the shard keeps at most `capacity`.
    pub(crate) fn change_override<T>(
        &mut self,
        id: u128,
        now: Timestamp,
        (capacity, displaces): (usize, Displaces),
        change: impl FnOnce(&mut Override) -> T,
    ) -> Result<T, NoRoom> {
        let overrides = self.overrides.get_or_insert_with(|| Box::new(Overrides::new(capacity)));
        overrides.change(id, now, displaces, change)
    }
}
