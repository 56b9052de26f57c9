//! Checks the policies that are tried out: each by itself, and none rejects.

use std::sync::Arc;

use portcullis_core::store::Outcome;
use portcullis_core::{Decision, Receipt, StoreError};

use super::each;
use super::patience::Patience;
use crate::charge::Asked;
use crate::engine::permits::HeldPermit;
use crate::engine::report;
use crate::engine::{CallerPolicies, Limits};
use crate::event::{EventKeys, EventKind, FoundKeys};

/// What the policies have decided and charged.
#[derive(Default)]
pub(super) struct Shadows {
    pub(super) decisions: Vec<Decision>,
    /// Charges that may be corrected by the outcome of the request, or refunded if nothing takes it after its wait, by the indexes of the
    /// policies.
    pub(super) receipts: Vec<(usize, Receipt)>,
    pub(super) held: Vec<HeldPermit>,
}

/// Makes all checks at a time, and reports the requests that would be rejected.
///
/// # Cancel safety
///
/// What has answered is reported, and its permits are released.
pub(super) async fn check(
    limits: &Arc<Limits>,
    callers: &CallerPolicies,
    asked: &[Asked],
    keys: Option<&FoundKeys>,
    patience: &Patience,
) -> Shadows {
    let mut shadows = Shadows::default();
    if asked.is_empty() {
        return shadows;
    }
    let has_waited = patience.is_long();
    let add = |asked: Asked, answer| (asked.index, shadows.add(limits, callers, asked, answer, has_waited));
    let decided = each::check(limits, callers, asked, patience, add).await;
    for (index, decision) in decided.iter().filter(|(_, decision)| !decision.is_allowed()) {
        let led = keys.map(|keys| keys.led_by(limits.policies(), |found, _| found == *index));
        limits.emit(EventKind::ShadowWouldReject { decision }, || EventKeys::found(led.as_ref()));
    }
    shadows.decisions = decided.into_iter().map(|(_, decision)| decision).collect();
    shadows
}

impl Shadows {
    /// Adds what a policy has charged. Returns its decision.
    fn add(
        &mut self,
        limits: &Arc<Limits>,
        callers: &CallerPolicies,
        asked: Asked,
        answer: Result<Outcome, StoreError>,
        has_waited: bool,
    ) -> Decision {
        report::answered(limits, answer.as_ref());
        let Ok(outcome) = answer else {
            return Decision::degraded(callers.policy(limits, asked.index), limits.engine().now());
        };
        report::charged(limits, outcome.checks().iter().as_slice(), outcome.decisions());
        self.held.extend(limits.engine().backlog.in_flight.hold(limits, &outcome));
        if has_waited || limits.policies()[asked.index].corrects {
            self.receipts.extend(outcome.clone().into_receipts().map(|receipt| (asked.index, receipt)));
        }
        outcome.into_decision()
    }
}
