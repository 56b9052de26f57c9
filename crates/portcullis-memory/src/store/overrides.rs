//! Checks of policies that read overrides, and the changes of overrides.

use std::time::Duration;

use portcullis_core::algorithm::Algorithm as _;
use portcullis_core::overrides::{
    Block, Effect, Grant, LockOut, Override, validate_block, validate_grant, validate_policy,
};
use portcullis_core::store::protocol::{self, States as _};
use portcullis_core::store::{CheckResult, Checks, Outcome, Position, ReadyCheck};
use portcullis_core::{Clock, Decision, Key, Policy, Quota, StoreError};
use smallvec::SmallVec;

use super::MemoryStore;
use super::call::CallStates;
use crate::overrides::Displaces;

impl<C: Clock> MemoryStore<C> {
    /// Decides a single check of a policy that reads overrides, under the lock of its state, or that counts nothing.
    /// Returns `None`, and decides nothing, if another quota is granted to the key.
    #[inline(never)]
    pub(super) fn decide_exceptional(
        &self,
        policy: &Policy,
        key: Key,
        cost: u64,
    ) -> Result<Option<ReadyCheck>, StoreError> {
        let unlimited =
            |now| ReadyCheck { decision: Decision::unlimited(policy, now), position: Position::default() };
        if !policy.reads_overrides() {
            return Ok(Some(unlimited(self.clock.now())));
        }
        let (key, mut shard, now) = self.lock_shard(policy, key)?;
        let left = match shard.effect(key.id, policy, now) {
            Effect::None if policy.is_unlimited() => return Ok(Some(unlimited(now))),
            Effect::None => None,
            Effect::Blocked(left) => Some(left),
            Effect::Granted(..) => return Ok(None),
        };
        let strategy = policy.strategy();
        let mut state = self.locate_state(shard, &key, strategy, now);
        let Some(left) = left else {
            let admitted = protocol::decide(strategy, cost, now, &mut state);
            let figures = strategy.figures(state.get(0), now, cost, admitted);
            let position = strategy.position(state.get(0), now);
            state.unlock();
            return Ok(Some(ReadyCheck::new(policy, now, figures, position)));
        };
        let CheckResult { snapshot, position, .. } = CheckResult::blocked(strategy, state.get(0), now, left);
        state.unlock();
        Ok(Some(ReadyCheck { decision: Decision::new(policy, now, snapshot), position }))
    }

    /// Decides checks of which some are of policies that read overrides, under the locks of all states.
    #[inline(never)]
    pub(super) fn check_with_overrides(&self, mut checks: Checks) -> Result<Outcome, StoreError> {
        let (keys, shards, now) = self.lock_shards(&checks.iter().map(|check| (&check.policy, check.key)))?;
        let mut states = CallStates::new(shards, now);
        let mut blocks: SmallVec<[Option<Duration>; 2]> = SmallVec::new();
        let mut grants: SmallVec<[(usize, Grant); 2]> = SmallVec::new();
        for (index, key) in keys.iter().enumerate() {
            let policy = checks.iter().as_slice()[index].policy.clone();
            let effect = if policy.reads_overrides() {
                states.shards.effect_on(key, &policy, now)
            } else {
                Effect::None
            };
            blocks.push(if let Effect::Blocked(left) = effect { Some(left) } else { None });
            let mut strategy = *policy.strategy();
            let mut located = None;
            if let Effect::Granted(granted, grant) = effect {
                let found =
                    states.shards.sweep_and_locate(key, granted.strategy(), now, self.swept_per_check);
                // Keys without such a grant share an overflow state, which a grant of nothing or of all does not change.
                let is_constant = granted.is_unlimited() || granted.strategy().limit() == 0;
                if is_constant || !found.0.is_overflow() {
                    strategy = *granted.strategy();
                    located = Some(found);
                    grants.push((index, grant));
                    checks = checks.with_policy(index, granted);
                }
            }
            match located {
                Some(found) => states.push(key, strategy, found),
                None => states.locate(key, &strategy, self.swept_per_check),
            }
        }
        let outcome = protocol::check_with_blocks(checks, now, &mut states, |index| blocks[index]);
        states.unlock();
        Ok(grants.into_iter().fold(outcome, |outcome, (index, grant)| outcome.with_grant(index, grant)))
    }

    pub(super) fn change_grant(
        &self,
        policy: &Policy,
        key: Key,
        grant: Option<(Quota, Duration)>,
    ) -> Result<(), StoreError> {
        match grant {
            Some((quota, length)) => validate_grant(policy, quota, length)?,
            None => validate_policy(policy)?,
        }
        self.change_override(policy, key, Displaces::Counts, |record, now| record.set_grant(now, grant))
    }

    pub(super) fn start_block(&self, policy: &Policy, key: Key, length: Duration) -> Result<(), StoreError> {
        validate_block(policy, length)?;
        self.change_override(policy, key, Displaces::Counts, |record, now| record.set_block(now, length))
    }

    pub(super) fn end_block(&self, policy: &Policy, key: Key) -> Result<(), StoreError> {
        validate_policy(policy)?;
        self.change_override(policy, key, Displaces::Counts, |record, _| record.unblock())
    }

    pub(super) fn count_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> Result<Option<Block>, StoreError> {
        validate_policy(policy)?;
        if self.is_overflowing(policy, key)? {
            return Ok(None);
        }
        self.change_override(policy, key, Displaces::Blocks, |record, now| {
            record.record_denials(now, denials, lock_out)
        })
    }

    /// Whether other keys share the state of a key, because the store is full: their use may have denied it.
    fn is_overflowing(&self, policy: &Policy, key: Key) -> Result<bool, StoreError> {
        let (key, mut shard, now) = self.lock_shard(policy, key)?;
        let (entry, _) = shard.sweep_and_locate(key.id, policy.strategy(), now, 0);
        Ok(entry.is_overflow())
    }

    pub(super) fn override_of(&self, policy: &Policy, key: Key) -> Result<Override, StoreError> {
        validate_policy(policy)?;
        // Another policy of its name may have one for the key, so it has to be registered.
        let (key, shard, _) = self.lock_shard(policy, key)?;
        Ok(shard.get_override(key.id))
    }

    fn change_override<T>(
        &self,
        policy: &Policy,
        key: Key,
        displaces: Displaces,
        change: impl FnOnce(&mut Override, portcullis_core::Timestamp) -> T,
    ) -> Result<T, StoreError> {
        let (key, mut shard, now) = self.lock_shard(policy, key)?;
        let changed = shard.change_override(key.id, now, displaces, |record| change(record, now));
        drop(shard);
        changed.map_err(|_| key.policy.no_room_for_override())
    }
}
