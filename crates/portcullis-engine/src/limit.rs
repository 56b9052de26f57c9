//! One limit of a request, as the engine decides by it: what it does with the answer is data, and nothing of it is HTTP.

mod lock_out;
mod mode;
mod on_abort;
pub(crate) mod rate;

use std::sync::Arc;

use portcullis_core::store::Checks;
use portcullis_core::{Key, Policy, Strategy};

pub use lock_out::PolicyLockOut;
pub use mode::{Mode, ParseModeError, Percent, PercentError};
pub use on_abort::OnAbort;

/// How long a request holds the permit of a policy that limits requests in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeldUntil {
    /// Until the body of its response has ended.
    #[default]
    Body,
    /// Until the headers of its response are made.
    Headers,
}

/// Whether a policy limits requests in flight.
pub fn is_in_flight(policy: &Policy) -> bool {
    matches!(policy.strategy(), Strategy::InFlight(_))
}

/// A policy, and how requests are decided by it.
#[derive(Clone, Debug)]
pub struct Limit {
    /// The policy as it is now.
    pub policy: Policy,
    /// Whether it is enforced, tried out or off.
    pub mode: Mode,
    /// Whether the request is charged after its outcome is known.
    pub charges_later: bool,
    /// The number of such requests that a key may have at a time. By default it is the limit of the quota by which the caller is decided.
    pub max_unsettled: Option<usize>,
    /// Whether the outcome of a request may change what it was charged.
    pub corrects: bool,
    /// How long a request holds its permit.
    pub held_until: HeldUntil,
    /// Blocks keys with many denials. All layers with the policy share it.
    pub lock_out: Option<Arc<PolicyLockOut>>,
}

impl Limit {
    /// A policy that is enforced and charged at once, for all callers alike.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            mode: Mode::Enforce,
            charges_later: false,
            max_unsettled: None,
            corrects: false,
            held_until: HeldUntil::default(),
            lock_out: None,
        }
    }

    /// Whether the policy is enforced for a key, rather than tried out.
    #[inline]
    pub fn is_enforced_for(&self, key: Key) -> bool {
        let share = self.mode.share();
        share == Percent::ALL || share.includes(&self.policy, key)
    }

    /// Whether the policy decides for a key, rather than being off for it.
    #[inline]
    pub fn is_checked_for(&self, key: Key) -> bool {
        let share = self.mode.checked_share();
        share == Percent::ALL || share.includes(&self.policy, key)
    }

    /// Whether a request may have to wait before it is admitted.
    pub fn may_wait(&self) -> bool {
        matches!(self.policy.strategy(), Strategy::LeakyBucket(_)) || self.policy.max_wait().is_some()
    }
}

/// How a policy treats a request that has no identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// The request is rejected: 400, or `INVALID_ARGUMENT` in gRPC; 401 and `UNAUTHENTICATED` where the key is a credential
    /// (`KeyExtractor::challenge`).
    #[default]
    Reject,
    /// The request is charged to one budget that all requests without an identity share. It is decided before any look-up, and a
    /// request that a look-up rejects stays charged: requests without an identity are looked up within it.
    Shared,
    /// The policy does not count the request, so clients that omit the identity are not limited. Suitable only if a layer in
    /// front ensures that an identity is missing only where that is allowed.
    Exempt,
}

/// Policies of one layer, by their indexes.
#[derive(Clone, Copy, Debug, Default)]
pub struct PolicySet(u32);

impl PolicySet {
    /// The set of one policy. `index` is below 32.
    pub fn one(index: usize) -> Self {
        Self(1 << index)
    }

    /// The set of the policies at these indexes, each below 32.
    pub fn of(indexes: impl Iterator<Item = usize>) -> Self {
        Self(indexes.fold(0, |set, index| set | (1 << index)))
    }

    /// The policies of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether no policy is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the policy at `index`, which is below 32, is in the set.
    pub fn contains(self, index: usize) -> bool {
        self.0 & (1 << index) != 0
    }

    /// The indexes of the policies, in ascending order.
    pub fn indexes(self) -> impl Iterator<Item = usize> {
        (0..Checks::MAX).filter(move |index| self.contains(*index))
    }
}
