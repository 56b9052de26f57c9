//! Renewals of permits.

use core::num::NonZeroU64;

use smallvec::SmallVec;

use crate::charge::Run;
use crate::{Key, Policy, Receipt};

/// The permits of a [`Receipt`] under a limit on [requests in flight](crate::InFlight), for
/// [`Store::renew`](crate::store::Store::renew).
///
/// Other receipts have no permits: a renewal of them finds none.
///
/// ```
/// use portcullis::layer::Concurrency;
/// use portcullis::store::protocol::{self, LoadedState};
/// use portcullis::store::{Checks, Renewal, Renewed};
/// use portcullis::{Secret, Timestamp};
///
/// let mut hasher = Secret::published().hasher();
/// hasher.writer().part("user", b"ada");
/// let exports = Concurrency::new("exports", 2).policy();
/// let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
///
/// let mut states = [LoadedState::new(None)];
/// let outcome = protocol::check(Checks::one(exports, hasher.finish()?, 2), at(0), &mut states[..]);
/// let receipt = outcome.into_receipts().next().expect("two permits are free");
/// let renewal = Renewal::of(&receipt);
/// // The lease is 30 seconds.
/// assert_eq!(protocol::renew(&renewal, at(20), &mut states[..]), Renewed { held: 2, lapsed: 0 });
/// assert_eq!(protocol::renew(&renewal, at(50), &mut states[..]), Renewed { held: 0, lapsed: 2 });
/// # Ok::<(), portcullis::key::KeyWriteError>(())
/// ```
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

    /// Replaces the policy, for a lease or a limit that has changed since the charge. See [`Receipt::with_policy`].
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

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    use super::*;
    use crate::store::{Checks, Outcome, Store, StoreFuture};
    use crate::{Decision, Settlement, StoreError, StoreErrorKind};

    /// A store that has no renewals.
    struct Plain;

    fn down<T>() -> StoreFuture<T> {
        StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Unavailable, "no connection")))
    }

    impl Store for Plain {
        fn check(&self, _: Checks) -> StoreFuture<Outcome> {
            down()
        }

        fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
            down()
        }

        fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
            down()
        }

        fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
            down()
        }
    }

    /// A store that has found all permits.
    struct Renews;

    impl Store for Renews {
        fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
            Plain.check(checks)
        }

        fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
            Plain.refund(receipt)
        }

        fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
            Plain.settle(receipt, cost)
        }

        fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
            StoreFuture::ready(Ok(renewals.iter().map(|renewal| renewal.found(renewal.units())).collect()))
        }

        fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
            Plain.reset(policy, key)
        }
    }

    #[test]
    fn renewals_pass_through_or_are_unsupported() {
        let error = Arc::new(Plain).renew(Vec::new()).into_ready().ok().unwrap().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        assert_eq!(Arc::new(Renews).renew(Vec::new()).into_ready().ok(), Some(Ok(Vec::new())));
    }
}
