//! The charge of a request, as its handler sees and changes it.

#[cfg(feature = "axum")]
mod axum;
mod corrections;
mod later_checks;
pub(crate) mod owed;
pub(crate) mod response_context;
mod shadow;
mod shared;
mod usage;

use std::fmt;
use std::sync::Arc;

use portcullis_core::store::Check;
use portcullis_core::{Decision, PolicyName, Settlement, StoreError};

use crate::InFlightPermit;
use crate::config::LayerConfig;
use portcullis_engine::Limits;
use portcullis_engine::engine::permits::Permits;
use portcullis_engine::{EventKind, report};

#[cfg(feature = "axum")]
pub use self::axum::{MissingCharge, MissingUsage};
pub(crate) use corrections::OutcomeCorrection;
pub(crate) use portcullis_engine::charge::{ChargeBasis, ChargedCheck};
use portcullis_engine::charge::{ChargeError, Charged, Correction};
pub use shadow::Shadow;
pub use usage::Usage;

use shared::SharedCharge;

/// The charge of a request, for its handler: shows what remains, charges more, refunds and settles.
///
/// A layer [`.with_charge()`](crate::RateLimitLayer::with_charge) leaves it in the extensions of every request that it has counted;
/// with the feature `axum` it is an extractor, and so is `Option<Charge>`. In Tonic it is in `request.extensions()`. With nested layers, the extensions hold the innermost charge, and
/// [`outer`](Charge::outer) returns the next one.
///
/// Changes that a handler makes before it returns are in the headers of the response. A clone is the same charge, and may be
/// kept beyond the response: by a task, or by a body that counts what it streams.
///
/// A [check](crate::Check) in a handler returns a charge as well. [`check`](Charge::check) limits the messages of a stream under the
/// policies of a charge.
///
/// A layer that has not counted a request leaves no charge: the request is exempt, not limited by the
/// [lists](crate::RateLimitLayer::except), a preflight without a key, or under no policy that is enforced for it.
///
/// ```
/// use http::{Request, Response};
/// use portcullis::key::Global;
/// use portcullis::testing::{self, ManualClock};
/// use portcullis::{Charge, Policy, PolicyExt as _, Quota};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let daily = Policy::fixed_window("daily", Quota::per_day(100));
/// let layer = testing::limiter(&ManualClock::default()).layer(daily.by(Global)).with_charge();
/// let service = layer.layer(service_fn(|request: Request<String>| async move {
///     let charge = request.extensions().get::<Charge>().expect("this request is counted");
///     assert_eq!(charge.decision().remaining(), 99);
///     let rows = 40; // what the work turns out to cost
///     let left = charge.settle(rows).await.expect("the store answers").decision.remaining();
///     Ok::<_, std::convert::Infallible>(Response::new(left))
/// }));
/// let response = service.oneshot(Request::new(String::new())).await?;
/// assert_eq!(response.headers()["x-ratelimit-remaining"], "60");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Charge {
    shared: SharedCharge,
    /// The index of the policy that this charge is narrowed to.
    only: Option<usize>,
}

impl Charge {
    #[inline]
    pub(crate) fn new(
        config: &Arc<LayerConfig>,
        basis: impl FnOnce() -> ChargeBasis,
        outer: Option<Self>,
        permits: Option<Permits>,
    ) -> Self {
        Self { shared: SharedCharge::new(config, basis, outer, permits), only: None }
    }

    /// The decisive decision, with the figures after all later charges and refunds.
    pub fn decision(&self) -> Decision {
        self.shared.ledger().decision(self.shared.charged(), self.only)
    }

    /// The decision of each policy, in the order of the layer, with the current figures.
    pub fn decisions(&self) -> Vec<Decision> {
        self.shared.ledger().decisions(self.shared.charged(), self.only)
    }

    /// The charge of the next outer layer, if one has counted the request as well.
    pub fn outer(&self) -> Option<&Self> {
        self.shared.outer.as_ref()
    }

    /// Returns this charge narrowed to one policy: operations on it affect no other policy. `None` if the request was not
    /// counted under a policy of this name.
    ///
    /// For layers whose policies count different things, such as requests and bytes.
    #[must_use]
    pub fn for_policy(&self, policy: &str) -> Option<Self> {
        let index =
            self.shared.basis.decisions().iter().position(|decision| decision.policy().as_str() == policy)?;
        let fits = self.only.is_none_or(|only| only == index);
        fits.then(|| Self { shared: self.shared.clone(), only: Some(index) })
    }

    /// Charges `units` more under each policy, under all of them or none. A denial is a [`Decision`] that the handler
    /// interprets.
    ///
    /// A policy that let the request through because the store could not answer is not checked again: nothing is counted
    /// under it. If that applies to all policies, the same decision as at admission is returned.
    ///
    /// A charge takes a bounded amount of memory, regardless of how often this is called. Units charged to one window or slot
    /// can be refunded as a whole. Under a rate-based policy or a log at most the last
    /// [64](portcullis_core::Receipt::MAX_RUNS) charges can be refunded; earlier ones count as replenished.
    ///
    /// # Errors
    ///
    /// If the store cannot answer, or the charge is settled already. If it is settled while the store answers, the new charge
    /// is refunded.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the units may stay charged.
    pub async fn charge_more(&self, units: u64) -> Result<Decision, ChargeError> {
        let (config, ledger, basis) = (&self.shared.config, self.shared.ledger(), self.shared.charged());
        let limits = &config.limits;
        let Some((indexes, checks)) = ledger.checks_for_more(basis, self.only, units)? else {
            return Ok(self.decision());
        };
        let outcome = limits.check(limits.checks_as_of_now(&checks)).await?;
        let decision = outcome.decision().clone();
        report::charged_more(limits, &outcome, units);
        let Err(late) = ledger.record(basis, indexes, outcome) else { return Ok(decision) };
        let mut error = ChargeError::Settled;
        for (index, receipt) in late {
            let (refunded, key) = (receipt.cost(), receipt.key());
            match limits.refund(receipt).await {
                Ok(decision) => {
                    let kind = EventKind::Refunded { decision: &decision, units: refunded };
                    report::of_key(limits, decision.policy(), key, kind);
                    ledger.update(basis, index, decision);
                }
                Err(failed) => error = failed.into(),
            }
        }
        Err(error)
    }

    /// Refunds everything that was charged, as far as the state still holds it: units that were replenished by time are not
    /// refunded again. See [`Receipt`](portcullis_core::Receipt). The store is called once per policy.
    ///
    /// # Errors
    ///
    /// If the store cannot answer, or the charge is settled already. It is settled afterwards in any case: the result of
    /// a refund that fails is unknown, and nothing is refunded twice.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped once it was polled, the charge is settled, and some of it may stay charged for good.
    pub async fn refund(&self) -> Result<(), ChargeError> {
        self.settle(0).await.map(drop)
    }

    /// Corrects the units charged under each policy since the admission to `cost`, once. The difference is refunded, or
    /// charged whether it fits or not, including where the request has cost 0 so far. The newest units are refunded first, as
    /// by [`refund`](Charge::refund). `uncharged` in the result is the number of units beyond the debt that a policy allows, one
    /// burst (limit) beyond the full limit; they stay uncharged, which is an event,
    /// [`DebtExceeded`](crate::EventKind::DebtExceeded). The `receipt` in the result is `None`.
    ///
    /// # Errors
    ///
    /// As for [`refund`](Charge::refund). Under each policy, the charged units are then between the previous number and `cost`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped once it was polled, the charge is settled, and the units charged under each policy are between
    /// the previous number and `cost`.
    pub async fn settle(&self, cost: u64) -> Result<Settlement, ChargeError> {
        let (ledger, basis) = (self.shared.ledger(), self.shared.charged());
        let mut failed = None;
        let mut uncharged = 0;
        for correction in ledger.close(basis, self.only)? {
            match self.apply(correction, cost).await {
                Ok(more) => uncharged = uncharged.max(more),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(Settlement { decision: self.decision(), uncharged, receipt: None }),
        }
    }

    /// Settles the receipts of one policy to `cost` together. Returns the units that were not charged.
    async fn apply(&self, correction: Correction, cost: u64) -> Result<u64, StoreError> {
        let (config, ledger, basis) = (&self.shared.config, self.shared.ledger(), self.shared.charged());
        let limits = &config.limits;
        let mut failed = None;
        let mut uncharged = 0;
        let index = correction.index;
        for (receipt, cost) in correction.receipts_to_settle(cost) {
            let (key, before) = (receipt.key(), receipt.cost());
            match limits.settle(receipt, cost).await {
                Ok(settlement) => {
                    report::settled(limits, key, before, cost, &settlement);
                    uncharged = uncharged.max(settlement.uncharged);
                    ledger.update(basis, index, settlement.decision);
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(uncharged), Err)
    }

    /// Takes the permits of a request [in flight](crate::RateLimitLayer::and) for a task, which holds them until it drops
    /// them. The layer then does not release them at the end of the response.
    ///
    /// `None` if the request has no permit: no policy limits requests in flight, or the charge is narrowed
    /// [to another one](Self::for_policy); the store could not answer and the policy is open; limits are off; the permit was taken
    /// or released before. A charge takes the permits of its own layer, and [`outer`](Self::outer) those of the next one.
    #[must_use = "the permit is released when it is dropped"]
    pub fn take_permit(&self) -> Option<InFlightPermit> {
        let only = self.only.map(|only| self.at_admission()[only].policy());
        self.shared.permits.as_ref()?.take_permit(only)
    }

    /// Reads, for the response, the configuration of the layer, the charge of the next outer one, the current decisive decision,
    /// all current decisions and the checks that may have the quota of a grant.
    pub(crate) fn conclude(
        self,
        read: impl FnOnce(&LayerConfig, Option<&Self>, &Decision, &[Decision], &[Check]),
    ) {
        self.shared.conclude(read);
    }

    /// Whether a layer of the same limiter has counted the request under a policy.
    pub(crate) fn includes(&self, limits: &Limits, policy: &PolicyName) -> bool {
        self.shared.config.limits.shares_engine(limits)
            && self.at_admission().iter().any(|decision| decision.policy() == policy)
    }

    /// The decisions at the admission of the request.
    pub(crate) fn at_admission(&self) -> &[Decision] {
        self.shared.basis.decisions()
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge").field("decision", &self.decision()).finish_non_exhaustive()
    }
}
