//! One rule.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use portcullis_core::overrides::LockOut;
use portcullis_core::{Policy, PolicyName};
use portcullis_tower::{CallerQuota, Cost, Mode, OnAbort, OnMissing, QuotaLookup, ResponseOutcome};

use super::key::{Key, KeySource};
use super::matcher::{Matcher, RequestView};
use crate::hooks::{Charges, RejectWith};
use crate::source::Span;

/// A policy of a file, with its key and the requests that it applies to.
#[derive(Debug)]
pub struct Rule {
    pub(super) policy: Policy,
    pub(super) mode: Mode,
    pub(super) lock_out: Option<LockOut>,
    pub(super) table: String,
    pub(super) span: Span,
    pub(super) key: Key,
    pub(super) key_span: Span,
    pub(super) source: KeySource,
    pub(super) matcher: Matcher,
    pub(super) options: RuleOptions,
}

/// How a rule counts, each option as the layer's method of its name.
#[derive(Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each method of the builder")]
pub(super) struct RuleOptions {
    pub(super) on_missing: OnMissing,
    pub(super) count_rejections: bool,
    pub(super) cost: Option<Arc<dyn Cost>>,
    pub(super) reserve: Option<OnAbort>,
    pub(super) quota: Option<QuotaSource>,
    pub(super) charge_when: Option<Arc<ChargeWhen>>,
    pub(super) charge_after: Option<ChargeAfter>,
    pub(super) refund_unanswered: bool,
    pub(super) release_at_headers: bool,
    pub(super) hide: bool,
    pub(super) warn_at: Option<f64>,
    pub(super) reject_with: Option<Arc<RejectWith>>,
}

/// Where the quota of a caller comes from.
#[derive(Clone)]
pub(super) enum QuotaSource {
    Sync(Arc<dyn CallerQuota>),
    Async(QuotaLookup),
}

/// A policy that charges afterwards: how many requests of a key may be unsettled at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChargeAfter {
    /// As many as the builder allows by itself.
    Default,
    AtMost(usize),
}

/// Which responses are charged.
#[derive(Clone, Default)]
pub(super) struct ChargeWhen {
    /// From the first to the last, both included.
    pub(super) status: Vec<(u16, u16)>,
    pub(super) grpc_status: Vec<i32>,
    /// What the program registered.
    pub(super) function: Option<Arc<Charges>>,
}

impl ChargeWhen {
    pub(super) fn charges(&self, outcome: &ResponseOutcome<'_>) -> bool {
        let status = StatusCode::as_u16(&outcome.status());
        self.status.iter().any(|(first, last)| (*first..=*last).contains(&status))
            || outcome.grpc_status().is_some_and(|status| self.grpc_status.contains(&status))
            || self.function.as_ref().is_some_and(|charges| charges(outcome))
    }
}

impl Rule {
    /// The name of the rule and of its policy.
    pub fn name(&self) -> &PolicyName {
        self.policy.name()
    }

    /// The name of its table in the file. It differs from [`name`](Self::name) for a limit on requests in flight that is in the table
    /// of another policy.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What the policy does with the requests that it would reject.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The lock-out of the policy.
    pub fn lock_out(&self) -> Option<&LockOut> {
        self.lock_out.as_ref()
    }

    /// The key, such as `header x-api-key, else client_ip`. It shows no identity.
    pub fn key(&self) -> impl fmt::Display {
        &self.key
    }

    /// The requests that the rule applies to, such as `path = "/search", methods = ["GET"]`.
    pub fn matcher(&self) -> impl fmt::Display {
        &self.matcher
    }

    pub(super) fn mismatch(&self, request: &RequestView<'_, '_>) -> Option<String> {
        self.matcher.mismatch(request)
    }

    /// Its place in the file.
    pub fn span(&self) -> Span {
        self.span
    }
}

impl fmt::Debug for RuleOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleOptions").field("on_missing", &self.on_missing).finish_non_exhaustive()
    }
}
