//! Requests of a call that fit into one decision.

use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use portcullis_core::store::{Check, Checks, Outcome};
use portcullis_core::{Policy, TooMuchWork};
use portcullis_engine::{Admitted, Ask, Attempt, EventKeys, EventKind, Limits, Patience, Rejected, report};

use super::JointDecision;
use super::member::Member;
use super::usage;
use crate::RateLimitHeaders;
use crate::admission::plan::lookups;
use crate::admission::reject;
use crate::headers::X_RATELIMIT_SHADOW;
use portcullis_response::internal::{Individual, names_of_policies};

/// Requests that are decided at once, with the policies of all of them.
pub(super) struct Group {
    members: Vec<Member>,
    limits: Arc<Limits>,
    /// The answer that denies it.
    denial: Option<Outcome>,
}

impl Group {
    pub(super) fn of(member: Member) -> Self {
        let limits = Arc::clone(&member.config.limits);
        Self { members: vec![member], limits, denial: None }
    }

    /// Whether one decision may have the policies of a request as well. Those that are looked up may get other quotas, and one policy has
    /// one quota.
    pub(super) fn has_room_for(&self, member: &Member) -> bool {
        let mut members = self.members.iter().chain([member]);
        let policies: Vec<&Policy> = members.clone().flat_map(policies).collect();
        let is_other = |(index, one): (usize, &&Policy)| {
            policies[..index].iter().any(|other| other.name() == one.name() && *other != *one)
        };
        !members.any(|member| member.plan.looks_up)
            && !policies.iter().enumerate().any(is_other)
            && policies.len() <= Checks::MAX
            && TooMuchWork::check(policies).is_ok()
    }

    pub(super) fn add(&mut self, member: Member) {
        self.members.push(member);
    }

    fn collect_limits(&mut self) {
        let all = self.members.iter().flat_map(|member| member.config.limits.policies()).cloned().collect();
        self.limits = Arc::new(self.limits.with_policies(all));
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(super) fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// Charges all policies, or none. `None` if they reject a request.
    pub(super) async fn decide(&mut self, decision: &mut JointDecision) -> Option<Admitted> {
        if self.members.len() > 1 {
            self.collect_limits();
        }
        let mut attempt = Attempt::new(&self.limits, None, Patience::default());
        let mut checked = attempt.check(self.ask(), None).await;
        if checked.is_ok() && self.members[0].plan.looks_up {
            checked = self.look_up(&mut attempt, decision).await?;
        }
        let admitted = match checked {
            Ok(()) => attempt.admit().await,
            Err(rejected) => Err(rejected),
        };
        admitted.map_err(|rejected| self.reject(rejected, decision)).ok()
    }

    /// Whether its limits deny it.
    pub(super) fn is_denied(&self) -> bool {
        self.denial.is_some()
    }

    /// Whether one of its requests reports usage.
    pub(super) fn reports(&self) -> bool {
        self.members.iter().any(Member::is_report)
    }

    /// Charges what fits of the units under all policies, of a call that is denied.
    pub(super) async fn use_up(&mut self) {
        if self.members.len() > 1 {
            self.collect_limits();
        }
        if let Some(checks) = usage::checks(&self.members, |_| true) {
            self.limits.use_up(checks, self.denial.clone()).await;
        }
    }

    /// Charges what fits of the units under the policies that are tried out, and that would deny the call.
    pub(super) async fn use_up_tried(&self, admitted: &Admitted) {
        let denied = |check: &Check| {
            let mut tried = admitted.tried.iter().zip(&admitted.shadows);
            tried.any(|(asked, shadow)| {
                !shadow.is_allowed() && asked.is_about(&self.limits, check.policy.name(), check.key)
            })
        };
        if let Some(checks) = usage::checks(&self.members, denied) {
            self.limits.use_up(checks, None).await;
        }
    }

    /// What the requests ask together.
    fn ask(&self) -> Ask {
        let (mut ask, mut offset) = (Ask::new(&self.limits), 0);
        for member in &self.members {
            ask.join(&self.limits, &member.plan.ask, offset, member.units);
            offset += member.config.policies().len();
        }
        ask
    }

    /// Looks up keys and quotas of the only request, and checks what follows. `None` if it is rejected because that fails.
    async fn look_up(
        &mut self,
        attempt: &mut Attempt,
        decision: &mut JointDecision,
    ) -> Option<Result<(), Rejected>> {
        let only = &mut self.members[0];
        match lookups::ask(attempt, &only.config, only.plan.awaited, &only.parts).await {
            Ok(Ok(Some(ask))) => {
                only.earlier = mem::replace(&mut only.plan.ask, ask);
                Some(attempt.check(self.ask(), None).await)
            }
            Ok(found) => Some(found.map(drop)),
            Err(error) => {
                let rejected = lookups::failed(attempt, &only.config, error.clone(), &only.parts).await;
                decision.reject(only.number, Some(error), rejected.status, rejected.response);
                None
            }
        }
    }

    /// Answers for the first request that is denied.
    fn reject(&mut self, rejected: Rejected, decision: &mut JointDecision) {
        let outcome = match &rejected {
            Rejected::Limited { outcome, .. } | Rejected::Late { outcome, .. } => Some(outcome),
            _ => None,
        };
        let mut denied = None;
        for member in &self.members {
            let Some(own) = outcome.and_then(|outcome| member.own(outcome)) else { continue };
            // What is admitted beside a request that needs a unit was charged, and refunded.
            if !own.is_allowed() || self.members.iter().all(|member| member.units > 0) {
                decision.decisions[member.number] = Some(own.decision().clone());
            }
            if denied.is_none() && !own.is_allowed() {
                let (checked, key) = (member.plan.ask.checked(), member.plan.ask.narrowest_key());
                denied = Some((member, Rejected::Limited { outcome: own, checked, key }));
            }
        }
        let (member, shown) = denied.unwrap_or_else(|| (&self.members[0], rejected.clone()));
        let response = reject::by_limits(&member.config, &shown, &member.parts);
        decision.reject(member.number, None, response.status, member.response(response.response));
        if let Rejected::Limited { outcome, .. } = rejected {
            self.denial = Some(outcome);
        }
    }

    /// Shows what was decided about each request.
    pub(super) fn admit(&self, admitted: &Admitted, decision: &mut JointDecision) {
        let charged = admitted.charged.as_ref();
        for member in &self.members {
            let Some(own) = charged.and_then(|charged| member.own(charged)) else { continue };
            for decision in member.config.responses.soft_limits().reached(own.decisions()) {
                let keys = || EventKeys::of_checks(own.checks());
                self.limits.emit(EventKind::SoftLimitReached { decision }, keys);
            }
            decision.decisions[member.number] = Some(own.into_decision());
        }
        let decisions = charged.map(Outcome::decisions).unwrap_or_default();
        report::admitted(&self.limits, decisions, &admitted.shadows, admitted.keys.as_deref());
    }

    /// What a layer adds to the response to the last request.
    pub(super) fn response(&self, admitted: &Admitted) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::default());
        let Some(last) = self.members.last() else { return response };
        let responses = &last.config.responses;
        if let Some(own) = admitted.charged.as_ref().and_then(|charged| last.own(charged)) {
            let individual = Individual::Among(own.checks().iter().as_slice());
            responses.write_admitted(own.decision(), own.decisions(), individual, false, &mut response);
        }
        let tried = admitted.tried.iter().zip(&admitted.shadows);
        let denied = tried.filter(|(asked, shadow)| {
            !shadow.is_allowed() && last.has_tried(asked.policy(&self.limits).name(), asked.key)
        });
        let mut denied = denied.map(|(_, shadow)| shadow.policy()).peekable();
        if denied.peek().is_some() && responses.headers().contains(RateLimitHeaders::SHADOW) {
            response.headers_mut().append(&X_RATELIMIT_SHADOW, names_of_policies(denied));
        }
        last.response(response)
    }
}

fn policies(member: &Member) -> impl Iterator<Item = &Policy> {
    let limits = &member.config.limits;
    (0..limits.policies().len()).map(|index| member.plan.ask.callers().policy(limits, index))
}
