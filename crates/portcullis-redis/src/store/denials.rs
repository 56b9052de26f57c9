//! Remembers denials for a short time, so that a flood of one key is answered without Redis.
//!
//! Until the wait of a denial is over, and for at most one second, the server would deny its cost and every higher one again. A refund,
//! settlement, reset or override by this store removes it at once; one by another instance is not seen. While the server answers nothing, it
//! holds for its whole wait, at most a minute, unless the server has admitted the key since.
//!
//! Denials of a cost of 0 are not remembered, unless the key is blocked, and neither are those of keys that clients share.
//!
//! The memory is bounded. A random hash chooses a set of eight entries for each denial, so that a client cannot choose which one is replaced:
//! one that only an outage needs, or else the one that ends first. A key has at most two entries, of two costs.

mod entry;
mod figures;
mod shard;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use portcullis_core::algorithm::Snapshot;
use portcullis_core::store::{Check, Checks, Outcome};
use portcullis_core::{Key, Policy, Timestamp};
use tokio::time::Instant;

use self::entry::{Denial, Id};
use self::shard::Shard;
use crate::lock::lock;

/// The denials of one store.
#[derive(Debug)]
pub(crate) struct DenialMemory {
    /// All times are microseconds since this instant plus one, on this process's monotonic clock.
    created: Instant,
    /// When the last remembered denial expires at the latest; 0 if there is none.
    until: AtomicU64,
    /// Like `until`, but in an outage; `sets_held_until` is for each set alone.
    held_until: AtomicU64,
    sets_held_until: Vec<AtomicU64>,
    /// Empty if the memory is disabled.
    shards: Vec<Mutex<Shard>>,
    sets: usize,
    hasher: RandomState,
}

/// A refund, settlement or reset in progress. When it is dropped, earlier denials are removed.
#[must_use]
pub(crate) struct Correction<'a> {
    memory: &'a DenialMemory,
    id: Id,
    is_answered: bool,
}

impl DenialMemory {
    /// Makes a memory for `entries` denials, rounded up to whole sets; 0 disables it.
    pub(crate) fn new(entries: usize) -> Self {
        let sets = entries.div_ceil(SHARDS * shard::WAYS);
        let shards = if sets == 0 { 0 } else { SHARDS };
        Self {
            created: Instant::now(),
            until: AtomicU64::new(0),
            held_until: AtomicU64::new(0),
            sets_held_until: (0..shards * sets).map(|_| AtomicU64::new(0)).collect(),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            sets,
            hasher: RandomState::new(),
        }
    }

    /// Returns the denial with the longest wait of a check. Costs one relaxed load if nothing was denied recently.
    pub(crate) fn find(&self, checks: &Checks) -> Option<Outcome> {
        self.longest(checks, self.now_before(&self.until)?, Denial::valid_until)
    }

    /// Like [`find`](Self::find), while the server answers nothing.
    pub(crate) fn find_in_outage(&self, checks: &Checks) -> Option<Outcome> {
        self.longest(checks, self.now(), Denial::held_until)
    }

    fn longest(&self, checks: &Checks, now: u64, end: fn(&Denial) -> u64) -> Option<Outcome> {
        let mut is_hit = false;
        let denied = checks.iter().filter_map(|check| {
            let denial = self.get(check, now, end, !is_hit)?;
            is_hit = true;
            Some((check, denial))
        });
        let longest = denied.reduce(|best, next| if next.1.retry() > best.1.retry() { next } else { best });
        let (check, denial) = longest?;
        let (at, snapshot) = denial.counted_down(check, now);
        Outcome::remembered(check.clone(), at, snapshot)
    }

    /// Whether [`find`](Self::find) would find a denial.
    pub(crate) fn denies(&self, checks: &Checks) -> bool {
        let Some(now) = self.now_before(&self.until) else { return false };
        checks.iter().any(|check| self.get(check, now, Denial::valid_until, false).is_some())
    }

    /// Records that the server has admitted a check at an instant of its clock.
    pub(crate) fn admitted(&self, check: &Check, at: Timestamp) {
        if check.units() == 0 || check.key.is_shared() || self.now_before(&self.held_until).is_none() {
            return;
        }
        let id = Id::of(&check.policy, check.key);
        let hash = self.hash(id);
        let is_held = self.set_held_until(hash).is_some_and(|end| self.now_before(end).is_some());
        if is_held && let Some(mut shard) = self.shard(hash) {
            shard.remove(self.sets, hash, |denial| denial.id == id && denial.is_refuted(check.units(), at));
        }
    }

    /// Remembers a denial of `check` at the instant `at` of the store's clock, until `end` at most. `sent` is an instant before the request
    /// was sent. Returns whether it is remembered.
    pub(crate) fn remember_until(
        &self,
        end: Timestamp,
        check: &Check,
        at: Timestamp,
        snapshot: &Snapshot,
        sent: Instant,
    ) -> bool {
        if (check.units() == 0 && !snapshot.is_blocked) || check.key.is_shared() {
            return false;
        }
        let (sent, now) = (self.micros(sent), self.now());
        let Some(denial) = Denial::new(check, at, snapshot, sent, now) else { return false };
        let denial = denial.until(end);
        // One that is not valid any more is held in an outage: a process that stood still has read it late.
        if now >= denial.held_until() {
            return false;
        }
        let hash = self.hash(denial.id);
        let Some(mut shard) = self.shard(hash) else { return false };
        let is_remembered = shard.insert(self.sets, hash, denial, now);
        if is_remembered {
            self.until.fetch_max(sent.saturating_add(MAX_AGE_MICROS), Relaxed);
            for end in [Some(&self.held_until), self.set_held_until(hash)].into_iter().flatten() {
                end.fetch_max(sent.saturating_add(MAX_OUTAGE_MICROS), Relaxed);
            }
        }
        is_remembered
    }

    /// Begins a refund, settlement or reset of a key.
    pub(crate) fn correct(&self, policy: &Policy, key: Key) -> Correction<'_> {
        Correction { memory: self, id: Id::of(policy, key), is_answered: false }
    }

    /// Returns the denial of a check before its `end`. Counts it, under the lock that is taken anyway, if it `is_hit` of a decision.
    fn get(&self, check: &Check, now: u64, end: fn(&Denial) -> u64, is_hit: bool) -> Option<Denial> {
        // A peek is denied by a block only.
        if (check.units() == 0 && !check.policy.reads_overrides()) || check.key.is_shared() {
            return None;
        }
        let id = Id::of(&check.policy, check.key);
        let hash = self.hash(id);
        let mut shard = self.shard(hash)?;
        let denial = shard.find(self.sets, hash, id, |denial| now < end(denial) && denial.denies(check))?;
        shard.hits += u64::from(is_hit);
        Some(denial)
    }

    /// Removes a key's denial, and ignores denials from requests that were sent up to `until`.
    fn forget(&self, id: Id, until: u64) {
        let hash = self.hash(id);
        if let Some(mut shard) = self.shard(hash) {
            shard.forget(self.sets, hash, id, until);
        }
    }

    fn shard(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        let index = usize::try_from(hash % SHARDS as u64).ok()?;
        Some(lock(self.shards.get(index)?))
    }

    fn set_held_until(&self, hash: u64) -> Option<&AtomicU64> {
        let index = hash.checked_rem(self.sets_held_until.len() as u64)?;
        self.sets_held_until.get(usize::try_from(index).ok()?)
    }

    fn hash(&self, id: Id) -> u64 {
        self.hasher.hash_one(id)
    }

    /// The time, if there may be a denial because it is before the end of the last one.
    fn now_before(&self, end: &AtomicU64) -> Option<u64> {
        let until = end.load(Relaxed);
        if until == 0 {
            return None;
        }
        let now = self.now();
        if now < until {
            return Some(now);
        }
        // The next lookup need not read the clock.
        let _ = end.compare_exchange(until, 0, Relaxed, Relaxed);
        None
    }

    fn now(&self) -> u64 {
        self.micros(Instant::now())
    }

    fn micros(&self, instant: Instant) -> u64 {
        let since = instant.saturating_duration_since(self.created);
        // 0 is before every denial.
        u64::try_from(since.as_micros()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl Correction<'_> {
    /// Records that the correction certainly frees nothing, so that earlier denials hold.
    pub(crate) fn not_made(self) {
        std::mem::forget(self);
    }

    /// Records that the correction was made, or certainly was not. Requests that are sent from now on may be remembered.
    pub(crate) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Correction<'_> {
    fn drop(&mut self) {
        let now = self.memory.now();
        // If the result is unknown it may still be made, between a denial and the reply with that denial.
        let until = if self.is_answered { now } else { now.saturating_add(MAX_AGE_MICROS) };
        self.memory.forget(self.id, until);
    }
}

/// The longest time for which a denial is remembered: one second.
const MAX_AGE_MICROS: u64 = 1_000_000;
/// Like [`MAX_AGE_MICROS`], but while the server answers nothing: one minute.
const MAX_OUTAGE_MICROS: u64 = 60_000_000;
/// How many denials are remembered by default.
pub(crate) const DEFAULT_ENTRIES: usize = 65_536;
/// The number of shards, each with a lock of its own.
const SHARDS: usize = 64;

#[cfg(test)]
mod tests;
