//! The overrides that several policies share.

use std::sync::{OnceLock, PoisonError};

use portcullis_core::overrides::{Effect, Override};
use portcullis_core::{Policy, Timestamp};

use super::{Displaces, NoRoom, Overrides};
use crate::budget::parts;
use crate::sync::{Mutex, MutexGuard};

/// The overrides of the keys under all policies of one name and kind of strategy, whatever the length of their windows. It is locked for a look-up or a change, by a call that has locked the state of the key.
#[derive(Debug)]
pub(crate) struct SharedOverrides {
    /// The [digest](Policy::override_digest) of the policies.
    digest: u128,
    /// About the maximum number of overrides.
    capacity: usize,
    /// From the first change on. A power of two.
    tables: OnceLock<Box<[Mutex<Overrides>]>>,
    count: usize,
}

impl SharedOverrides {
    /// No overrides, of at most about `capacity` keys, in at most a number of tables that is a power of two.
    pub(crate) fn new(policy: &Policy, capacity: usize, count: usize) -> Self {
        let count = count.min(parts(capacity, LEAST));
        Self { digest: policy.override_digest(), capacity, tables: OnceLock::new(), count }
    }

    pub(crate) fn digest(&self) -> u128 {
        self.digest
    }

    /// What the override of a key does to a check under a policy.
    #[inline]
    pub(crate) fn effect(&self, id: u128, policy: &Policy, now: Timestamp) -> Effect {
        self.tables.get().map_or(Effect::None, |tables| lock(tables, id).effect(id, policy, now))
    }

    pub(crate) fn get(&self, id: u128) -> Override {
        let found = self.tables.get().and_then(|tables| lock(tables, id).get(id).copied());
        found.unwrap_or_default()
    }

    /// Applies `change` to the override of a key.
    pub(crate) fn change<T>(
        &self,
        id: u128,
        now: Timestamp,
        displaces: Displaces,
        change: impl FnOnce(&mut Override) -> T,
    ) -> Result<T, NoRoom> {
        let tables = self.tables.get_or_init(|| {
            let each = self.capacity.div_ceil(self.count).max(1);
            (0..self.count).map(|_| Mutex::new(Overrides::new(each))).collect()
        });
        lock(tables, id).change(id, now, displaces, change)
    }

    /// The number of overrides, including those that have expired and were not swept yet.
    pub(crate) fn len(&self) -> usize {
        self.all().map(|table| table.len()).sum()
    }

    /// Whether an override still decides at an instant.
    pub(crate) fn has_living(&self, now: Timestamp) -> bool {
        self.all().any(|table| table.has_living(now))
    }

    fn all(&self) -> impl Iterator<Item = MutexGuard<'_, Overrides>> {
        self.tables
            .get()
            .into_iter()
            .flatten()
            .map(|table| table.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "only the lowest bits count")]
fn lock(tables: &[Mutex<Overrides>], id: u128) -> MutexGuard<'_, Overrides> {
    let table = &tables[(id >> 64) as usize & (tables.len() - 1)];
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Smaller tables would fill by chance long before the others.
const LEAST: usize = 128;
