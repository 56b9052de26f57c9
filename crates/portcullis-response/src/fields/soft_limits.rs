//! The soft limits of a layer: which requests come near a limit, and the header that tells their clients.

use http::{HeaderMap, HeaderName};
use portcullis_core::{Decision, PolicyName};

use super::fraction::Fraction;
use super::shown::ShownPolicy;
use super::values;
use crate::headers::X_RATELIMIT_WARNING;

/// The policies of a layer that warn. Empty in most layers.
#[derive(Clone, Debug, Default)]
pub struct SoftLimits(Vec<SoftLimit>);

#[derive(Clone, Debug)]
struct SoftLimit {
    policy: PolicyName,
    at: Fraction,
    /// Whether clients may know of the policy.
    is_listed: bool,
}

impl SoftLimits {
    pub(crate) fn of(enforced: &[ShownPolicy<'_>]) -> Self {
        let soft_limit = |shown: &ShownPolicy<'_>| {
            let policy = shown.policy.name().clone();
            Some(SoftLimit { policy, at: shown.warn_at?, is_listed: shown.is_listed })
        };
        Self(enforced.iter().filter_map(soft_limit).collect())
    }

    /// Whether no policy warns.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The decisions that let a request pass near a limit.
    pub fn reached<'a>(&self, decisions: &'a [Decision]) -> impl Iterator<Item = &'a Decision> {
        self.0.iter().flat_map(move |soft| decisions.iter().filter(move |decision| soft.is_reached(decision)))
    }

    /// The name of the header, if responses may have it.
    pub(crate) fn header_name(&self) -> Option<HeaderName> {
        self.0.iter().any(|soft| soft.is_listed).then(|| X_RATELIMIT_WARNING.clone())
    }

    /// Adds the names of the policies, to those that inner layers have written.
    #[inline]
    pub(crate) fn write(&self, decisions: &[Decision], headers: &mut HeaderMap) {
        if !self.is_empty() {
            self.write_reached(decisions, headers);
        }
    }

    fn write_reached(&self, decisions: &[Decision], headers: &mut HeaderMap) {
        let is_reached =
            |soft: &&SoftLimit| soft.is_listed && decisions.iter().any(|decision| soft.is_reached(decision));
        let mut reached = self.0.iter().filter(is_reached).map(|soft| &soft.policy).peekable();
        if reached.peek().is_some() {
            headers.append(&X_RATELIMIT_WARNING, values::list(reached));
        }
    }
}

impl SoftLimit {
    fn is_reached(&self, decision: &Decision) -> bool {
        let used = decision.limit().saturating_sub(decision.remaining());
        decision.is_metered()
            && decision.is_allowed()
            && *decision.policy() == self.policy
            && self.at.is_reached(used, decision.limit())
    }
}
