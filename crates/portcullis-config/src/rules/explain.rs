//! Why a rule applies to a request, or does not.

use super::Rule;

/// Whether a rule applies to a request.
#[derive(Clone, Debug)]
pub struct Match<'a> {
    pub(super) rule: &'a Rule,
    pub(super) mismatch: Option<String>,
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
}
