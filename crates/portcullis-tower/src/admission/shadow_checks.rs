//! Checks shadow policies, which only decide and report.
//!
//! They are checked after the enforced policies have let the request pass, because a rejected request would not reach them. Each
//! is checked separately, because in one call the denial of one would prevent charges under the others.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use http::{Extensions, HeaderValue};
use portcullis_core::store::{Checks, Outcome};
use portcullis_core::{Decision, Receipt, StoreError};

use super::pending_check::PendingCheck;
use super::{in_flight, nesting, verdict};
use crate::by_outcome;
use crate::config::LayerConfig;
use crate::event::EventKind;
use crate::in_flight::{HeldPermit, Permits};
use crate::policy::is_in_flight;
use crate::response::shadow_names;
use crate::{RateLimitHeaders, Shadow};

/// The checks of the shadow policies that count a request, one call each, with the index of the policy.
pub(super) type ShadowChecks = Vec<(usize, Checks)>;

/// The checks of the shadow policies, answered or in progress.
#[derive(Default)]
pub(super) struct PendingShadowChecks(Vec<ShadowCheck>);

#[expect(
    clippy::large_enum_variant,
    reason = "they are in a vector already, and the answer replaces the call"
)]
enum ShadowCheck {
    Pending { index: usize, pending: PendingCheck },
    Answered(Decision, Option<Kept>),
}

/// What is kept of a charge until the response.
enum Kept {
    /// The receipt of a policy that is charged by outcome, and its index.
    Receipt(usize, Receipt),
    /// The permit of a policy that limits requests in flight.
    Permit(HeldPermit),
}

/// Starts the checks.
pub(super) fn start(config: &Arc<LayerConfig>, checks: ShadowChecks) -> PendingShadowChecks {
    PendingShadowChecks(
        checks
            .into_iter()
            .map(|(index, checks)| match config.store.check(checks).into_ready() {
                Ok(answer) => answered(config, index, answer),
                Err(pending) => {
                    ShadowCheck::Pending { index, pending: PendingCheck::new(config, pending, false) }
                }
            })
            .collect(),
    )
}

impl PendingShadowChecks {
    pub(super) fn is_over(&self) -> bool {
        self.0.iter().all(|check| matches!(check, ShadowCheck::Answered(..)))
    }

    /// Polls all checks concurrently.
    pub(super) fn poll(&mut self, config: &Arc<LayerConfig>, cx: &mut Context<'_>) -> Poll<()> {
        for check in &mut self.0 {
            if let ShadowCheck::Pending { index, pending } = check
                && let Poll::Ready(answer) = pending.poll(cx)
            {
                *check = answered(config, *index, answer);
            }
        }
        if self.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Reports the decisions to the inner service and to the log. Returns the header value for the client, if it is enabled.
    pub(super) fn report(self, config: &LayerConfig, extensions: &mut Extensions) -> Option<HeaderValue> {
        let decisions: Vec<_> = self
            .0
            .into_iter()
            .filter_map(|check| match check {
                ShadowCheck::Answered(decision, kept) => {
                    match kept {
                        Some(Kept::Receipt(policy, receipt)) => {
                            by_outcome::hold_shadow(policy, receipt, extensions);
                        }
                        Some(Kept::Permit(permit)) => Permits::hold(vec![permit], extensions),
                        None => {}
                    }
                    Some(decision)
                }
                ShadowCheck::Pending { .. } => None,
            })
            .collect();
        nesting::attach_shadows(config, &decisions, extensions);
        let mut shadow = extensions.remove::<Shadow>().unwrap_or_default();
        let mut rejected_by = Vec::new();
        for decision in decisions {
            if !decision.is_allowed() {
                config.store.emit_for(extensions, EventKind::ShadowWouldReject { decision: &decision });
                rejected_by.push(decision.policy().clone());
            }
            shadow.push(decision);
        }
        extensions.insert(shadow);
        let is_sent =
            !rejected_by.is_empty() && config.responses.headers().contains(RateLimitHeaders::SHADOW);
        is_sent.then(|| shadow_names(rejected_by.iter()))
    }
}

fn answered(config: &Arc<LayerConfig>, index: usize, answer: Result<Outcome, StoreError>) -> ShadowCheck {
    config.store.emit_answer(&answer);
    verdict::emit_charges(config, &answer);
    let layer_policy = &config.policies()[index];
    match answer {
        Ok(outcome) => {
            let is_in_flight = is_in_flight(&layer_policy.policy);
            let is_kept = is_in_flight || layer_policy.outcome.is_some();
            let receipt = if is_kept { outcome.clone().into_receipts().next() } else { None };
            let kept = receipt.map(|receipt| {
                if is_in_flight {
                    Kept::Permit(in_flight::hold_one(config, receipt))
                } else {
                    Kept::Receipt(index, receipt)
                }
            });
            ShadowCheck::Answered(outcome.into_decision(), kept)
        }
        Err(_) => {
            ShadowCheck::Answered(Decision::degraded(&layer_policy.policy, SystemTime::now().into()), None)
        }
    }
}
