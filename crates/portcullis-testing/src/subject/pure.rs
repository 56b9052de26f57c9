//! The algorithm alone.

use std::collections::HashMap;
use std::future::ready;

use portcullis_core::algorithm::State;
use portcullis_core::store::{CheckResult, Checks, Outcome, Run};
use portcullis_core::{
    Decision, Key, Policy, PolicyName, Receipt, Settlement, StoreError, StoreErrorKind, Timestamp,
};

use super::{Answer, Checked, SystemUnderTest};

/// The arithmetic of `portcullis-core` over a plain map. Every store must decide the same, bit for bit.
///
/// It never drops a state, not even an expired one.
///
/// ```
/// use portcullis_core::store::Checks;
/// use portcullis_core::{Policy, Quota, Secret, Timestamp};
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
    states: HashMap<Id, State>,
}

/// Another strategy under the same name has another state.
type Id = (PolicyName, &'static str, Key);

impl Pure {
    /// Creates a system without states.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state of `key` under `policy`.
    pub fn state(&self, policy: &Policy, key: Key) -> Option<&State> {
        self.states.get(&id(policy, key))
    }

    fn decide(&mut self, now: Timestamp, checks: Checks) -> Result<Checked, StoreError> {
        let evaluations: Vec<_> = checks
            .iter()
            .map(|check| {
                let state = self.state(&check.policy, check.key);
                check.policy.strategy().evaluate(state, now, check.cost)
            })
            .collect();
        let all = evaluations.iter().all(|evaluation| evaluation.admitted);
        let mut results = Vec::with_capacity(evaluations.len());
        for (check, evaluation) in checks.iter().zip(evaluations) {
            let (policy, strategy) = (&check.policy, check.policy.strategy());
            self.change(policy, check.key, |state| {
                strategy.conclude(state, now, check.cost, evaluation, all)
            });
            let state = self.state(policy, check.key);
            results.push(CheckResult::of(strategy, state, now, check.cost, evaluation.admitted));
        }
        let outcome = Outcome::new(checks, now, results);
        outcome
            .map(Checked::from)
            .ok_or_else(|| StoreError::new(StoreErrorKind::Failed, "check results are missing"))
    }

    /// Applies `change` to a state, and stores the result if `change` returns true.
    fn change(&mut self, policy: &Policy, key: Key, change: impl FnOnce(&mut Option<State>) -> bool) {
        let mut state = self.state(policy, key).cloned();
        if change(&mut state) {
            match state {
                Some(state) => self.states.insert(id(policy, key), state),
                None => self.states.remove(&id(policy, key)),
            };
        }
    }

    fn peek(&self, now: Timestamp, policy: &Policy, key: Key) -> Decision {
        Decision::new(policy, now, policy.strategy().snapshot(self.state(policy, key), now, 0, true))
    }

    fn apply_settlement(&mut self, now: Timestamp, receipt: Receipt, cost: u64) -> Settlement {
        let (policy, key, missing) = (receipt.policy(), receipt.key(), receipt.missing(cost));
        let strategy = policy.strategy();
        let (mut uncharged, mut run) = (0, None);
        if missing > 0 {
            self.change(policy, key, |state| {
                let forced = strategy.force_charge(state, now, missing);
                let position = strategy.position(state.as_ref(), now);
                (uncharged, run) = (forced.uncharged, Some(Run { units: forced.charged, position }));
                forced.changed
            });
        } else {
            self.change(policy, key, |state| strategy.refund(state, now, receipt.refund_to(cost)));
        }
        let decision = self.peek(now, policy, key);
        Settlement { decision, uncharged, receipt: Some(receipt.settled(cost, run, now)) }
    }
}

impl SystemUnderTest for Pure {
    fn check(&mut self, now: Timestamp, checks: Checks) -> Answer<'_, Checked> {
        Box::pin(ready(self.decide(now, checks)))
    }

    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> Answer<'_, Decision> {
        Box::pin(ready(Ok(self.apply_settlement(now, receipt, 0).decision)))
    }

    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u64) -> Answer<'_, Settlement> {
        Box::pin(ready(Ok(self.apply_settlement(now, receipt, cost))))
    }

    fn reset<'a>(&'a mut self, _: Timestamp, policy: &'a Policy, key: Key) -> Answer<'a, ()> {
        self.states.remove(&id(policy, key));
        Box::pin(ready(Ok(())))
    }
}

fn id(policy: &Policy, key: Key) -> Id {
    (policy.name().clone(), policy.strategy().tag(), key)
}
