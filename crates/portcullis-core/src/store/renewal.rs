//! Renewals of permits.

use core::num::NonZeroU64;

use smallvec::SmallVec;

use crate::charge::Run;
use crate::{Key, Policy, Receipt};

/// The permits of a [`Receipt`] under a limit on [requests in flight](crate::InFlight), for
/// [`Store::renew`](crate::store::Store::renew).
///
/// Other receipts have no permits: a renewal of them finds none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    policy: Policy,
    key: Key,
    runs: SmallVec<[Run; 1]>,
    fallback_id: Option<NonZeroU64>,
}

/// The result of a [`Renewal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
// Exhaustive: a permit is held or it is not.
pub struct Renewed {
    /// The number of permits that are held, now for a whole lease.
    pub held: u64,
    /// The number of permits that are not: they have expired, or were released.
    pub lapsed: u64,
}

impl Renewal {
    /// The permits that a receipt proves.
    pub fn of(receipt: &Receipt) -> Self {
        Self {
            policy: receipt.policy().clone(),
            key: receipt.key(),
            runs: receipt.runs().into(),
            fallback_id: receipt.fallback_id(),
        }
    }

    /// The policy that was charged.
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The key that was charged.
    pub const fn key(&self) -> Key {
        self.key
    }

    /// The permits as runs of serial numbers, lowest first. The position of a run is that of its last permit.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The number of permits.
    pub fn units(&self) -> u64 {
        self.runs.iter().fold(0, |sum, run| sum.saturating_add(run.units))
    }

    /// The id of the fallback that was charged. See [`Receipt::fallback_id`].
    pub const fn fallback_id(&self) -> Option<NonZeroU64> {
        self.fallback_id
    }

    /// The same permits under `policy`, for a lease or a limit that has changed since the charge. See [`Receipt::with_policy`].
    #[must_use]
    pub fn with_policy(self, policy: &Policy) -> Self {
        if crate::receipt::same_states(policy, &self.policy) {
            Self { policy: policy.clone(), ..self }
        } else {
            self
        }
    }

    /// The result if this number of the permits is held. For stores.
    pub fn found(&self, held: u64) -> Renewed {
        Renewed { held, lapsed: self.units().saturating_sub(held) }
    }
}
