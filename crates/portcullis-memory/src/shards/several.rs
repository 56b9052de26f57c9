//! Locks the shards of several keys, and decides checks of small states, each in a shard of its own, as if each were alone.

use portcullis_core::algorithm::Algorithm;
use portcullis_core::store::{Check, ReadyCheck};
use portcullis_core::{Strategy, Timestamp};
use smallvec::SmallVec;

use super::{LockedShard, LockedShards, ShardKey};
use crate::shards::shard::{Shard, SmallEntryState};

/// Evaluates an expression with the algorithm of a strategy whose states are small, or another one.
macro_rules! with_small_entries {
    ($strategy:expr, $algorithm:ident => $call:expr, $other:expr) => {
        match $strategy {
            Strategy::TokenBucket($algorithm) => $call,
            Strategy::Gcra($algorithm) => $call,
            Strategy::LeakyBucket($algorithm) => $call,
            Strategy::FixedWindow($algorithm) => $call,
            Strategy::CalendarWindow($algorithm) => $call,
            Strategy::SlidingWindow(_) | Strategy::SlidingLog(_) | Strategy::InFlight(_) => $other,
        }
    };
}

impl<'a> LockedShards<'a> {
    /// Locks the shards of all `keys`, always in the same order. Returns `None` if a policy was forgotten since its shard was found.
    pub(crate) fn new(keys: &[ShardKey<'a>]) -> Option<Self> {
        let mut locked = Self { guards: SmallVec::new() };
        let are_locked = match keys {
            [first, second] if first.order() <= second.order() => locked.lock(first) && locked.lock(second),
            [first, second] => locked.lock(second) && locked.lock(first),
            _ => {
                let mut ordered: SmallVec<[&ShardKey<'a>; 2]> = keys.iter().collect();
                ordered.sort_unstable_by_key(|key| key.order());
                ordered.into_iter().all(|key| locked.lock(key))
            }
        };
        are_locked.then_some(locked)
    }

    /// Locks the next shard in the order, unless it is the last one that was locked. Returns whether it still is one of its policy.
    #[inline]
    fn lock(&mut self, key: &ShardKey<'a>) -> bool {
        let order = key.order();
        match self.guards.last() {
            Some((last, shard)) if *last == order => shard.is_of(key.digest),
            _ => {
                let shard = LockedShard::new(key);
                let is_of = shard.is_some();
                self.guards.extend(shard.map(|shard| (order, shard)));
                is_of
            }
        }
    }

    /// Ends the decision.
    pub(crate) fn unlock(&mut self) {
        self.guards.clear();
    }
}

impl LockedShards<'_> {
    /// Whether [`decide`](Self::decide) admits each check of these keys, and no two of them depend on each other. Changes nothing.
    pub(crate) fn admits_each(&mut self, keys: &[ShardKey<'_>], checks: &[Check], now: Timestamp) -> bool {
        // Two keys of one shard may need its last room, or share a state.
        keys.len() == self.guards.len()
            && keys.iter().zip(checks).all(|(key, Check { policy, cost, .. })| {
                let index = self.index_of(key);
                let shard = &mut *self.guards[index].1;
                with_small_entries!(
                    policy.strategy(),
                    algorithm => shard.admits(key.id, algorithm, now, *cost),
                    false
                )
            })
    }

    /// Sweeps a few entries, then decides a check. Returns `None`, and decides nothing, where [`Shard::decide`] does.
    pub(crate) fn decide(
        &mut self,
        key: &ShardKey<'_>,
        check: &Check,
        now: Timestamp,
        swept: usize,
    ) -> Option<ReadyCheck> {
        let index = self.index_of(key);
        let shard = &mut *self.guards[index].1;
        shard.sweep_in_batches(check.policy.strategy(), now, swept);
        with_small_entries!(check.policy.strategy(), algorithm => decide(shard, key.id, (check, algorithm), now), None)
    }
}

// Not inlined, so that one call for each algorithm is left of it.
#[inline(never)]
fn decide<A: Algorithm<State: SmallEntryState>>(
    shard: &mut Shard,
    id: u128,
    (Check { policy, cost, .. }, algorithm): (&Check, &A),
    now: Timestamp,
) -> Option<ReadyCheck> {
    let (admitted, state) = shard.decide(id, (policy.strategy(), algorithm), now, *cost)?;
    let figures = algorithm.figures(state.as_ref(), now, *cost, admitted);
    Some(ReadyCheck::new(policy, now, figures, algorithm.position(state.as_ref(), now)))
}
