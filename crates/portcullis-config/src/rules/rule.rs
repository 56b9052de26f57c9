//! One rule.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use portcullis_core::overrides::LockOut;
use portcullis_core::{Policy, PolicyName};
use portcullis_tower::{Limit, Mode};

use super::charge_when::ChargeWhen;
use super::explain::{Exceptions, TierNames};
use super::key::Key;
use super::matcher::{Matcher, RequestView};
use crate::hooks::RejectWith;
use crate::source::Span;

/// A policy of a file, with its key and the requests that it applies to.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) limit: Limit,
    pub(super) mode: Mode,
    pub(super) lock_out: Option<LockOut>,
    /// The responses that are charged. `None` for all.
    pub(super) charge_when: Option<Arc<ChargeWhen>>,
    pub(super) table: String,
    pub(super) span: Span,
    pub(super) key: Key,
    pub(super) key_span: Span,
    pub(super) matcher: Matcher,
    pub(super) match_span: Span,
    /// What a client lowers or leaves by what it writes, beside `match`: the path of each field, and its place.
    pub(super) relaxed: Vec<(String, Span)>,
    pub(super) reject_with: RejectWithOption,
    pub(super) except: Exceptions,
    pub(super) tiers: Option<Arc<TierNames>>,
}

/// What makes the responses to the requests that a rule rejects.
#[derive(Clone, Default)]
pub(super) struct RejectWithOption(pub(super) Option<Arc<RejectWith>>);

impl Rule {
    /// The name of the rule and of its policy.
    pub fn name(&self) -> &PolicyName {
        self.policy().name()
    }

    /// The name of its table in the file. It differs from [`name`](Self::name) for a limit on requests in flight that is in the table
    /// of another policy.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        self.limit.policy()
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

    /// What else is set, each in some words, such as `costs 5` or `waits for at most 1s`. Empty for a rule without options.
    pub fn options(&self) -> Vec<Cow<'_, str>> {
        self.limit.options()
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

impl fmt::Debug for RejectWithOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RejectWithOption").finish_non_exhaustive()
    }
}
