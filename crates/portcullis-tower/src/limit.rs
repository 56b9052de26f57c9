//! One limit of a request, as the engine decides by it: what it does with the answer is data, and nothing of it is HTTP.

use std::sync::Arc;

use portcullis_core::{Key, Policy, Quota, Strategy};

use crate::lock_out::PolicyLockOut;
use crate::{Mode, Percent};

/// How long a request holds the permit of a policy that limits requests in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HeldUntil {
    /// Until the body of its response has ended.
    #[default]
    Body,
    /// Until the headers of its response are made.
    Headers,
}

/// Whether a policy limits requests in flight.
pub(crate) fn is_in_flight(policy: &Policy) -> bool {
    matches!(policy.strategy(), Strategy::InFlight(_))
}

/// A policy, and how requests are decided by it.
#[derive(Clone)]
pub(crate) struct Limit {
    pub(crate) policy: Policy,
    pub(crate) mode: Mode,
    /// The keys for which the policy is enforced.
    pub(crate) share: Percent,
    /// Whether the request is charged after its outcome is known, and the number of such requests that a key may have at a time.
    pub(crate) unsettled: Option<usize>,
    /// Whether the outcome of a request may change what it was charged.
    pub(crate) corrects: bool,
    /// The quota of the caller, which `policy` has.
    pub(crate) caller_quota: Option<Quota>,
    pub(crate) held_until: HeldUntil,
    /// Blocks keys with many denials. All layers with the policy share it.
    pub(crate) lock_out: Option<Arc<PolicyLockOut>>,
}

impl Limit {
    /// Whether the policy is enforced for a key, rather than tried out.
    #[inline]
    pub(crate) fn is_enforced_for(&self, key: Key) -> bool {
        self.share == Percent::ALL || self.share.includes(&self.policy, key)
    }

    /// Whether a request may have to wait before it is admitted.
    pub(crate) fn may_wait(&self) -> bool {
        matches!(self.policy.strategy(), Strategy::LeakyBucket(_)) || self.policy.max_wait().is_some()
    }

    /// A registered policy of the same name, with the quota of the caller.
    pub(crate) fn for_caller(&self, registered: Policy) -> Policy {
        let with_quota = self.caller_quota.and_then(|quota| registered.with_quota(quota).ok());
        with_quota.unwrap_or(registered)
    }
}
