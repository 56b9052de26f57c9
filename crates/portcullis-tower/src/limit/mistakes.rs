//! What is wrong with a limit.

use super::{KeySource, Limit, QuotaSource};
use crate::{LayerError, OnMissing};
use portcullis_engine::policies::reading_overrides;
use portcullis_engine::{HeldUntil, is_in_flight};
use portcullis_response::internal::Fraction;

impl Limit {
    /// Returns everything that is wrong with the limit itself, whatever layer it is given to: nothing of a valid one.
    ///
    /// [`RateLimitLayer::try_new`](crate::RateLimitLayer::try_new) finds it as well, and what the limiter refuses.
    ///
    /// ```
    /// use portcullis::key::Global;
    /// use portcullis::{LayerError, Policy, PolicyExt as _, Quota};
    ///
    /// let limit = Policy::gcra("search", Quota::per_second(10)).by(Global).quota(|_| None).release_at_headers();
    /// let mistakes = limit.mistakes();
    /// assert!(matches!(mistakes[..], [LayerError::QuotasNotDeclared { .. }, LayerError::NotInFlight { .. }]));
    /// ```
    pub fn mistakes(&self) -> Vec<LayerError> {
        let policy = || self.policy.name().clone();
        let is_in_flight = is_in_flight(&self.policy);
        let charges_after = self.outcome.as_ref().is_some_and(|rule| rule.charges_after);
        let looks_up_quota = matches!(self.quota, Some(QuotaSource::LookUp(_)));
        let mut mistakes = Vec::new();
        let mut check = |is_wrong: bool, error: fn(_) -> LayerError| {
            if is_wrong {
                mistakes.push(error(policy()));
            }
        };
        check(is_in_flight && self.needs_charge(), |policy| LayerError::CorrectsInFlight { policy });
        check(!is_in_flight && self.reservation.is_some() && charges_after, |policy| {
            LayerError::ReservesAndLooks { policy }
        });
        #[cfg(feature = "usage")]
        check(self.usage.is_some() && self.reservation.is_none(), |policy| {
            LayerError::ReadsWithoutReservation { policy }
        });
        let looks_up_both = looks_up_quota && matches!(self.key, KeySource::Async(_));
        check(looks_up_both, |policy| LayerError::TwoLookups { policy });
        let is_undeclared = self.quota.is_some() && self.policy.quota_range().is_none();
        check(is_undeclared && !looks_up_both, |policy| LayerError::QuotasNotDeclared { policy });
        check(!is_in_flight && self.held_until == HeldUntil::Headers, |policy| LayerError::NotInFlight {
            policy,
        });
        check(self.ignores(Some(self.mode)), |policy| LayerError::UnverifiedKey { policy });
        if let Some(Err(error)) = self.warn_at.map(Fraction::new) {
            mistakes.push(error.into());
        }
        if self.lock_out.is_some() {
            mistakes.extend(self.lock_out_mistakes());
        }
        mistakes
    }

    fn lock_out_mistakes(&self) -> impl Iterator<Item = LayerError> {
        let policy = || self.policy.name().clone();
        let in_flight = is_in_flight(&self.policy).then(|| LayerError::LocksOutInFlight { policy: policy() });
        let is_shared = self.key.is_shared() || self.on_missing == OnMissing::Shared;
        let shared =
            (is_shared && in_flight.is_none()).then(|| LayerError::SharedLockOut { policy: policy() });
        let leased = reading_overrides(&self.policy).err().filter(|_| in_flight.is_none());
        [in_flight, shared, leased].into_iter().flatten()
    }

    /// Whether the charge of a request is corrected after its response, by outcome or as a reservation.
    fn needs_charge(&self) -> bool {
        self.outcome.is_some() || self.reservation.is_some()
    }
}
