//! Checks the policies that are tried out: each by itself, and none rejects.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::SystemTime;

use portcullis_core::store::Outcome;
use portcullis_core::{Decision, Receipt, StoreError};

use super::attempt::hold_permits;
use super::call::StoreCall;
use super::patience::Patience;
use crate::charge::Asked;
use crate::engine::Limits;
use crate::engine::permits::HeldPermit;
use crate::engine::report;
use crate::event::{EventKeys, EventKind, FoundKeys};

/// What the policies have decided and charged.
#[derive(Default)]
pub(super) struct Shadows {
    pub(super) decisions: Vec<Decision>,
    /// Charges that the outcome of the request may correct, by the indexes of the policies.
    pub(super) receipts: Vec<(usize, Receipt)>,
    pub(super) held: Vec<HeldPermit>,
}

/// Makes all checks at a time, and reports the requests that would be rejected.
pub(super) async fn check(
    limits: &Arc<Limits>,
    mut asked: Vec<Asked>,
    keys: Option<&FoundKeys>,
    patience: &Patience,
) -> Shadows {
    let mut shadows = Shadows::default();
    if asked.is_empty() {
        return shadows;
    }
    asked.sort_by_key(|asked| asked.index);
    let call = |asked: &Asked| (StoreCall::new(limits, limits.check(asked.to_checks(limits)), false), None);
    let mut calls: Vec<(StoreCall, Option<Result<Outcome, StoreError>>)> = asked.iter().map(call).collect();
    if !calls.iter().all(|(call, _)| call.is_ready()) {
        patience.resume().await;
    }
    poll_fn(|cx| {
        for (call, answer) in calls.iter_mut().filter(|(_, answer)| answer.is_none()) {
            if let Poll::Ready(ready) = Pin::new(call).poll(cx) {
                *answer = Some(ready);
            }
        }
        if calls.iter().all(|(_, answer)| answer.is_some()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    for (asked, (_, answer)) in asked.iter().zip(calls) {
        shadows.add(limits, *asked, answer.expect("all have answered"));
    }
    for decision in shadows.decisions.iter().filter(|decision| !decision.is_allowed()) {
        limits.emit(EventKind::ShadowWouldReject { decision }, || EventKeys::found(keys));
    }
    shadows
}

impl Shadows {
    fn add(&mut self, limits: &Arc<Limits>, asked: Asked, answer: Result<Outcome, StoreError>) {
        report::answered(limits, answer.as_ref());
        let Ok(outcome) = answer else {
            self.decisions.push(Decision::degraded(asked.policy(limits), SystemTime::now().into()));
            return;
        };
        report::charged(limits, outcome.checks().iter().as_slice(), outcome.decisions());
        if limits.holds_permits() {
            self.held.extend(hold_permits(limits, &outcome));
        }
        if limits.policies()[asked.index].corrects {
            self.receipts.extend(outcome.clone().into_receipts().map(|receipt| (asked.index, receipt)));
        }
        self.decisions.push(outcome.into_decision());
    }
}
