//! The quotas of grants, which no header value that is rendered ahead has.

use portcullis_core::store::Check;
use portcullis_core::{Policy, PolicyName};

/// The checks of a request, of which a few requests have some that were decided under the quota of a grant.
#[derive(Clone, Copy)]
pub(crate) struct Granted<'a>(&'a [Check]);

impl<'a> Granted<'a> {
    #[inline]
    pub(crate) fn among(checks: &'a [Check]) -> Self {
        Self(checks)
    }

    /// Whether a check was decided under a grant.
    pub(super) fn any(self) -> bool {
        self.0.iter().any(|check| check.policy.is_granted())
    }

    /// The policy of this name with the quota of a grant.
    pub(super) fn policy(self, name: &PolicyName) -> Option<&'a Policy> {
        self.0.iter().map(|check| &check.policy).find(|policy| policy.is_granted() && policy.name() == name)
    }
}
