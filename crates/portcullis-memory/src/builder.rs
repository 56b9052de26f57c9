//! The bounds of a store.

use std::sync::Arc;

use portcullis_core::Clock;

use crate::budget::{Amount, Limits};
use crate::policies::Policies;
use crate::{MemoryStore, SystemClock};

/// Builds a [`MemoryStore`].
///
/// Every policy has room of its own, for a number of keys and of bytes. Nothing is borrowed: a policy whose keys are made up
/// by an attacker takes no room from the others. Memory is taken as keys come, not in advance.
///
/// ```
/// use portcullis_core::{Policy, Quota, Store};
/// use portcullis_memory::MemoryStore;
///
/// let store = MemoryStore::builder().capacity(1_000).total_capacity(2_000).build();
/// let policy = |name| Policy::gcra(name, Quota::per_second(10));
/// assert!(store.register(&policy("a")).is_ok() && store.register(&policy("b")).is_ok());
/// let error = store.register(&policy("c")).unwrap_err().to_string();
/// assert!(error.contains("policy c") && error.contains("`total_capacity` to 3000"), "{error}");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct MemoryStoreBuilder<C = SystemClock> {
    clock: C,
    capacity: usize,
    bytes: Option<usize>,
    total_capacity: usize,
    total_bytes: usize,
    swept_per_check: usize,
}

impl MemoryStoreBuilder {
    pub(crate) fn new() -> Self {
        Self {
            clock: SystemClock::new(),
            capacity: 250_000,
            bytes: None,
            total_capacity: 16_000_000,
            total_bytes: 4 * GIBIBYTE,
            swept_per_check: 2,
        }
    }
}

impl<C: Clock> MemoryStoreBuilder<C> {
    /// The most states of each policy, one per key, 250 000 by default. Rounded up to a multiple of the number of shards; a
    /// capacity of zero counts as one.
    ///
    /// Keys are spread over the shards by their fingerprint, so that a key may find no room in its shard a little before the
    /// policy is full. A key that finds no room shares one of the policy's 4 096 overflow states.
    pub fn capacity(self, keys: usize) -> Self {
        Self { capacity: keys.max(1), ..self }
    }

    /// The most bytes that the states of each policy take: by default 256 for each key of the [capacity](Self::capacity), and
    /// at least 8 MiB. With the default capacity that is 64 MB. No less than 4 096 bytes.
    ///
    /// Each key counts 150 bytes, which is what the table takes at worst; a token bucket, GCRA, leaky bucket or fixed window
    /// takes nothing besides. A sliding window adds 48 bytes, and with more than one slot 8 for each slot and 8 more. A
    /// sliding log adds 16 bytes for each instant at which it was charged, and at least 64; room for more is taken by
    /// doubling, up to its limit.
    ///
    /// Included are the policy's 4 096 overflow states. They are fewer where that many would take more than half of the
    /// bytes. A sliding log there has room for 32 instants, and takes up to 512 bytes.
    ///
    /// A key without a state that finds no room in the bytes has an overflow state, as one that finds no room in the capacity.
    /// A sliding log that finds no room to grow joins instants that lie close together, as
    /// [`Strategy::compact`](portcullis_core::Strategy::compact) says: it never admits more than its limit, and may deny for
    /// longer.
    pub fn bytes(self, bytes: usize) -> Self {
        Self { bytes: Some(bytes.max(LEAST_BYTES)), ..self }
    }

    /// The most states of all policies together, 16 000 000 by default. It bounds the number of policies: each counts with its
    /// whole [capacity](Self::capacity), so that by default there is room for 64. A policy beyond that is an error.
    pub fn total_capacity(self, keys: usize) -> Self {
        Self { total_capacity: keys, ..self }
    }

    /// The most bytes that the states of all policies take together, 4 GiB by default. It bounds the number of policies: each
    /// counts with all its [bytes](Self::bytes). A policy beyond that is an error.
    pub fn total_bytes(self, bytes: usize) -> Self {
        Self { total_bytes: bytes, ..self }
    }

    /// How many entries each check looks at to drop those that have expired, 2 by default. With 0, a shard is swept
    /// only when it is full.
    pub fn swept_per_check(self, entries: usize) -> Self {
        Self { swept_per_check: entries, ..self }
    }

    /// Another source of time.
    pub fn clock<D: Clock>(self, clock: D) -> MemoryStoreBuilder<D> {
        let Self { capacity, bytes, total_capacity, total_bytes, swept_per_check, .. } = self;
        MemoryStoreBuilder { clock, capacity, bytes, total_capacity, total_bytes, swept_per_check }
    }

    /// The same on a clock that others have as well.
    pub(crate) fn share_clock(self) -> (MemoryStoreBuilder<Arc<C>>, Arc<C>) {
        let Self { clock, capacity, bytes, total_capacity, total_bytes, swept_per_check } = self;
        let clock = Arc::new(clock);
        let shared = Arc::clone(&clock);
        (MemoryStoreBuilder { clock, capacity, bytes, total_capacity, total_bytes, swept_per_check }, shared)
    }

    /// The store.
    pub fn build(self) -> MemoryStore<C> {
        let by_keys = self.capacity.saturating_mul(BYTES_PER_KEY).max(LEAST_BYTES_BY_DEFAULT);
        let limits = Limits {
            policy: Amount { keys: self.capacity, bytes: self.bytes.unwrap_or(by_keys) },
            total: Amount { keys: self.total_capacity, bytes: self.total_bytes },
        };
        MemoryStore::new_with(Policies::new(limits), self.clock, self.swept_per_check)
    }
}

const GIBIBYTE: usize = 1 << 30;
/// What a key takes in its table, and two thirds of that again.
const BYTES_PER_KEY: usize = 256;
/// Some logs of the greatest limit, whatever the number of keys.
const LEAST_BYTES_BY_DEFAULT: usize = 8 << 20;
/// Some keys and overflow states.
const LEAST_BYTES: usize = 4_096;
