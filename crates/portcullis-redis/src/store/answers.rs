//! The answers to the checks of one call.

use portcullis_core::overrides::Grant;
use portcullis_core::store::{Check, CheckResult, Checks, Outcome, ReadyCheck};
use portcullis_core::{Decision, Policy, Timestamp};
use smallvec::SmallVec;

/// The results of the checks of one call, in their order, and the grants under which some of them were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answers {
    results: SmallVec<[(Timestamp, CheckResult); 2]>,
    /// Empty, which takes no memory on the heap, for nearly all calls.
    grants: Vec<CheckGrant>,
}

/// The grant under which a check was made.
#[derive(Clone, Debug)]
pub(crate) struct CheckGrant {
    /// The index of the check.
    pub(crate) check: usize,
    /// The policy with the quota of the grant.
    pub(crate) policy: Policy,
    pub(crate) grant: Grant,
}

impl Answers {
    pub(crate) fn new(
        results: impl IntoIterator<Item = (Timestamp, CheckResult)>,
        grants: Vec<CheckGrant>,
    ) -> Self {
        Self { results: results.into_iter().collect(), grants }
    }

    #[inline]
    pub(crate) fn push(&mut self, at: Timestamp, result: CheckResult) {
        self.results.push((at, result));
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, (Timestamp, CheckResult)> {
        self.results.iter()
    }

    pub(crate) fn grants(&self) -> &[CheckGrant] {
        &self.grants
    }

    /// The checks of the call with the policies under which they were made.
    pub(crate) fn under_grants<'a>(&self, checks: impl Iterator<Item = &'a Check>) -> SmallVec<[Check; 2]> {
        let mut checks: SmallVec<[Check; 2]> = checks.cloned().collect();
        for CheckGrant { check, policy, .. } in &self.grants {
            if let Some(check) = checks.get_mut(*check) {
                check.policy = policy.clone();
            }
        }
        checks
    }

    /// The outcome of a decision with one call: its checks have the policies under which they were made.
    // It borrows the answers, because both they and an outcome are large.
    pub(crate) fn outcome(&self, mut checks: Checks) -> Option<Outcome> {
        let at = self.results.first().map_or(Timestamp::EPOCH, |(at, _)| *at);
        let results = self.results.iter().map(|(_, result)| *result);
        if self.grants.is_empty() {
            if let ([(at, CheckResult { snapshot, position, .. })], 1) =
                (self.results.as_slice(), checks.len())
            {
                let check = checks.iter().next()?;
                let decision = Decision::new(&check.policy, *at, *snapshot);
                return Outcome::single(checks, ReadyCheck { decision, position: *position });
            }
            return Outcome::new(checks, at, results);
        }
        for CheckGrant { check, policy, .. } in &self.grants {
            checks = checks.with_policy(*check, policy.clone());
        }
        let outcome = Outcome::new(checks, at, results)?;
        Some(with_grants(outcome, &self.grants))
    }
}

/// The checks of a decision with the policies under which a part of them, in `rest`, was made, and the grants.
pub(crate) fn under_grants_of(rest: &Outcome, mut checks: Checks) -> (Checks, Vec<CheckGrant>) {
    let mut grants = Vec::new();
    for (index, made) in rest.checks().iter().enumerate() {
        let Some(grant) = rest.grant(index) else { continue };
        let is_same = |check: &Check| check.key == made.key && check.policy.name() == made.policy.name();
        let Some(check) = checks.iter().position(is_same) else { continue };
        checks = checks.with_policy(check, made.policy.clone());
        grants.push(CheckGrant { check, policy: made.policy.clone(), grant });
    }
    (checks, grants)
}

/// Adds the grants of an outcome's checks.
pub(crate) fn with_grants(outcome: Outcome, grants: &[CheckGrant]) -> Outcome {
    grants.iter().fold(outcome, |outcome, granted| outcome.with_grant(granted.check, granted.grant))
}

/// Joins checks that are a part of one decision; `None` if there are none.
pub(crate) fn together(checks: impl IntoIterator<Item = Check>) -> Option<Checks> {
    checks.into_iter().fold(None, |joined: Option<Checks>, Check { policy, key, cost }| {
        Some(match joined {
            None => Checks::one(policy, key, cost),
            Some(joined) => joined.and(policy, key, cost).expect("a part of a decision is a decision"),
        })
    })
}
