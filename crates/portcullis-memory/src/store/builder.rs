//! The bounds of a store.

use std::sync::Arc;

use portcullis_core::Clock;

use crate::budget::{Amount, Limits};
use crate::clock::SystemClock;

/// Builds a [`MemoryStore`](crate::MemoryStore).
///
/// Every policy has its own limits, on keys and on bytes. Policies do not share them: a policy that is flooded with made-up
/// keys takes no capacity from the others. Memory is allocated as keys arrive, not in advance.
///
/// ```
/// use portcullis::store::{MemoryStore, Store};
/// use portcullis::{Policy, Quota};
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
    clock: Start<C>,
    capacity: usize,
    bytes: Option<usize>,
    total_capacity: usize,
    total_bytes: usize,
    swept_per_check: usize,
    override_capacity: usize,
}

/// The clock that a store starts with.
#[derive(Clone, Debug)]
enum Start<C> {
    Given(C),
    /// Made with the store: the first clock of the system takes a while.
    Made(fn() -> C),
}

impl<C> Start<C> {
    fn clock(self) -> C {
        match self {
            Self::Given(clock) => clock,
            Self::Made(make) => make(),
        }
    }
}

impl MemoryStoreBuilder {
    pub(crate) fn new() -> Self {
        Self {
            clock: Start::Made(SystemClock::new),
            capacity: 250_000,
            bytes: None,
            total_capacity: 16_000_000,
            total_bytes: GIBIBYTE.saturating_mul(4),
            swept_per_check: 2,
            override_capacity: 10_000,
        }
    }
}

impl<C: Clock> MemoryStoreBuilder<C> {
    /// Sets the maximum number of states of each policy, one per key, 250 000 by default. It is rounded up to a multiple of the
    /// number of shards; a capacity of zero counts as one.
    ///
    /// Keys are spread over the shards by their fingerprint, so that a shard may be full a little before the policy is. A key
    /// that does not fit shares one of the policy's 4 096 overflow states.
    pub fn capacity(self, keys: usize) -> Self {
        Self { capacity: keys.max(1), ..self }
    }

    /// Sets the maximum bytes of the states of each policy: by default 256 for each key of the [capacity](Self::capacity), and
    /// at least 8 MiB. With the default capacity that is 64 MB. The minimum is 4 096 bytes.
    ///
    /// Each key counts the maximum that the store takes for it. Under a token bucket, GCRA, leaky bucket, fixed window or sliding
    /// window with one slot that is 64 bytes. A sliding window with more slots counts 108 bytes, and 8 for each slot. A sliding log
    /// counts 100 bytes and 20 for each instant at which it was charged, at least 80; it grows by doubling, up to its limit. While
    /// the table of a shard grows, its old memory is allocated as well.
    ///
    /// A shard with windows of more than 64 lengths takes 100 bytes for each key, of which 64 are counted. Only shares of many different
    /// numbers of instances, all above the limit, have so many lengths.
    ///
    /// The bytes include the policy's 4 096 overflow states, or fewer where these would take more than half. A sliding log in an overflow
    /// state holds 32 instants, and takes up to 512 bytes.
    ///
    /// A new key whose state exceeds the bytes gets an overflow state. A sliding log that cannot grow joins instants that lie close together,
    /// as [`Strategy::compact`](portcullis_core::Strategy::compact) describes: it never admits more than its limit, and may deny for longer.
    pub fn bytes(self, bytes: usize) -> Self {
        Self { bytes: Some(bytes.max(MIN_BYTES)), ..self }
    }

    /// Sets the maximum number of states of all policies together, 16 000 000 by default. It bounds the number of policies: each
    /// counts with its whole [capacity](Self::capacity), so that 64 fit by default. A policy beyond that is an error, unless one can be
    /// forgotten: none of its states and overrides counts any more, and it was not used for a minute.
    pub fn total_capacity(self, keys: usize) -> Self {
        Self { total_capacity: keys, ..self }
    }

    /// Sets the maximum bytes of the states of all policies together, 4 GiB by default. It bounds the number of policies: each
    /// counts with all its [bytes](Self::bytes). A policy beyond that is an error, as beyond the
    /// [total capacity](Self::total_capacity).
    pub fn total_bytes(self, bytes: usize) -> Self {
        Self { total_bytes: bytes, ..self }
    }

    /// Sets the number of entries that a check inspects on average to drop expired ones, 2 by default: every eighth check of a shard inspects
    /// 16. A shard is not inspected while none of its states can have expired. With 0, it is swept only when it is full.
    pub fn swept_per_check(self, entries: usize) -> Self {
        Self { swept_per_check: entries, ..self }
    }

    /// Sets about how many keys of each policy have an [override](portcullis_core::overrides::Override), 10 000 by default; zero counts as one.
    /// Only policies that [read overrides](portcullis_core::Policy::reads_overrides) keep any. Each takes up to 300 bytes, which do not
    /// count against the [bytes](Self::bytes).
    ///
    /// In a full shard, expired ones are dropped first. A grant or a block by [`Store::block`](portcullis_core::store::Store::block) then takes
    /// the place of a key of which a lock-out has only counted denials or strikes, and is an error if there is none. A block by a lock-out also
    /// takes the place of the block that ends first. A grant is never displaced. At most 64 overrides are inspected.
    pub fn override_capacity(self, keys: usize) -> Self {
        Self { override_capacity: keys.max(1), ..self }
    }

    /// Sets the clock, [`SystemClock`] by default.
    pub fn clock<D: Clock>(self, clock: D) -> MemoryStoreBuilder<D> {
        self.with_clock(|_| clock)
    }

    /// Puts the clock into an [`Arc`], and returns a second handle to it.
    pub(crate) fn share_clock(self) -> (MemoryStoreBuilder<Arc<C>>, Arc<C>) {
        let mut shared = None;
        let builder = self.with_clock(|clock| Arc::clone(shared.insert(Arc::new(clock.clock()))));
        (builder, shared.expect("the clock was replaced"))
    }

    fn with_clock<D>(self, clock: impl FnOnce(Start<C>) -> D) -> MemoryStoreBuilder<D> {
        MemoryStoreBuilder {
            clock: Start::Given(clock(self.clock)),
            capacity: self.capacity,
            bytes: self.bytes,
            total_capacity: self.total_capacity,
            total_bytes: self.total_bytes,
            swept_per_check: self.swept_per_check,
            override_capacity: self.override_capacity,
        }
    }

    /// The limits of the store, its clock, and the number of entries to sweep per check.
    pub(crate) fn into_parts(self) -> (Limits, C, usize) {
        let by_keys = self.capacity.saturating_mul(BYTES_PER_KEY).max(MIN_DEFAULT_BYTES);
        let limits = Limits {
            policy: Amount { keys: self.capacity, bytes: self.bytes.unwrap_or(by_keys) },
            total: Amount { keys: self.total_capacity, bytes: self.total_bytes },
            overrides: self.override_capacity,
        };
        (limits, self.clock.clock(), self.swept_per_check)
    }
}

const GIBIBYTE: usize = 1 << 30;
/// More than `ENTRY_BYTES` and a sliding log of four instants, for which there is room first.
const BYTES_PER_KEY: usize = 256;
/// Enough for several logs of the largest limit, whatever the number of keys.
const MIN_DEFAULT_BYTES: usize = 8 << 20;
/// Enough for several keys and overflow states.
const MIN_BYTES: usize = 4_096;
