//! Decides several checks of small states, each in a shard of its own, as if each were alone.

use portcullis_core::algorithm::Algorithm;
use portcullis_core::store::{Check, ReadyCheck};
use portcullis_core::{Strategy, Timestamp};

use super::{LockedShards, ShardKey};
use crate::shard::{Shard, SmallState};

/// Evaluates an expression with the algorithm of a strategy whose states are small, or another one.
macro_rules! with_small {
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

impl LockedShards<'_> {
    /// Whether [`decide`](Self::decide) admits each check of these keys, and no two of them depend on each other. Changes nothing.
    pub(crate) fn admit_each(&self, keys: &[ShardKey<'_>], checks: &[Check], now: Timestamp) -> bool {
        // Two keys of one shard may need its last room, or share a state.
        keys.len() == self.guards.len()
            && keys.iter().zip(checks).all(|(key, Check { policy, cost, .. })| {
                let shard = &self.guards[self.index_of(key)].1;
                with_small!(
                    policy.strategy(),
                    algorithm => shard.admits(key.id, algorithm, now, *cost),
                    false
                )
            })
    }

    /// Sweeps a few entries, then decides a check, and charges it if it fits.
    ///
    /// Returns `None`, and decides nothing, if the state is not small, or if the key is unknown and the shard is full.
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
        with_small!(check.policy.strategy(), algorithm => decide(shard, key.id, (check, algorithm), now), None)
    }
}

// Not inlined, so that one call for each algorithm is left of it.
#[inline(never)]
fn decide<A: Algorithm<State: SmallState>>(
    shard: &mut Shard,
    id: u128,
    (Check { policy, cost, .. }, algorithm): (&Check, &A),
    now: Timestamp,
) -> Option<ReadyCheck> {
    let (admitted, state) = shard.decide(id, (policy.strategy(), algorithm), now, *cost)?;
    let figures = algorithm.figures(state.as_ref(), now, *cost, admitted);
    Some(ReadyCheck::new(policy, now, figures, algorithm.position(state.as_ref(), now)))
}
