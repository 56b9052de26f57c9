//! The overrides of checks that are decided in an outage.

use std::sync::Arc;

use portcullis_core::overrides::{Effect, Grant, Override};
use portcullis_core::store::{Check, CheckResult, Checks, Outcome, Store, StoreFuture};
use portcullis_core::{Clock, Key, Policy, Timestamp};
use smallvec::SmallVec;

use super::{Fallback, LocalStandby, joined};

/// Checks with the overrides that are known of their keys.
pub(super) struct Overridden {
    /// Under the quotas of the grants.
    pub(super) checks: Checks,
    /// The denial of the checks whose keys are blocked.
    pub(super) blocked: Option<Outcome>,
    /// Each with the index of its check.
    pub(super) grants: SmallVec<[(usize, Grant); 2]>,
}

impl<C: Clock> LocalStandby<C> {
    /// Applies the overrides that are known.
    pub(super) fn apply_known(&self, mut checks: Checks, now: Timestamp) -> Overridden {
        let mut grants = SmallVec::new();
        let mut blocked = None::<Checks>;
        let mut results: SmallVec<[CheckResult; 2]> = SmallVec::new();
        for index in 0..checks.len() {
            let Check { policy, key, cost } = &checks.iter().as_slice()[index];
            match self.known.effect(policy, *key, now) {
                Effect::None => {}
                Effect::Blocked(left) => {
                    results.push(CheckResult::blocked(policy.strategy(), None, now, left));
                    blocked = Some(joined(blocked, policy.clone(), *key, *cost));
                }
                Effect::Granted(policy, grant) => {
                    grants.push((index, grant));
                    checks = checks.with_policy(index, policy);
                }
            }
        }
        let blocked =
            blocked.map(|checks| Outcome::new(checks, now, results).expect("there is one result per check"));
        Overridden { checks, blocked, grants }
    }
}

impl<S: Store, C: Clock> Fallback<S, C> {
    /// Remembers a change of the override of a key when the store has made it.
    pub(super) fn then_known<T: 'static>(
        &self,
        policy: &Policy,
        key: Key,
        answer: StoreFuture<T>,
        change: impl FnOnce(&mut Override, Timestamp, &T) + Send + 'static,
    ) -> StoreFuture<T> {
        let (standby, policy) = (Arc::clone(&self.standby), policy.clone());
        answer.map(move |answer| {
            if let Ok(changed) = &answer {
                let now = standby.clock.now();
                standby.known.change(&policy, key, now, |known, now| change(known, now, changed));
            }
            answer
        })
    }
}
