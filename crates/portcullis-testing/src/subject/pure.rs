//! The algorithm alone.

use std::collections::HashMap;
use std::future::ready;
use std::time::Duration;

use portcullis_core::algorithm::State;
use portcullis_core::overrides::{Block, Effect, Override};
use portcullis_core::store::protocol::{self, LoadedState};
use portcullis_core::store::{Checks, Renewal, Renewed, Structure};
use portcullis_core::{Decision, Key, Policy, PolicyName, Receipt, Settlement, Timestamp};

use super::{Checked, OverrideChange, SubjectFuture, SystemUnderTest};

/// The arithmetic of `portcullis-core` over a plain map. Every store must decide the same, bit for bit.
///
/// It never drops a state, not even an expired one.
///
/// ```
/// use portcullis::store::Checks;
/// use portcullis::{Policy, Quota, Secret, Timestamp};
/// use portcullis_testing::{Pure, SystemUnderTest};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut hasher = Secret::published().hasher();
/// hasher.writer().part("user", b"ada");
/// let checks = Checks::one(Policy::gcra("search", Quota::per_minute(1)), hasher.finish()?, 1);
///
/// let mut pure = Pure::new();
/// assert!(pure.check(Timestamp::EPOCH, checks.clone()).await?.decision.is_allowed());
/// assert!(!pure.check(Timestamp::EPOCH, checks).await?.decision.is_allowed());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Pure {
    states: HashMap<StateId, State>,
    overrides: HashMap<Id, Override>,
}

/// Another strategy under the same name has another state, and other overrides.
type Id = (PolicyName, &'static str, Key);
/// Another structure of the strategy, such as a longer window, has another state as well.
type StateId = (Id, Structure);

impl Pure {
    /// Creates a system without states.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state of `key` under `policy`.
    pub fn state(&self, policy: &Policy, key: Key) -> Option<&State> {
        self.states.get(&state_id(policy, key))
    }

    /// Loads the states of `ids`, lets the protocol `decide`, and keeps the states that have changed.
    fn with_states<T>(&mut self, ids: Vec<StateId>, decide: impl FnOnce(&mut [LoadedState]) -> T) -> T {
        let load = |id| LoadedState::new(self.states.get(id).cloned());
        let mut states: Vec<_> = ids.iter().map(load).collect();
        let answer = decide(&mut states);
        for (id, state) in ids.into_iter().zip(states).filter(|(_, state)| state.has_changed()) {
            match state.state() {
                Some(state) => self.states.insert(id, state.clone()),
                None => self.states.remove(&id),
            };
        }
        answer
    }

    /// The checks under the quotas that are granted, and how long the key of each is blocked.
    fn apply_overrides(
        &mut self,
        now: Timestamp,
        mut checks: Checks,
        ids: &[StateId],
    ) -> (Checks, Vec<Option<Duration>>) {
        let mut blocks = vec![None; ids.len()];
        for (index, (id, _)) in ids.iter().enumerate() {
            let Some(record) = self.overrides.get_mut(id) else { continue };
            record.repair(now);
            match record.effect(&checks.iter().as_slice()[index].policy, now) {
                Effect::None => {}
                Effect::Blocked(left) => blocks[index] = Some(left),
                Effect::Granted(policy, _) => checks = checks.with_policy(index, policy),
            }
        }
        (checks, blocks)
    }
}

impl SystemUnderTest for Pure {
    fn check(&mut self, now: Timestamp, checks: Checks) -> SubjectFuture<'_, Checked> {
        let ids: Vec<_> = checks.iter().map(|check| state_id(&check.policy, check.key)).collect();
        let (checks, blocks) = self.apply_overrides(now, checks, &ids);
        let outcome = self.with_states(ids, |states| {
            protocol::check_with_blocks(checks, now, states, |index| blocks[index])
        });
        Box::pin(ready(Ok(Checked::from(outcome))))
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> SubjectFuture<'_, Decision> {
        let ids = vec![state_id(receipt.policy(), receipt.key())];
        let decision = self.with_states(ids, |states| protocol::refund(&receipt, now, states));
        Box::pin(ready(Ok(decision)))
    }

    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u64) -> SubjectFuture<'_, Settlement> {
        let ids = vec![state_id(receipt.policy(), receipt.key())];
        let settlement = self.with_states(ids, |states| protocol::settle(receipt, cost, now, states));
        Box::pin(ready(Ok(settlement)))
    }

    fn renew(&mut self, now: Timestamp, renewal: Renewal) -> SubjectFuture<'_, Renewed> {
        let ids = vec![state_id(renewal.policy(), renewal.key())];
        let renewed = self.with_states(ids, |states| protocol::renew(&renewal, now, states));
        Box::pin(ready(Ok(renewed)))
    }

    fn reset<'a>(&'a mut self, _: Timestamp, policy: &'a Policy, key: Key) -> SubjectFuture<'a, ()> {
        self.states.remove(&state_id(policy, key));
        Box::pin(ready(Ok(())))
    }

    fn change_override<'a>(
        &'a mut self,
        now: Timestamp,
        policy: &'a Policy,
        key: Key,
        change: OverrideChange,
    ) -> SubjectFuture<'a, Option<Block>> {
        let record = self.overrides.entry(id(policy, key)).or_default();
        let mut block = None;
        match change {
            OverrideChange::Grant(grant) => record.set_grant(now, grant),
            OverrideChange::Block(length) => record.set_block(now, length),
            OverrideChange::Unblock => record.unblock(),
            OverrideChange::Denials(denials, lock_out) => {
                block = record.record_denials(now, denials, &lock_out);
            }
        }
        Box::pin(ready(Ok(block)))
    }

    fn keeps_overrides(&self) -> bool {
        true
    }
}

fn state_id(policy: &Policy, key: Key) -> StateId {
    (id(policy, key), policy.strategy().structure())
}

fn id(policy: &Policy, key: Key) -> Id {
    (policy.name().clone(), policy.strategy().tag(), key)
}
