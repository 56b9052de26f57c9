//! Charges by the outcome of the response: what is held for a request, and its correction once the outcome is known.

mod corrections;
mod trailers;

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use http::Response;
use portcullis_core::Receipt;

use crate::Charge;
use crate::body::BodyObserver;
use crate::charge::OutcomeCorrection;
use crate::config::LayerConfig;
use crate::response_outcome::{OutcomeRule, ResponseOutcome};
use portcullis_engine::LaterCharge;
use portcullis_engine::engine::keyed_limit::UnsettledPermit;
use portcullis_engine::{EventKeys, EventKind};

pub(crate) use corrections::Corrections;

/// A request whose outcome decides whether it stays charged.
///
/// # Cancel safety
///
/// If it is dropped after the inner service was called, the request has no outcome. Corrections that the store does not answer at
/// once continue in the background.
pub(crate) struct PendingOutcome {
    config: Arc<LayerConfig>,
    charge: Option<Charge>,
    held: Vec<Held>,
    /// Whether the inner service was called.
    is_called: bool,
}

/// What is held under one policy, by its index in the layer.
struct Held {
    policy: usize,
    units: Units,
}

enum Units {
    /// Charged at the admission, under the policy at this index of the charge.
    Charged { index: usize, units: u64 },
    /// To be charged after the response, in the same way.
    Looked { index: usize, units: u64, permit: Option<UnsettledPermit> },
    /// Charged under a shadow policy.
    Shadow(Receipt),
}

/// When the outcome of a response is known.
pub(crate) enum Judged {
    /// With its head.
    AtOnce(Corrections),
    /// With its trailers, which this observer gets.
    AtEnd(Box<dyn BodyObserver>),
}

impl PendingOutcome {
    /// Takes what is held for a request that goes to the inner service. `None` if no policy that counts it is charged by outcome.
    pub(crate) fn take(
        config: &Arc<LayerConfig>,
        charge: Option<&Charge>,
        mut later: Vec<LaterCharge>,
        shadows: Vec<(usize, Receipt)>,
    ) -> Option<Box<Self>> {
        let mut held = Vec::new();
        for (policy, layer_policy) in config.policies().iter().enumerate() {
            let own = later.iter().position(|later| later.index() == policy).map(|at| later.swap_remove(at));
            let metered = charge.and_then(|charge| charge.metered(layer_policy.policy.name()));
            // Nothing is charged to a policy that was not metered because the store has failed.
            let Some((index, units)) = metered.filter(|_| layer_policy.outcome.is_some()) else { continue };
            let units = match own {
                Some(later) => {
                    let (units, permit) = later.into_parts();
                    Units::Looked { index, units, permit }
                }
                None if units > 0 => Units::Charged { index, units },
                None => continue,
            };
            held.push(Held { policy, units });
        }
        held.extend(
            shadows.into_iter().map(|(policy, receipt)| Held { policy, units: Units::Shadow(receipt) }),
        );
        let charge = charge.cloned();
        let config = Arc::clone(config);
        (!held.is_empty()).then(|| Box::new(Self { config, charge, held, is_called: false }))
    }

    /// Records that the inner service is called next. Until then nothing is corrected here.
    pub(crate) fn call(&mut self) {
        self.is_called = true;
    }

    /// Judges a response, or waits for its trailers.
    pub(crate) fn judge<B>(mut self: Box<Self>, response: &Response<B>) -> Judged {
        let outcome = ResponseOutcome::new(response.status(), response.headers(), None);
        if outcome.is_pending() {
            return Judged::AtEnd(trailers::observer(self, response));
        }
        Judged::AtOnce(self.correct(Some(&outcome)))
    }

    /// Starts the corrections that an outcome requires; `None` for a request without one.
    fn correct(&mut self, outcome: Option<&ResponseOutcome<'_>>) -> Corrections {
        let mut corrections = Corrections::new(&self.config);
        let charge = self.charge.take();
        for Held { policy, units } in mem::take(&mut self.held) {
            let stays = self.stays_charged(policy, outcome);
            match (units, &charge) {
                (Units::Charged { index, units }, Some(charge)) if !stays => {
                    corrections.correct(charge, index, OutcomeCorrection::Refund(units), None);
                }
                (Units::Looked { index, units, permit }, Some(charge)) if stays => {
                    corrections.correct(charge, index, OutcomeCorrection::Charge(units), permit);
                }
                (Units::Shadow(receipt), _) if !stays => corrections.refund(receipt),
                _ => {}
            }
        }
        drop(charge);
        corrections.begin();
        corrections
    }

    /// Whether a policy charges a request with this outcome.
    fn stays_charged(&self, policy: usize, outcome: Option<&ResponseOutcome<'_>>) -> bool {
        let layer_policy = &self.config.policies()[policy];
        let rule = layer_policy.outcome.as_deref();
        match outcome {
            None => !rule.is_some_and(|rule| rule.refunds_unanswered),
            Some(outcome) => {
                rule.map_or(Some(true), |rule: &OutcomeRule| rule.charges(outcome)).unwrap_or_else(|| {
                    let policy = layer_policy.policy.name();
                    self.config.limits.emit(EventKind::OutcomePanicked { policy }, || EventKeys::None);
                    true
                })
            }
        }
    }

    /// Corrects the charge where no caller waits, in a destructor or at the end of a body. A panic, of an observer of events, ends
    /// here, because it would abort the process if it left a destructor during another panic.
    fn correct_in_background(&mut self, outcome: Option<&ResponseOutcome<'_>>) {
        drop(catch_unwind(AssertUnwindSafe(|| drop(self.correct(outcome)))));
    }
}

impl Drop for PendingOutcome {
    fn drop(&mut self) {
        if self.is_called && !self.held.is_empty() {
            self.correct_in_background(None);
        }
    }
}
