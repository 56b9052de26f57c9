//! Denials that are remembered for a short time, so that a flood of one key is answered without Redis.
//!
//! What is remembered is one policy under one key, with the cost that was denied: until its wait is over, at most one
//! second, the server would deny that cost and every higher one again. A refund, settlement or reset by this store ends
//! that at once; by another instance it is not seen, so that its caller may be denied for up to one second longer.
//!
//! Not remembered are denials of a cost of 0, and of keys that callers share: one caller's denial is not another's.
//!
//! The memory is bounded. A denial has eight places that it may take, found by a random hash, and replaces one that has
//! expired or else the one that expires first. So an insertion costs the same however full the memory is, a caller
//! cannot choose whose denial is replaced, and one that is replaced costs its next check a trip to the server and nothing else.

mod entry;
mod shard;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use portcullis_core::{Check, Checks, Key, Outcome, Policy, Snapshot, Timestamp};
use tokio::time::Instant;

use self::entry::{Denial, Id};
use self::shard::Shard;

/// The denials of one store.
#[derive(Debug)]
pub(crate) struct DenialMemory {
    /// All times are microseconds since then and one, on this process's monotonic clock.
    born: Instant,
    /// Until when anything may be remembered; 0 if nothing is.
    until: AtomicU64,
    /// None if the memory is switched off.
    shards: Vec<Mutex<Shard>>,
    sets: usize,
    hasher: RandomState,
}

/// A refund, settlement or reset that is under way. When it ends, what was denied before is forgotten.
#[must_use]
pub(crate) struct Correction<'a> {
    memory: &'a DenialMemory,
    id: Id,
    is_answered: bool,
}

impl DenialMemory {
    /// A memory for so many denials, rounded up to whole sets; 0 switches it off.
    pub(crate) fn new(entries: usize) -> Self {
        let sets = entries.div_ceil(SHARDS * shard::WAYS);
        let shards = if sets == 0 { 0 } else { SHARDS };
        Self {
            born: Instant::now(),
            until: AtomicU64::new(0),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            sets,
            hasher: RandomState::new(),
        }
    }

    /// The denial of a decision one of whose checks was denied for the same or a lower cost; of several the one with the
    /// longest wait. Costs one relaxed load if nothing was denied lately.
    pub(crate) fn find(&self, checks: &Checks) -> Option<Outcome> {
        let now = self.now_if_any()?;
        let denied = checks.iter().filter_map(|check| Some((check, self.get(check, now)?)));
        let longest = denied.reduce(|best, next| if next.1.retry() > best.1.retry() { next } else { best });
        let (check, denial) = longest?;
        let (at, snapshot) = denial.counted_down(check, now);
        Outcome::remembered(check.clone(), at, snapshot)
    }

    /// Whether [`find`](Self::find) would find a denial.
    pub(crate) fn denies(&self, checks: &Checks) -> bool {
        self.now_if_any().is_some_and(|now| checks.iter().any(|check| self.get(check, now).is_some()))
    }

    /// Remembers a denial of `check` at the instant `at` of the store's clock. `asked` is an instant before the question
    /// was sent. Returns whether it is remembered.
    pub(crate) fn remember(&self, check: &Check, at: Timestamp, snapshot: &Snapshot, asked: Instant) -> bool {
        if check.cost == 0 || check.key.is_shared() {
            return false;
        }
        let (asked, now) = (self.micros(asked), self.now());
        let Some(denial) = Denial::new(check, at, snapshot, asked, now) else { return false };
        let hash = self.hash(denial.id());
        let Some(mut shard) = self.shard(hash) else { return false };
        let is_remembered = shard.insert(self.sets, hash, denial, now);
        drop(shard);
        if is_remembered {
            self.until.fetch_max(asked.saturating_add(MAX_AGE_MICROS), Relaxed);
        }
        is_remembered
    }

    /// Begins a refund, settlement or reset of a key.
    pub(crate) fn correct(&self, policy: &Policy, key: Key) -> Correction<'_> {
        Correction { memory: self, id: Id::of(policy, key), is_answered: false }
    }

    fn get(&self, check: &Check, now: u64) -> Option<Denial> {
        if check.cost == 0 || check.key.is_shared() {
            return None;
        }
        let id = Id::of(&check.policy, check.key);
        let hash = self.hash(id);
        let denial = self.shard(hash)?.find(self.sets, hash, id, now)?;
        denial.denies(check).then_some(denial)
    }

    /// Forgets a key, and what was asked about it until an instant.
    fn forget(&self, id: Id, until: u64) {
        let hash = self.hash(id);
        if let Some(mut shard) = self.shard(hash) {
            shard.forget(self.sets, hash, id, until);
        }
    }

    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        let index = usize::try_from(hash % SHARDS as u64).ok()?;
        // Nobody panics with the lock in hand.
        Some(self.shards.get(index)?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn hash(&self, id: Id) -> u64 {
        self.hasher.hash_one(id)
    }

    /// The time, if anything may be remembered.
    fn now_if_any(&self) -> Option<u64> {
        let until = self.until.load(Relaxed);
        if until == 0 {
            return None;
        }
        let now = self.now();
        if now < until {
            return Some(now);
        }
        // The next to come need not look at the clock.
        let _ = self.until.compare_exchange(until, 0, Relaxed, Relaxed);
        None
    }

    fn now(&self) -> u64 {
        self.micros(Instant::now())
    }

    fn micros(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.born);
        // 0 is before anything that is remembered.
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl Correction<'_> {
    /// Notes that the correction was made, or certainly was not. What is asked from now on may be remembered.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Correction<'_> {
    fn drop(&mut self) {
        let now = self.memory.now();
        // Where its fate is unknown it may still be made, between a denial and the answer to that.
        let until = if self.is_answered { now } else { now.saturating_add(MAX_AGE_MICROS) };
        self.memory.forget(self.id, until);
    }
}

/// The longest time for which a denial is remembered: a second.
const MAX_AGE_MICROS: u64 = 1_000_000;
/// How many denials are remembered at the most, if nothing else is said.
pub(crate) const DEFAULT_ENTRIES: usize = 65_536;
/// Parts with a lock of their own.
const SHARDS: usize = 64;

#[cfg(test)]
mod tests;
