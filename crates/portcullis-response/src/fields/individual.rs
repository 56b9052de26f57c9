//! The quotas of callers and of grants, which no header value that is rendered ahead has.

use portcullis_core::store::{Check, Outcome};
use portcullis_core::{Policy, PolicyName};

/// Where the policies are that have the quota of a caller or of a grant. Most requests have none.
#[derive(Clone, Copy, Debug)]
pub enum Individual<'a> {
    /// In the checks of an admitted request.
    Among(&'a [Check]),
    /// In a rejection.
    Of(&'a Outcome),
}

impl<'a> Individual<'a> {
    /// Whether there is any.
    pub(super) fn any(self) -> bool {
        match self {
            Self::Among(checks) => checks.iter().any(|check| check.policy.is_individual()),
            Self::Of(outcome) => outcome.individual_policies().next().is_some(),
        }
    }

    /// The policy of this name with such a quota.
    pub(super) fn policy(self, name: &PolicyName) -> Option<&'a Policy> {
        match self {
            Self::Among(checks) => {
                let mut policies = checks.iter().map(|check| &check.policy);
                policies.find(|policy| policy.is_individual() && policy.name() == name)
            }
            Self::Of(outcome) => outcome.individual_policies().find(|policy| policy.name() == name),
        }
    }
}
