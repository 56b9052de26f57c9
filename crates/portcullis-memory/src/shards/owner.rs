//! Which policy has shards, and when it is forgotten.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use portcullis_core::{Policy, PolicyName, Strategy, Timestamp};
use portcullis_log::LogThrottle;

use super::{Overflow, Padded, Shards, lock};
use crate::budget::{Amount, BytesUsed, Division, SMALL_ENTRY_BYTES, initial_heap_bytes, parts};
use crate::figures::stats::MemoryPolicyStats;
use crate::overrides::SharedOverrides;
use crate::shards::shard::{Bounds, Shard};
use crate::shards::unlocked::Unlocked;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::table::halves;

/// The policy that has shards, or had them last.
#[derive(Debug)]
pub(super) struct Owner {
    policy: PolicyName,
    /// With the quota that was registered.
    strategy: Strategy,
    used: Option<Arc<BytesUsed>>,
    overrides: Arc<SharedOverrides>,
}

impl Shards {
    /// The shards of a policy. `limits` are for its states and for its overrides; `overrides` are those of another policy with its name.
    pub(crate) fn new(
        policy: &Policy,
        number: u32,
        limits: (Amount, usize),
        now: Timestamp,
        overrides: Option<Arc<SharedOverrides>>,
    ) -> Self {
        let (granted, capacity) = limits;
        let count = count(granted);
        let owner = Owner::new(policy, overrides, (capacity, count));
        let unlocked: Box<[_]> = (0..count).map(|_| Unlocked::new()).collect();
        let shard = |unlocked| Padded(Mutex::new(owner.shard((policy, now), (granted, count), unlocked)));
        let digest = halves(policy.digest()).map(AtomicU64::new);
        let mutexes = unlocked.iter().map(shard).collect();
        Self {
            digest,
            number,
            granted,
            unlocked,
            mutexes,
            owner: Mutex::new(owner),
            overflow: Overflow { checks: AtomicU64::new(0), throttle: LogThrottle::hourly() },
            overrides: capacity,
            refused_overrides: LogThrottle::hourly(),
        }
    }

    /// Whether a policy with this digest has the shards. It may be forgotten at any time.
    #[inline]
    pub(crate) fn is_of(&self, digest: u128) -> bool {
        let [low, high] = halves(digest);
        self.digest[0].load(Ordering::Acquire) == low && self.digest[1].load(Ordering::Acquire) == high
    }

    /// Whether no policy has the shards.
    pub(crate) fn is_vacant(&self) -> bool {
        self.is_of(0)
    }

    /// Gives vacant shards to a policy. To be called by one thread at a time.
    pub(crate) fn assign(&self, policy: &Policy, now: Timestamp, overrides: Option<Arc<SharedOverrides>>) {
        let count = self.mutexes.len();
        let owner = Owner::new(policy, overrides, (self.overrides, count));
        for (Padded(shard), unlocked) in self.mutexes.iter().zip(&self.unlocked) {
            *lock(shard) = owner.shard((policy, now), (self.granted, count), unlocked);
        }
        self.overflow.checks.store(0, Ordering::Relaxed);
        *self.owner() = owner;
        self.set_digest(policy.digest());
    }

    /// Since when the policy was not used, if it can be forgotten at an instant. `keeps_overrides` is whether another one has the same.
    pub(crate) fn idle_since(&self, now: Timestamp, keeps_overrides: bool) -> Option<Timestamp> {
        let owner = self.owner();
        let mut last = Timestamp::EPOCH;
        for Padded(shard) in &self.mutexes {
            let shard = lock(shard);
            last = last.max(shard.latest());
            if shard.has_living(&owner.strategy, now) {
                return None;
            }
        }
        let is_needed = !keeps_overrides && owner.overrides.has_living(now);
        (now.saturating_since(last) >= KEPT && !is_needed).then_some(last)
    }

    /// Forgets the policy, unless it has a state that counts by now. To be called by one thread at a time. Returns its overflowed checks.
    pub(crate) fn forget(&self, now: Timestamp, keeps_overrides: bool) -> Option<u64> {
        let owner = self.owner();
        // All at once, so that no call charges a state in between.
        let mut shards: Vec<_> = self.mutexes.iter().map(|Padded(shard)| lock(shard)).collect();
        let is_needed = shards.iter().any(|shard| shard.has_living(&owner.strategy, now))
            || !keeps_overrides && owner.overrides.has_living(now);
        if is_needed {
            return None;
        }
        self.set_digest(0);
        for (shard, unlocked) in shards.iter_mut().zip(&self.unlocked) {
            let bounds = Bounds { keys: 0, bytes: 0, shards: self.mutexes.len(), used: None };
            **shard = Shard::new(&owner.strategy, bounds, unlocked);
        }
        Some(self.overflow.checks.swap(0, Ordering::Relaxed))
    }

    /// The overrides of the policy.
    pub(crate) fn overrides(&self) -> Arc<SharedOverrides> {
        Arc::clone(&self.owner().overrides)
    }

    /// The name of the policy.
    pub(super) fn policy(&self) -> PolicyName {
        self.owner().policy.clone()
    }

    /// Locks the shards one after another.
    pub(crate) fn stats(&self) -> MemoryPolicyStats {
        let mut stats = MemoryPolicyStats {
            policy: self.policy(),
            entries: 0,
            bytes: 0,
            overflow_states: 0,
            overflowed_checks: self.overflow.checks.load(Ordering::Relaxed),
            overrides: self.overrides().len(),
        };
        for Padded(shard) in &self.mutexes {
            lock(shard).add_to(&mut stats);
        }
        let used = self.owner().used.clone();
        stats.bytes += used.map_or(stats.entries * SMALL_ENTRY_BYTES, |used| used.get());
        stats
    }

    fn set_digest(&self, digest: u128) {
        let [low, high] = halves(digest);
        self.digest[0].store(low, Ordering::Release);
        self.digest[1].store(high, Ordering::Release);
    }

    fn owner(&self) -> MutexGuard<'_, Owner> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owner {
    fn new(
        policy: &Policy,
        overrides: Option<Arc<SharedOverrides>>,
        (capacity, count): (usize, usize),
    ) -> Self {
        let strategy = *policy.strategy();
        let used = (initial_heap_bytes(&strategy) > 0).then(Arc::default);
        let overrides = overrides.unwrap_or_else(|| Arc::new(SharedOverrides::new(policy, capacity, count)));
        Self { policy: policy.name().clone(), strategy, used, overrides }
    }

    /// An empty shard, one of `count`, of the policy, which is registered at an instant.
    fn shard(
        &self,
        (policy, now): (&Policy, Timestamp),
        (granted, count): (Amount, usize),
        unlocked: &Unlocked,
    ) -> Shard {
        let keys = match self.used {
            Some(_) => granted.keys,
            None => granted.keys.min(Division::of(granted.bytes, &self.strategy).own / SMALL_ENTRY_BYTES),
        };
        let bounds = Bounds {
            keys: keys.div_ceil(count).max(1),
            bytes: granted.bytes,
            shards: count,
            used: self.used.clone(),
        };
        Shard::of_policy(
            (policy.digest(), now),
            &self.strategy,
            (bounds, unlocked),
            Arc::clone(&self.overrides),
        )
    }
}

/// The number of shards of any policy of a store, a power of two.
fn count(granted: Amount) -> usize {
    parts(granted.keys, LEAST_KEYS).min(parts(granted.bytes, LEAST_BYTES)).min(SHARDS)
}

/// How long a policy is kept that is not used.
const KEPT: Duration = Duration::from_secs(60);
/// The most shards, a power of two: several times the number of threads of a large machine.
const SHARDS: usize = 64;
/// Smaller shards would fill by chance long before the others.
const LEAST_KEYS: usize = 1_024;
/// Half of them may be for overflow states; the rest is enough for as many small states.
const LEAST_BYTES: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use portcullis_core::{InFlight, Quota, SlidingLog, SlidingWindow};

    use super::*;

    #[test]
    fn no_shard_is_small() {
        let count = |keys, bytes| count(Amount { keys, bytes });
        let by_keys =
            [1, 2_047, 2_048, 10_000, 65_535, 65_536, usize::MAX].map(|keys| count(keys, usize::MAX));
        assert_eq!(by_keys, [1, 1, 2, 8, 32, 64, 64]);
        let by_bytes = [1, 256 << 10, (512 << 10) - 1, 8 << 20].map(|bytes| count(usize::MAX, bytes));
        assert_eq!(by_bytes, [1, 2, 2, 64]);
    }

    #[test]
    fn each_shard_has_an_overflow_state() {
        let minute = Quota::per_minute(SlidingLog::MAX_LIMIT);
        let slots = SlidingWindow::with_slots(Quota::per(1, Duration::from_secs(1)), 1_000).unwrap();
        for strategy in [
            Strategy::SlidingWindow(slots),
            Strategy::SlidingLog(SlidingLog::new(minute).unwrap()),
            Strategy::InFlight(InFlight::new(InFlight::MAX_LIMIT).unwrap()),
        ] {
            for shards in [1, 2, 8, SHARDS] {
                let division = Division::of(shards * LEAST_BYTES, &strategy);
                assert!(division.overflow_states >= shards, "{strategy:?}");
            }
        }
    }
}
