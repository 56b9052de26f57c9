//! What the API shows of requests: counts, the keys with the most requests, rejections. All of it is bounded.

mod limited;
mod observer;
mod shard;
pub(crate) mod sketch;
mod view;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use portcullis_core::{Key, PolicyName};
use portcullis_tower::Reason;
use serde::Serialize;
use utoipa::ToSchema;

use shard::Shard;

pub(crate) use limited::LimitedKey;
pub(crate) use observer::RecorderObserver;
pub(crate) use shard::Rejection;

/// The place of a policy in a shard.
type PolicyId = u16;

/// Records the events of all layers.
///
/// A key belongs to one of 16 shards, so that keys do not wait for each other, and the shards' sketches together are one. A client that floods
/// fills the rejections of its own shard and not those of others.
#[derive(Debug)]
pub(crate) struct Recorder {
    shards: Box<[Mutex<Shard>]>,
    /// When a call of the store has last failed, in milliseconds since the epoch; 0 if none has.
    last_failure: AtomicU64,
}

// What happened under one policy since the recorder was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Counts {
    /// Requests that have passed it.
    pub(crate) admitted: u64,
    /// Requests that it has rejected. A request that is rejected before any policy decides counts for the first one of its layer.
    pub(crate) rejected: u64,
    /// Requests that passed because the policy is in shadow, and would have been rejected.
    pub(crate) would_reject: u64,
    /// Requests that its extractor exempts.
    pub(crate) exempt: u64,
    /// The units that admitted requests were charged, and those that handlers have charged since. Refunds are not subtracted.
    pub(crate) charged_units: u64,
    /// Whether a request had a key.
    #[serde(skip)]
    pub(crate) counted: bool,
}

/// Why a key is denied now, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Denial {
    /// From now on.
    pub(crate) wait: Duration,
    pub(crate) is_locked_out: bool,
}

const SHARDS: usize = 16;

/// 1 024 in all.
const TOP_PER_SHARD: usize = 64;
const LIMITED_PER_SHARD: usize = 64;
const RECENT_PER_SHARD: usize = 64;

/// Policies beyond that are not counted.
const MAX_POLICIES: usize = 1_024;

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::new())).collect(),
            last_failure: AtomicU64::new(0),
        }
    }

    /// A request with this key has passed a policy.
    pub(crate) fn admitted(&self, policy: &PolicyName, key: Key) {
        let mut shard = self.shard(Some(key));
        let Some(id) = shard.id(policy) else { return };
        shard.record(id, key, false);
        shard.limited.remove(id, key);
        if let Some(counts) = shard.counts(id) {
            add(&mut counts.admitted, 1);
        }
    }

    /// A request with this key was rejected, and not because of this policy.
    pub(crate) fn rejected_elsewhere(&self, policy: &PolicyName, key: Key) {
        let mut shard = self.shard(Some(key));
        if let Some(id) = shard.id(policy) {
            shard.record(id, key, false);
        }
    }

    /// A policy has rejected a request.
    pub(crate) fn rejected(&self, policy: &PolicyName, key: Option<Key>, denial: Option<Denial>, now: u64) {
        let mut shard = self.shard(key);
        let Some(id) = shard.id(policy) else { return };
        if let Some(counts) = shard.counts(id) {
            add(&mut counts.rejected, 1);
        }
        if let Some(key) = key {
            shard.record(id, key, true);
            if let Some(denial) = denial {
                shard.limited.insert(denial.of(id, key, now), now);
            }
        }
    }

    /// A request was rejected. `policy` is the one that is shown for it.
    pub(crate) fn rejection(&self, policy: Option<&PolicyName>, key: Option<Key>, reason: Reason, time: u64) {
        let mut shard = self.shard(key);
        let policy = policy.and_then(|policy| shard.id(policy));
        shard.push_recent(Rejection { time, policy, key, reason });
    }

    /// Adds to the counts of a policy.
    pub(crate) fn count(&self, policy: &PolicyName, key: Option<Key>, count: impl FnOnce(&mut Counts)) {
        let mut shard = self.shard(key);
        if let Some(id) = shard.id(policy)
            && let Some(counts) = shard.counts(id)
        {
            count(counts);
        }
    }

    /// A key is denied from now on.
    pub(crate) fn locked_out(&self, policy: &PolicyName, key: Key, length: Duration, now: u64) {
        let mut shard = self.shard(Some(key));
        if let Some(id) = shard.id(policy) {
            let denial = Denial { wait: length, is_locked_out: true };
            shard.limited.insert(denial.of(id, key, now), now);
        }
    }

    /// A key is not denied any longer, as far as this process has changed that.
    pub(crate) fn released(&self, policy: &PolicyName, key: Key) {
        let mut shard = self.shard(Some(key));
        if let Some(id) = shard.known_id(policy) {
            shard.limited.remove(id, key);
        }
    }

    pub(crate) fn store_failed(&self, now: u64) {
        self.last_failure.fetch_max(now, Ordering::Relaxed);
    }

    /// Whether no call of the store has failed for a while.
    pub(crate) fn is_healthy(&self, now: u64) -> bool {
        let failure = self.last_failure.load(Ordering::Relaxed);
        failure == 0 || now.saturating_sub(failure) >= HEALTHY_AFTER_MS
    }

    /// The shard of a key; that of the thread without one. It is consistent between any two statements, so a poisoned lock is safe to use.
    fn shard(&self, key: Option<Key>) -> MutexGuard<'_, Shard> {
        let index = key.map_or_else(thread_index, |key| low_bits(key.fingerprint())) % SHARDS;
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Denial {
    fn of(self, policy: PolicyId, key: Key, now: u64) -> LimitedKey {
        let until = now.saturating_add(millis(self.wait));
        LimitedKey { policy, key, until, is_locked_out: self.is_locked_out }
    }
}

fn add(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}

/// Milliseconds since the epoch.
pub(crate) fn now_ms() -> u64 {
    since_epoch_ms(SystemTime::now())
}

pub(crate) fn since_epoch_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

fn low_bits(fingerprint: u128) -> usize {
    usize::try_from(fingerprint & 0xffff).unwrap_or_default()
}

/// A number of this thread, so that threads count in different shards.
fn thread_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static INDEX: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    INDEX.try_with(|index| *index).unwrap_or_default()
}

/// A failed call of the store makes it unhealthy for this long.
const HEALTHY_AFTER_MS: u64 = 10_000;

#[cfg(test)]
mod tests;
