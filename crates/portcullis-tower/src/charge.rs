//! What a request was charged, for its handler.

#[cfg(feature = "axum")]
mod axum;
mod ledger;

use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use portcullis_core::{Check, Decision, Outcome, Settlement, StoreError};

use crate::answer::Answers;
use crate::rules::LayerConfig;

#[cfg(feature = "axum")]
pub use self::axum::MissingCharge;
use ledger::ChargeLedger;

/// What a request was charged, as its handler sees it: shows what is left, charges more, gives back.
///
/// It is in the extensions of every request that a layer has counted, next to the [`Decision`]; with the feature `axum`
/// it is an extractor, and so is `Option<Charge>`. In Tonic it is in `request.extensions()`. Of layers inside each other
/// the innermost one's is found, and [`outer`](Charge::outer) leads to the others.
///
/// What a handler does with it is in the headers of the response, if it does it before it returns. A clone is the same
/// charge, and may be kept beyond the response: by a task, or by a body that counts what it streams.
///
/// A layer that has not counted a request (exempt, a preflight without a key, only shadow policies) leaves no charge.
///
/// ```
/// # mod support { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support.rs")); }
/// use http::{Request, Response};
/// use portcullis_core::{Policy, Quota};
/// use portcullis_tower::{Charge, Global, LayerBuilder};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let registry = support::registry();
/// let daily = Policy::fixed_window("daily", Quota::per_day(100));
/// let service = LayerBuilder::new(registry, daily).by(Global).layer(service_fn(|request: Request<String>| async move {
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
    shared: Arc<Shared>,
    /// The one policy that this is narrowed to.
    only: Option<usize>,
}

struct Shared {
    rules: Arc<LayerConfig>,
    standing: Standing,
    outer: Option<Charge>,
    books: ChargeLedger,
}

/// How a request was admitted.
#[expect(clippy::large_enum_variant, reason = "it lives behind one pointer already")]
pub(crate) enum Standing {
    Decided(Outcome),
    /// The store could not answer: what each policy that was asked lets through, the first of which counts.
    Degraded(Vec<Decision>),
}

impl Charge {
    pub(crate) fn new(rules: Arc<LayerConfig>, standing: Standing, outer: Option<Self>) -> Self {
        let shared = Shared { rules, standing, outer, books: ChargeLedger::default() };
        Self { shared: Arc::new(shared), only: None }
    }

    /// The decision that counts, as it stands after what was charged and given back since.
    pub fn decision(&self) -> Decision {
        self.shared.books.with_current(&self.shared.standing, self.only, Decision::clone)
    }

    /// What each policy has to say, in the order of the layer, as it stands by now.
    pub fn decisions(&self) -> Vec<Decision> {
        self.shared.books.decisions(&self.shared.standing, self.only)
    }

    /// The charge of the next layer outside, if one has counted the request as well.
    pub fn outer(&self) -> Option<&Self> {
        self.shared.outer.as_ref()
    }

    /// The same charge, narrowed to one policy: what is done with it touches no other. `None` if the request was not
    /// counted under this name.
    ///
    /// For layers whose policies count different things, such as requests and bytes.
    #[must_use]
    pub fn under(&self, policy: &str) -> Option<Self> {
        let index = self
            .shared
            .standing
            .decisions()
            .iter()
            .position(|decision| decision.policy().as_str() == policy)?;
        let fits = self.only.is_none_or(|only| only == index);
        fits.then(|| Self { shared: Arc::clone(&self.shared), only: Some(index) })
    }

    /// Asks for `units` more under each policy: all are charged or none. A denial is a decision, and what becomes of it is
    /// the handler's to say.
    ///
    /// A policy that let the request through because the store could not answer is not asked again: nothing is counted
    /// under it. If that is true of all, the answer is the same as then.
    ///
    /// A charge takes a bounded amount of memory, however often this is called. What was charged to one window or slot can
    /// be refunded as a whole. Under a rate-based policy or a log at most the last
    /// [64](portcullis_core::Receipt::MAX_RUNS) charges can be refunded: those before count as flowed back.
    ///
    /// # Errors
    ///
    /// If the store cannot answer, or the charge is settled already. If it is settled while the store answers, what was
    /// charged is given back.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the units may stay charged.
    pub async fn charge_more(&self, units: u32) -> Result<Decision, ChargeError> {
        let Shared { rules, standing, books, .. } = &*self.shared;
        let Some((indexes, checks)) = books.more(standing, self.only, units)? else {
            return Ok(self.decision());
        };
        let outcome = rules.ask(checks).await?;
        let decision = outcome.decision().clone();
        let Err(late) = books.add(standing, indexes, outcome) else { return Ok(decision) };
        let mut error = ChargeError::Settled;
        for (index, receipt) in late {
            match rules.give_back(receipt).await {
                Ok(decision) => books.update(standing, index, decision),
                Err(failed) => error = failed.into(),
            }
        }
        Err(error)
    }

    /// Gives back everything that was charged, as far as the state still holds it: what has flowed back by itself is not
    /// given back again. See [`Receipt`](portcullis_core::Receipt). The store is asked once per policy.
    ///
    /// # Errors
    ///
    /// If the store cannot answer, or the charge is settled already. It is settled afterwards in any case: what has become
    /// of a refund that fails is not known, and nothing is given back twice.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped once it was polled, the charge is settled, and some of it may stay charged for good.
    pub async fn refund(&self) -> Result<(), ChargeError> {
        self.settle(0).await.map(drop)
    }

    /// Corrects what was charged under each policy, by the admission and later, to `cost`, once: the difference is given
    /// back, or charged whether it fits or not, also where the request has cost 0 so far. What is given back are the newest
    /// units, as by a [refund](Charge::refund). `uncharged` in the answer is what exceeds the debt that a policy allows; there
    /// is no `receipt` in it.
    ///
    /// # Errors
    ///
    /// As for [`refund`](Charge::refund). Under each policy, what is charged then is between what was and `cost`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped once it was polled, the charge is settled, and what stays charged under each policy is
    /// between what was and `cost`.
    pub async fn settle(&self, cost: u32) -> Result<Settlement, ChargeError> {
        let Shared { rules, standing, books, .. } = &*self.shared;
        let mut failed = None;
        let mut uncharged = 0;
        for entry in books.close(standing, self.only)? {
            let index = entry.index;
            for (receipt, cost) in entry.corrections(cost) {
                match rules.settle(receipt, cost).await {
                    Ok(settlement) => {
                        uncharged = uncharged.max(settlement.uncharged);
                        books.update(standing, index, settlement.decision);
                    }
                    Err(error) => failed = Some(error),
                }
            }
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(Settlement { decision: self.decision(), uncharged, receipt: None }),
        }
    }

    /// What the request was charged by its admission, for one that never reaches a handler.
    pub(crate) fn charged(&self) -> Option<Outcome> {
        match &self.shared.standing {
            Standing::Decided(outcome) => Some(outcome.clone()),
            Standing::Degraded(_) => None,
        }
    }

    /// The decision that counts by now, whether any is degraded, and how the layer answers.
    pub(crate) fn with_current<T>(&self, read: impl FnOnce(&Answers, &Decision, bool) -> T) -> T {
        let Shared { rules, standing, books, .. } = &*self.shared;
        let is_degraded = books.is_degraded(standing);
        books.with_current(standing, None, |decision| read(rules.answers(), decision, is_degraded))
    }
}

impl Standing {
    pub(crate) fn decision(&self) -> &Decision {
        match self {
            Self::Decided(outcome) => outcome.decision(),
            Self::Degraded(decisions) => decisions.first().expect("a policy was asked"),
        }
    }

    fn decisions(&self) -> &[Decision] {
        match self {
            Self::Decided(outcome) => outcome.decisions(),
            Self::Degraded(decisions) => decisions,
        }
    }

    /// What was asked; `None` if nothing was counted.
    fn check(&self, index: usize) -> Option<&Check> {
        match self {
            Self::Decided(outcome) if outcome.decisions()[index].is_metered() => {
                outcome.checks().iter().nth(index)
            }
            Self::Decided(_) | Self::Degraded(_) => None,
        }
    }

    /// What was charged in place of the store, if it was not the store.
    fn stand_in(&self, index: usize) -> Option<NonZeroU64> {
        match self {
            Self::Decided(outcome) => outcome.stand_in_of(index),
            Self::Degraded(_) => None,
        }
    }
}

impl fmt::Debug for Charge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Charge").field("decision", &self.decision()).finish_non_exhaustive()
    }
}

/// Why a charge cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChargeError {
    /// It was refunded or settled before, which can be done once.
    #[error("the charge is settled already")]
    Settled,
    /// The store cannot answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}
