//! The settings of a fallback.

use std::sync::Arc;

use portcullis_core::Clock;
use portcullis_core::store::Store;

use super::figures::Activity;
use super::known::KnownOverrides;
use super::outage::{Outage, fresh_id};
use super::{Fallback, LocalStandby};
use crate::clock::SystemClock;
use crate::store::MemoryStore;
use crate::store::builder::MemoryStoreBuilder;

/// Builds a [`Fallback`].
#[derive(Clone, Debug)]
#[must_use]
pub struct FallbackBuilder<S, C = SystemClock> {
    store: S,
    memory: MemoryStoreBuilder<C>,
    overrides: usize,
}

impl<S: Store> FallbackBuilder<S> {
    pub(super) fn new(store: S) -> Self {
        Self { store, memory: MemoryStore::builder().capacity(100_000), overrides: 10_000 }
    }
}

impl<S: Store, C: Clock> FallbackBuilder<S, C> {
    /// Sets the maximum number of states of each `Local` policy in memory, one per key, 100 000 by default. Keys beyond that
    /// share 4 096 states of their policy. See [`MemoryStoreBuilder::capacity`].
    pub fn capacity(self, keys: usize) -> Self {
        Self { memory: self.memory.capacity(keys), ..self }
    }

    /// Sets the maximum bytes of the states of each `Local` policy, by default 256 for each key of the
    /// [capacity](Self::capacity), and at least 8 MiB. See [`MemoryStoreBuilder::bytes`].
    pub fn bytes(self, bytes: usize) -> Self {
        Self { memory: self.memory.bytes(bytes), ..self }
    }

    /// Sets the maximum number of states of all policies together, 16 000 000 by default: enough for 160 `Local` policies.
    /// Registering one more is an error, unless one can be forgotten. See [`MemoryStoreBuilder::total_capacity`].
    pub fn total_capacity(self, keys: usize) -> Self {
        Self { memory: self.memory.total_capacity(keys), ..self }
    }

    /// Sets the maximum bytes of the states of all policies together, 4 GiB by default. See
    /// [`MemoryStoreBuilder::total_bytes`].
    pub fn total_bytes(self, bytes: usize) -> Self {
        Self { memory: self.memory.total_bytes(bytes), ..self }
    }

    /// Sets the clock of the memory and of the length of outages, [`SystemClock`] by default. It should not step.
    pub fn clock<D: Clock>(self, clock: D) -> FallbackBuilder<S, D> {
        FallbackBuilder { store: self.store, memory: self.memory.clock(clock), overrides: self.overrides }
    }

    /// Sets about how many keys, of all policies, have an [override](portcullis_core::overrides::Override) that the fallback knows, 10 000 by
    /// default; zero counts as one. Each takes up to 300 bytes. Beyond that, the block that ends first is forgotten, and a key is
    /// not known if there are only grants.
    pub fn override_capacity(self, keys: usize) -> Self {
        Self { overrides: keys, ..self }
    }

    /// Builds the store with its fallback.
    pub fn build(self) -> Fallback<S, C> {
        let (memory, clock) = self.memory.share_clock();
        let memory = memory.build();
        let known = KnownOverrides::new(self.overrides);
        let (outage, activity, id) = (Outage::default(), Activity::default(), fresh_id());
        let standby = LocalStandby { memory, clock, outage, known, activity, id };
        Fallback { store: self.store, standby: Arc::new(standby) }
    }
}
