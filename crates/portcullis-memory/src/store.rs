//! The store.

pub(crate) mod builder;
mod call;
pub(crate) mod documents;
mod overrides;
mod several;
mod shown;

use std::time::Duration;

use portcullis_core::algorithm::{Algorithm, Evaluation};
use portcullis_core::overrides::{Block, LockOut, Override};
use portcullis_core::store::protocol::{self, States as _};
use portcullis_core::store::{
    Check, Checks, Figure, Outcome, ReadyCheck, Renewal, Renewed, Store, StoreFuture,
};
use portcullis_core::{
    Clock, Decision, Key, Policy, Quota, Receipt, Settlement, SlidingWindow, StoreError, Strategy, Timestamp,
};
use smallvec::SmallVec;

use crate::clock::SystemClock;
use crate::figures::stats::{MemoryPolicyStats, MemoryStats};
use crate::figures::{self, Names};
use crate::policies::Policies;
use crate::shards::shard::{SmallEntryState, slots_of, time_step};
use crate::shards::{LockedShard, LockedShards, ShardKey, Words};
use crate::store::builder::MemoryStoreBuilder;
use call::CallState;

/// The shards of the checks of a decision, in their order.
type ShardKeys<'a> = SmallVec<[ShardKey<'a>; 2]>;

/// A store that keeps its state in this process.
///
/// Its answers are always ready: none of its futures has to be awaited. Share one store between layers through an `Arc`.
#[derive(Debug)]
pub struct MemoryStore<C = SystemClock> {
    policies: Policies,
    clock: C,
    swept_per_check: usize,
}

impl MemoryStore {
    /// Creates a store for 250 000 keys of each of up to 64 policies, on the system's clock.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Starts a store that differs from the default.
    ///
    /// ```
    /// use portcullis::store::MemoryStore;
    ///
    /// let store = MemoryStore::builder().capacity(10_000).build();
    /// assert_eq!(store.stats().entries, 0);
    /// ```
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::new()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

// Beside the store, so that the builder does not depend on it.
impl<C: Clock> MemoryStoreBuilder<C> {
    /// Builds the store.
    pub fn build(self) -> MemoryStore<C> {
        let (limits, clock, swept_per_check) = self.into_parts();
        MemoryStore { policies: Policies::new(limits), clock, swept_per_check }
    }
}

impl<C: Clock> MemoryStore<C> {
    /// Returns how full the store is, and how many checks used an overflow state.
    ///
    /// Locks the shards one after another.
    pub fn stats(&self) -> MemoryStats {
        self.policies.stats()
    }

    /// Returns how full the store is for each of its policies, in no particular order.
    ///
    /// ```
    /// use portcullis::store::{MemoryStore, Store};
    /// use portcullis::{Policy, Quota};
    ///
    /// let store = MemoryStore::new();
    /// store.register(&Policy::gcra("login", Quota::per_minute(5)))?;
    /// let stats = store.policy_stats();
    /// assert_eq!((stats[0].policy.as_str(), stats[0].entries), ("login", 0));
    /// # Ok::<(), portcullis::StoreError>(())
    /// ```
    ///
    /// Locks the shards one after another.
    pub fn policy_stats(&self) -> Vec<MemoryPolicyStats> {
        self.policies.policy_stats()
    }

    /// Visits the figures of the store under other names.
    pub(crate) fn visit_figures(&self, names: &Names, visit: &mut dyn FnMut(Figure<'_>)) {
        let (stats, policies) = self.policies.stats_by_name();
        figures::visit(names, (&stats, &policies), visit);
    }

    /// Decides a single check, which most calls have. Returns `None`, and decides nothing, if another quota is granted to the key.
    #[inline]
    fn decide(&self, policy: &Policy, key: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        if policy.has_exceptions() {
            return self.decide_exceptional(policy, key, cost).transpose();
        }
        // What is loaded by pages has to be small, and decides alike without the paths that are fast.
        if cfg!(target_family = "wasm") {
            return Some(self.check_any(policy, key, cost));
        }
        match policy.strategy() {
            Strategy::TokenBucket(bucket) => self.check_small_entry((policy, bucket), key, cost),
            Strategy::Gcra(gcra) => self.check_small_entry((policy, gcra), key, cost),
            Strategy::LeakyBucket(bucket) => self.check_small_entry((policy, bucket), key, cost),
            Strategy::FixedWindow(window) => self.check_small_entry((policy, window), key, cost),
            Strategy::CalendarWindow(window) => self.check_small_entry((policy, window), key, cost),
            Strategy::SlidingWindow(window) => self.check_slots((policy, window), key, cost),
            Strategy::SlidingLog(_) | Strategy::InFlight(_) => Some(self.check_any(policy, key, cost)),
        }
    }

    /// Decides a single check of a small state. The shard is locked for the look-up and the charge alone. The algorithm is a copy, because what
    /// is behind a reference is read, and divided by, again after the shard is unlocked.
    // Not inlined, and with an option that is never `None`, so that it writes the result where the caller of the store wants it.
    #[inline(never)]
    #[expect(clippy::unnecessary_wraps, reason = "as above")]
    fn check_small_entry<A: Algorithm<State: SmallEntryState> + Copy>(
        &self,
        (policy, algorithm): (&Policy, &A),
        key: Key,
        cost: u64,
    ) -> Option<Result<ReadyCheck, StoreError>> {
        let algorithm = *algorithm;
        let decide = |shard: &mut LockedShard<'_>, id, now| {
            shard.decide(id, (policy.strategy(), &algorithm), now, cost)
        };
        let deny = |words, now| {
            let state = A::State::of_words(words);
            let Evaluation { admitted, repair } = algorithm.evaluate(Some(&state), now, cost);
            let is_continuous = time_step(policy.strategy()) == 1;
            (!admitted && !repair && is_continuous).then_some((admitted, Some(state)))
        };
        // The key is unknown and its shard is full, or the length of its window is unknown.
        let (now, (admitted, state)) = match self.decide_alone(policy, key, deny, decide) {
            Ok(Some(decided)) => decided,
            Ok(None) => return Some(self.check_any(policy, key, cost)),
            Err(error) => return Some(Err(error)),
        };
        let figures = algorithm.figures(state.as_ref(), now, cost, admitted);
        Some(Ok(ReadyCheck::new(policy, now, figures, algorithm.position(state.as_ref(), now))))
    }

    /// Decides a single check of a sliding window.
    #[inline(never)]
    #[expect(clippy::unnecessary_wraps, reason = "as above")]
    fn check_slots(
        &self,
        (policy, window): (&Policy, &SlidingWindow),
        key: Key,
        cost: u64,
    ) -> Option<Result<ReadyCheck, StoreError>> {
        let decide = |shard: &mut LockedShard<'_>, id, now| shard.decide_slots(id, window, now, cost);
        let deny = |words, now| match window.check_in_place(&mut slots_of(words), now, cost)? {
            (figures, position, None) => Some((figures, position)),
            (_, _, Some(_)) => None,
        };
        // The key is unknown, or its slots need more than a charge.
        let (now, (figures, position)) = match self.decide_alone(policy, key, deny, decide) {
            Ok(Some(decided)) => decided,
            Ok(None) => return Some(self.check_any(policy, key, cost)),
            Err(error) => return Some(Err(error)),
        };
        Some(Ok(ReadyCheck::new(policy, now, figures, position)))
    }

    /// Lets `deny` decide by a state that the shard of a key shows without its lock. Otherwise sweeps a few entries of the shard, and lets
    /// `decide` decide there. Returns `None` if the policy was forgotten meanwhile.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as for the shard of a key")]
    fn decide_alone<D>(
        &self,
        policy: &Policy,
        key: Key,
        deny: impl FnOnce(Words, Timestamp) -> Option<D>,
        decide: impl FnOnce(&mut LockedShard<'_>, u128, Timestamp) -> Option<D>,
    ) -> Result<Option<(Timestamp, D)>, StoreError> {
        let key = self.shard_key(policy, key)?;
        let now = self.clock.now();
        if let Some(denied) = key.denied(now).and_then(|words| deny(words, now)) {
            return Ok(Some((now, denied)));
        }
        let Some(mut shard) = LockedShard::new(&key) else { return Ok(None) };
        let now = shard.instant(now, &self.clock);
        shard.sweep_in_batches(policy.strategy(), now, self.swept_per_check);
        let decided = decide(&mut shard, key.id, now);
        drop(shard);
        Ok(decided.map(|decided| (now, decided)))
    }

    /// Decides a single check of any state, and of a key that shares one because its shard is full.
    #[inline(never)]
    fn check_any(&self, policy: &Policy, key: Key, cost: u64) -> Result<ReadyCheck, StoreError> {
        let strategy = policy.strategy();
        let mut state = self.lock_one(policy, key)?;
        let now = state.now;
        let admitted = protocol::decide(strategy, cost, now, &mut state);
        let figures = Algorithm::figures(strategy, state.get(0), now, cost, admitted);
        let position = strategy.position(state.get(0), now);
        state.unlock();
        Ok(ReadyCheck::new(policy, now, figures, position))
    }

    /// Locks the state of a key under a policy, for a call at the present instant.
    fn lock_one(&self, policy: &Policy, key: Key) -> Result<CallState<'_>, StoreError> {
        let (key, shard, now) = self.lock_shard(policy, key)?;
        Ok(self.locate_state(shard, &key, policy.strategy(), now))
    }

    /// The shard of a key under a policy, which is registered if necessary.
    // Always inlined: a result of this size that is passed through memory takes as long as the look-up.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    fn shard_key(&self, policy: &Policy, key: Key) -> Result<ShardKey<'_>, StoreError> {
        let digest = policy.digest();
        let shards = match self.policies.find(digest) {
            Some(found) => found,
            None => self.policies.register(policy, self.clock.now())?,
        };
        Ok(shards.shard_key(digest, key))
    }

    /// Locks the shard of a key under a policy. Returns the instant of the call as well.
    fn lock_shard(
        &self,
        policy: &Policy,
        key: Key,
    ) -> Result<(ShardKey<'_>, LockedShard<'_>, Timestamp), StoreError> {
        loop {
            let key = self.shard_key(policy, key)?;
            let now = self.clock.now();
            // Otherwise the policy was forgotten meanwhile, and is registered again.
            if let Some(mut shard) = LockedShard::new(&key) {
                let now = shard.instant(now, &self.clock);
                return Ok((key, shard, now));
            }
        }
    }

    /// Locks the shards of several keys, each under its policy. Returns the instant of the call as well.
    fn lock_shards<'c>(
        &self,
        keys: &(impl Iterator<Item = (&'c Policy, Key)> + Clone),
    ) -> Result<(ShardKeys<'_>, LockedShards<'_>, Timestamp), StoreError> {
        loop {
            let mut shard_keys = ShardKeys::new();
            for (policy, key) in keys.clone() {
                shard_keys.push(self.shard_key(policy, key)?);
            }
            let now = self.clock.now();
            if let Some(mut shards) = LockedShards::new(&shard_keys) {
                let now = shards.instant(now, &self.clock);
                return Ok((shard_keys, shards, now));
            }
        }
    }

    fn locate_state<'a>(
        &self,
        mut shard: LockedShard<'a>,
        key: &ShardKey<'a>,
        strategy: &Strategy,
        now: Timestamp,
    ) -> CallState<'a> {
        let (entry, access) = shard.sweep_and_locate(key.id, strategy, now, self.swept_per_check);
        CallState { shard, policy: key.policy, strategy: *strategy, entry, access, now }
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        if let [Check { policy, key, cost }] = checks.iter().as_slice() {
            return StoreFuture::ready(match self.decide(policy, *key, *cost) {
                Some(Ok(ready)) => Ok(Outcome::single(checks, ready).expect("there is one check")),
                Some(Err(error)) => Err(error),
                None => self.check_with_overrides(checks),
            });
        }
        if checks.iter().any(|check| check.policy.has_exceptions()) {
            return StoreFuture::ready(self.check_with_overrides(checks));
        }
        StoreFuture::ready(match self.check_several(&checks) {
            Ok(results) => Ok(results.into_outcome(checks)),
            Err(error) => Err(error),
        })
    }

    fn check_now(&self, policy: &Policy, key: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        self.decide(policy, key, cost)
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        StoreFuture::ready(self.lock_one(receipt.policy(), receipt.key()).map(|mut state| {
            let decision = protocol::refund(&receipt, state.now, &mut state);
            state.unlock();
            decision
        }))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        StoreFuture::ready(self.lock_one(receipt.policy(), receipt.key()).map(|mut state| {
            let settlement = protocol::settle(receipt, cost, state.now, &mut state);
            state.unlock();
            settlement
        }))
    }

    /// Each renewal locks the shard of its key alone.
    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        let renew = |renewal: &Renewal| {
            let mut state = self.lock_one(renewal.policy(), renewal.key())?;
            let renewed = protocol::renew(renewal, state.now, &mut state);
            state.unlock();
            Ok(renewed)
        };
        StoreFuture::ready(renewals.iter().map(renew).collect())
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        let digest = policy.digest();
        if let Some(key) = self.policies.find(digest).map(|shards| shards.shard_key(digest, key))
            && let Some(mut shard) = LockedShard::new(&key)
        {
            shard.remove(key.id);
        }
        StoreFuture::ready(Ok(()))
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        if self.policies.find(policy.digest()).is_some() {
            return Ok(());
        }
        self.policies.register(policy, self.clock.now()).map(|_| ())
    }

    fn set_grant(&self, policy: &Policy, key: Key, grant: Option<(Quota, Duration)>) -> StoreFuture<()> {
        StoreFuture::ready(self.change_grant(policy, key, grant))
    }

    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        StoreFuture::ready(self.start_block(policy, key, length))
    }

    fn unblock(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        StoreFuture::ready(self.end_block(policy, key))
    }

    fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        StoreFuture::ready(self.count_denials(policy, key, denials, lock_out))
    }

    fn overrides(&self, policy: &Policy, key: Key) -> StoreFuture<Override> {
        StoreFuture::ready(self.override_of(policy, key))
    }

    /// Locks the shards one after another.
    fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        self.visit_figures(&Names::STORE, visit);
    }
}
