//! The shards of a policy, and the locks that a decision takes on them.

mod owner;
mod several;
pub(crate) mod shard;
mod unlocked;

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};

use portcullis_core::overrides::Effect;
use portcullis_core::{Clock, Key, Policy, StoreError, StoreErrorKind, Strategy, Timestamp};
use portcullis_log::{LogThrottle, codes};
use smallvec::SmallVec;

use self::owner::Owner;
use crate::budget::Amount;
use crate::shards::shard::{Access, EntryId, Shard};
use crate::shards::unlocked::Unlocked;
pub(crate) use crate::shards::unlocked::Words;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// The states of one policy, in shards with one lock each.
///
/// They are never freed, so that they are found without a lock: when the policy is [forgotten](owner), another one gets them. So a call
/// that has found them looks, under the lock of a shard, whether they still are those of its policy.
#[derive(Debug)]
pub(crate) struct Shards {
    /// The two halves of the digest of the policy; zeros if none has the shards.
    digest: [AtomicU64; 2],
    /// Locks are taken in the order of these numbers, which are unique.
    number: u32,
    granted: Amount,
    /// What is read of each shard without its lock.
    unlocked: Box<[Unlocked]>,
    mutexes: Box<[Padded]>,
    /// Not locked by checks.
    owner: Mutex<Owner>,
    overflow: Overflow,
    /// About the maximum number of overrides.
    overrides: usize,
    refused_overrides: LogThrottle,
}

/// What a check of a key that did not fit counts, in a cache line of its own: every check reads what is beside it.
#[derive(Debug)]
#[repr(align(128))]
struct Overflow {
    checks: AtomicU64,
    throttle: LogThrottle,
}

/// A shard in cache lines of its own: processors load them in pairs of 64 bytes.
#[derive(Debug)]
#[repr(align(128))]
struct Padded(Mutex<Shard>);

impl Shards {
    /// The shard of a key under the policy with this digest, and its id there. The upper half of the id selects the shard, the lower
    /// half is its hash there. Begins to load the entry of the key.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits count")]
    pub(crate) fn shard_key(&self, digest: u128, key: Key) -> ShardKey<'_> {
        let id = key.fingerprint() ^ digest;
        let shard = (id >> 64) as usize & (self.mutexes.len() - 1);
        self.unlocked[shard].location.prefetch(id);
        ShardKey { policy: self, shard, id, digest }
    }

    /// Counts a check that used an overflow state, and logs that from time to time. Not to be called under a lock.
    pub(crate) fn count_overflow(&self) {
        self.overflow.checks.fetch_add(1, Ordering::Relaxed);
        self.overflow.throttle.count(0, None, || {
            let (policy, Amount { keys, bytes }) = (self.policy(), self.granted);
            move |counted| {
                tracing::warn!(
                    code = %codes::MEMORY_FULL,
                    %policy,
                    keys,
                    bytes,
                    checks = counted.events,
                    "the memory store has no room for more keys of this policy: new keys share overflow states; raise --memory-keys, in code `capacity`; checks counted \
                     since the last such line"
                );
            }
        });
    }

    /// The error of an override for which there is no room, which is also logged from time to time. Not to be called under a lock.
    #[cold]
    pub(crate) fn no_room_for_override(&self) -> StoreError {
        let (policy, overrides) = (self.policy(), self.overrides.next_multiple_of(self.mutexes.len()));
        self.refused_overrides.count(0, None, || {
            let policy = policy.clone();
            move |counted| {
                tracing::warn!(
                    code = %codes::OVERRIDES_FULL,
                    %policy,
                    overrides,
                    changes = counted.events,
                    "the memory store has no room for more overrides of this policy: raise `override_capacity`; changes counted since \
                     the last such line"
                );
            }
        });
        let message = format!(
            "policy {policy} has no room for another override: about {overrides} grants and blocks are kept; raise \
             `override_capacity`"
        );
        StoreError::new(StoreErrorKind::Failed, message)
    }
}

/// The shard that a key belongs to under a policy, and its id there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardKey<'a> {
    pub(crate) policy: &'a Shards,
    shard: usize,
    pub(crate) id: u128,
    /// The digest of the policy.
    digest: u128,
}

impl<'a> ShardKey<'a> {
    #[inline]
    fn lock(&self) -> MutexGuard<'a, Shard> {
        lock(&self.policy.mutexes[self.shard].0)
    }

    /// The state that denies the key, if the shard shows it to calls that have not locked it. See [`DeniedState`](unlocked::DeniedState).
    #[inline]
    pub(crate) fn denied(&self, now: Timestamp) -> Option<Words> {
        self.policy.unlocked[self.shard].denied.read(self.id, now)
    }

    fn order(&self) -> LockOrder {
        (self.policy.number, self.shard)
    }
}

/// The shard of one key, locked until the call for this key ends.
#[derive(Debug)]
pub(crate) struct LockedShard<'a>(MutexGuard<'a, Shard>);

impl<'a> LockedShard<'a> {
    /// Returns `None` if the policy was forgotten since the shard was found.
    #[inline]
    pub(crate) fn new(key: &ShardKey<'a>) -> Option<Self> {
        let shard = key.lock();
        shard.is_of(key.digest).then(|| Self(shard))
    }

    /// The instant of a call that has `read` the clock before it locked the shard: another call may have locked it first with a later one. See
    /// [`not_before`].
    #[inline]
    pub(crate) fn instant(&mut self, read: Timestamp, clock: &impl Clock) -> Timestamp {
        let now = not_before(self.0.latest(), read, clock);
        self.0.set_latest(now);
        now
    }
}

impl Deref for LockedShard<'_> {
    type Target = Shard;

    #[inline]
    fn deref(&self) -> &Shard {
        &self.0
    }
}

impl DerefMut for LockedShard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Shard {
        &mut self.0
    }
}

impl Drop for LockedShard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.end_decision();
    }
}

/// The shards of one decision, locked until it ends.
#[derive(Debug)]
pub(crate) struct LockedShards<'a> {
    guards: SmallVec<[(LockOrder, LockedShard<'a>); 2]>,
}

/// The order in which shards are locked: by policy, then by shard.
type LockOrder = (u32, usize);

/// Where the state of a key under a policy is: the index of the shard among those of the decision, and the entry there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StateLocation {
    shard: usize,
    entry: EntryId,
}

impl StateLocation {
    /// Whether the state is shared by keys that did not fit.
    pub(crate) fn is_overflow(self) -> bool {
        self.entry.is_overflow()
    }
}

impl LockedShards<'_> {
    /// The instant of a call that has `read` the clock before it locked the shards. See [`LockedShard::instant`].
    pub(crate) fn instant(&mut self, read: Timestamp, clock: &impl Clock) -> Timestamp {
        let latest = self.guards.iter().map(|(_, shard)| shard.latest()).max();
        let now = not_before(latest.unwrap_or(read), read, clock);
        self.guards.iter_mut().for_each(|(_, shard)| shard.set_latest(now));
        now
    }

    /// Sweeps a few entries, then locates the state of a key whose shard is locked, and reserves what a new state takes.
    pub(crate) fn sweep_and_locate(
        &mut self,
        key: &ShardKey<'_>,
        strategy: &Strategy,
        now: Timestamp,
        swept: usize,
    ) -> (StateLocation, Access) {
        let shard = self.index_of(key);
        let (entry, access) = self.guards[shard].1.sweep_and_locate(key.id, strategy, now, swept);
        (StateLocation { shard, entry }, access)
    }

    /// What the override of a key whose shard is locked does to a check.
    pub(crate) fn effect_on(&mut self, key: &ShardKey<'_>, policy: &Policy, now: Timestamp) -> Effect {
        let index = self.index_of(key);
        self.guards[index].1.effect(key.id, policy, now)
    }

    fn index_of(&self, key: &ShardKey<'_>) -> usize {
        let order = key.order();
        let index = self.guards.iter().position(|(locked, _)| *locked == order);
        index.expect("every shard of a decision is locked before it is used")
    }

    /// The shard of a state, and the entry there.
    pub(crate) fn at(&self, location: StateLocation) -> (&Shard, EntryId) {
        (&self.guards[location.shard].1, location.entry)
    }

    /// Like [`at`](Self::at), to change the state.
    pub(crate) fn at_mut(&mut self, location: StateLocation) -> (&mut Shard, EntryId) {
        (&mut self.guards[location.shard].1, location.entry)
    }
}

/// An instant that is not before the `latest` of the calls before, unless the clock has stepped: what was `read`, or what is read now.
#[inline]
fn not_before(latest: Timestamp, read: Timestamp, clock: &impl Clock) -> Timestamp {
    if read >= latest {
        return read;
    }
    let now = clock.now();
    if now < latest && latest.saturating_since(now) <= clock.skew() { latest } else { now }
}

/// Locks a shard. Spins first: a shard is locked for less time than it takes to put a thread to sleep and to wake it, and once
/// one thread sleeps, the lock of the standard library makes the others sleep as well.
/// Ignores poisoning: a panic under a lock leaves whole entries.
#[inline]
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    match shard.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => wait_for(shard),
    }
}

#[cold]
#[inline(never)]
fn wait_for(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    for attempt in 0..ATTEMPTS {
        // Each attempt takes the cache line of the lock away from the thread that has it, so the first one leaves it time for its decision.
        for _ in 0..FEWEST_PAUSES << attempt.min(MOST_DOUBLED) {
            std::hint::spin_loop();
        }
        match shard.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
    }
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A few microseconds, several times what a call takes under a lock. A scheduler that explores interleavings needs one attempt.
const ATTEMPTS: u32 = if cfg!(shuttle) { 1 } else { 8 };
/// The pauses before the first attempt: from a tenth of a microsecond on.
const FEWEST_PAUSES: u32 = 16;
/// How often the number of pauses is doubled.
const MOST_DOUBLED: u32 = 2;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use portcullis_core::{ManualClock, Policy, Quota, Secret};

    use super::*;

    #[test]
    fn earlier_instant_is_read_again() {
        let policy = Policy::gcra("a", Quota::per_second(1));
        let shards = Shards::new(&policy, 0, (Amount { keys: 1, bytes: 1 << 20 }, 1), Timestamp::EPOCH, None);
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", b"ada");
        let key = shards.shard_key(policy.digest(), hasher.finish().unwrap());
        let at = Timestamp::from_micros;
        let clock = ManualClock::new(at(9));
        let alone = |read| LockedShard::new(&key).unwrap().instant(at(read), &clock);
        let together = |read| LockedShards::new(&[key]).unwrap().instant(at(read), &clock);
        assert_eq!([alone(7), alone(6), together(8), together(9)], [at(7), at(9), at(9), at(9)]);
        // A clock that was set back.
        clock.set(at(3));
        assert_eq!([together(3), alone(2), alone(3)], [at(3), at(3), at(3)]);
    }

    #[test]
    fn instant_within_the_skew_is_the_latest() {
        struct Skewed(ManualClock);

        impl Clock for Skewed {
            fn now(&self) -> Timestamp {
                self.0.now()
            }

            fn skew(&self) -> Duration {
                Duration::from_micros(2)
            }
        }

        let at = Timestamp::from_micros;
        let read = |time| not_before(at(9), at(time), &Skewed(ManualClock::new(at(time))));
        assert_eq!([6, 7, 8, 9, 10].map(read), [at(6), at(9), at(9), at(9), at(10)]);
    }
}
