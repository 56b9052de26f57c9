//! The store itself.

use portcullis_core::{
    Check, Checks, Clock, Decision, Key, Outcome, Policy, Receipt, Refund, Ruling, Run, Settlement, Standing,
    State, Store, StoreError, StoreErrorKind, StoreFuture, Timestamp,
};
use smallvec::SmallVec;

use crate::SystemClock;
use crate::shards::{Locked, NoRoom, Place, Shards, id};
use crate::sync::{AtomicU64, Ordering};

/// Keeps state in this process.
///
/// Its answers are always ready: no future of it has to be awaited. Share one store between layers by an `Arc`.
#[derive(Debug)]
pub struct MemoryStore<C = SystemClock> {
    shards: Shards,
    clock: C,
    swept_per_check: usize,
    overflowed: AtomicU64,
}

/// What a [`MemoryStore`] has to say about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// States that are held, one per key and policy, expired ones that were not swept yet included.
    pub entries: usize,
    /// Policies that have an overflow state.
    pub overflowing_policies: usize,
    /// Checks, refunds and settlements that found no room for their key and went to an overflow state, since the start.
    pub overflowed_checks: u64,
}

impl MemoryStore {
    /// A store for a million keys on the system's clock.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A store that differs from the default.
    ///
    /// ```
    /// use portcullis_memory::MemoryStore;
    ///
    /// let store = MemoryStore::builder().capacity(10_000).build();
    /// assert_eq!(store.stats().entries, 0);
    /// ```
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder { clock: SystemClock::new(), capacity: 1_000_000, swept_per_check: 2 }
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

/// Builds a [`MemoryStore`].
#[derive(Clone, Debug)]
#[must_use]
pub struct MemoryStoreBuilder<C = SystemClock> {
    clock: C,
    capacity: usize,
    swept_per_check: usize,
}

impl<C: Clock> MemoryStoreBuilder<C> {
    /// The most states to hold, one per key and policy, 1 000 000 by default. Rounded up to a multiple of the number of
    /// shards; a capacity of zero counts as one.
    ///
    /// Under a meter or a fixed window each takes at most 140 bytes. A sliding window adds some 50 bytes and 8 for each slot
    /// beyond the first, a sliding log up to 16 bytes for each unit of its limit: choose a capacity that the memory bears
    /// when all are full.
    ///
    /// Keys are spread over the shards by their fingerprint, so that a store may find no room in one shard a little
    /// before it is full.
    pub fn capacity(self, keys: usize) -> Self {
        Self { capacity: keys.max(1), ..self }
    }

    /// How many entries each check looks at to drop those that have expired, 2 by default. With 0, a shard is swept
    /// only when it is full.
    pub fn swept_per_check(self, entries: usize) -> Self {
        Self { swept_per_check: entries, ..self }
    }

    /// Another source of time.
    pub fn clock<D: Clock>(self, clock: D) -> MemoryStoreBuilder<D> {
        MemoryStoreBuilder { clock, capacity: self.capacity, swept_per_check: self.swept_per_check }
    }

    /// The store.
    pub fn build(self) -> MemoryStore<C> {
        let shards = if self.capacity < SMALLEST_TO_SHARD { 1 } else { SHARDS };
        MemoryStore {
            shards: Shards::new(shards, self.capacity),
            clock: self.clock,
            swept_per_check: self.swept_per_check,
            overflowed: AtomicU64::new(0),
        }
    }
}

impl<C: Clock> MemoryStore<C> {
    /// How full the store is, and how many checks found no room.
    ///
    /// Locks the shards one after another.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            entries: self.shards.len(),
            overflowing_policies: self.shards.overflowing(),
            overflowed_checks: self.overflowed.load(Ordering::Relaxed),
        }
    }

    fn decide(&self, checks: Checks) -> Result<Outcome, StoreError> {
        let mut locked = self.shards.lock(checks.iter().map(|check| id(&check.policy, check.key)));
        let now = self.clock.now();
        let mut rulings: SmallVec<[Ruled; 2]> = SmallVec::new();
        for Check { policy, key, cost } in &checks {
            let place = self.place(&mut locked, policy, *key, now)?;
            // Two keys that find no room are charged to one state, one after the other.
            let earlier =
                rulings.iter().rfind(|earlier| earlier.place == place).map_or(0, |earlier| earlier.up_to);
            let up_to = earlier.saturating_add(*cost);
            let asked = if *cost == 0 { 0 } else { up_to };
            let ruling = policy.strategy().rule(locked.get(place), now, asked);
            rulings.push(Ruled { place, ruling, up_to });
        }
        let charge = rulings.iter().all(|ruled| ruled.ruling.admitted);
        let standings: SmallVec<[Standing; 2]> = checks
            .iter()
            .zip(rulings)
            .map(|(Check { policy, cost, .. }, Ruled { place, ruling, up_to })| {
                let strategy = policy.strategy();
                locked.change(place, policy, |state| strategy.conclude(state, now, *cost, ruling, charge));
                // What does not fit is the sum.
                let asked = if ruling.admitted { *cost } else { up_to };
                Standing::of(strategy, locked.get(place), now, asked, ruling.admitted)
            })
            .collect();
        drop(locked);
        Ok(Outcome::new(checks, now, standings).expect("there is one standing per check"))
    }

    /// Changes one state, and peeks.
    fn change(
        &self,
        policy: &Policy,
        key: Key,
        change: impl FnOnce(&mut Option<State>, Timestamp, Place) -> bool,
    ) -> Result<Decision, StoreError> {
        let mut locked = self.shards.lock(std::iter::once(id(policy, key)));
        let now = self.clock.now();
        let place = self.place(&mut locked, policy, key, now)?;
        locked.change(place, policy, |state| change(state, now, place));
        let report = policy.strategy().report(locked.get(place), now, 0, true);
        drop(locked);
        Ok(Decision::new(policy, now, report))
    }

    fn place(
        &self,
        locked: &mut Locked<'_>,
        policy: &Policy,
        key: Key,
        now: Timestamp,
    ) -> Result<Place, StoreError> {
        let place = locked.place(policy, key, now, self.swept_per_check).map_err(|NoRoom| {
            StoreError::new(
                StoreErrorKind::Overloaded,
                "the memory store is full, for more policies than it can keep apart",
            )
        })?;
        if matches!(place, Place::Overflow(_)) {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
        Ok(place)
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        StoreFuture::ready(self.decide(checks))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        StoreFuture::ready(self.change(receipt.policy(), receipt.key(), |state, now, place| {
            take_back(&receipt, 0, state, now, place)
        }))
    }

    fn settle(&self, receipt: Receipt, cost: u32) -> StoreFuture<Settlement> {
        let strategy = receipt.policy().strategy();
        let (mut uncharged, mut run) = (0, None);
        let decision = self.change(receipt.policy(), receipt.key(), |state, now, place| {
            let missing = receipt.missing(cost);
            if missing == 0 {
                return take_back(&receipt, cost, state, now, place);
            }
            let overdrawn = strategy.overdraw(state, now, missing);
            uncharged = overdrawn.uncharged;
            run = Some(Run { units: overdrawn.charged, position: strategy.position(state.as_ref(), now) });
            overdrawn.changed
        });
        StoreFuture::ready(decision.map(|decision| {
            let receipt = Some(receipt.settled(cost, run, decision.at()));
            Settlement { decision, uncharged, receipt }
        }))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        let id = id(policy, key);
        self.shards.lock(std::iter::once(id)).remove(id);
        StoreFuture::ready(Ok(()))
    }
}

/// Gives units back to the key that was charged. To the overflow state, which others are charged to, nothing is given
/// back: the charge may have been made to a state of the key's own that has expired since.
fn take_back(receipt: &Receipt, cost: u32, state: &mut Option<State>, now: Timestamp, place: Place) -> bool {
    let refund = if matches!(place, Place::Own(_)) { receipt.refund_to(cost) } else { Refund::of(&[]) };
    receipt.policy().strategy().take_back(state, now, refund)
}

/// What was found about one check.
#[derive(Clone, Copy, Debug)]
struct Ruled {
    place: Place,
    ruling: Ruling,
    /// The units of this check and of those before it that go to the same place.
    up_to: u32,
}

/// A power of two, several times the threads that a large machine has.
const SHARDS: usize = 64;
/// Below this, shards would be so small that chance fills one long before the others.
const SMALLEST_TO_SHARD: usize = 64 * 1_024;
