//! Why a rule applies to a request, or does not.

use super::Rule;

/// Whether a rule applies to a request.
#[derive(Clone, Debug)]
pub struct Match<'a> {
    pub(super) rule: &'a Rule,
    pub(super) mismatch: Option<String>,
    pub(super) exempted_by: Option<String>,
    pub(super) tier: Option<String>,
}

impl<'a> Match<'a> {
    /// The rule.
    pub fn rule(&self) -> &'a Rule {
        self.rule
    }

    /// Whether it applies.
    pub fn matches(&self) -> bool {
        self.mismatch.is_none()
    }

    /// The first condition that does not hold, such as `path = "/search"`. `None` if the rule applies.
    pub fn mismatch(&self) -> Option<&str> {
        self.mismatch.as_deref()
    }

    /// The entry of the rule that exempts the request, such as `policy.search.except[0]`.
    pub fn exempted_by(&self) -> Option<&str> {
        self.exempted_by.as_deref()
    }

    /// Which quota the `tiers` of the rule give the request, such as `gold, which is not in tiers: the quota of the policy`. `None` without
    /// tiers by header.
    pub fn tier(&self) -> Option<&str> {
        self.tier.as_deref()
    }
}
