//! Decides the limits of Envoy's files that apply to a call.

use std::sync::Arc;

use portcullis::Decision;
use portcullis::store::Outcome;
use portcullis_engine::{Attempt, Limits, Patience, Rejected, report};

use super::plan::{Item, Plan, Role};
use crate::CallError;
use crate::verdict::Verdict;

/// Decides a call, and charges what is left of its limits if it `uses_up` what denies it.
pub(super) async fn decide(plan: &Plan, limits: &Arc<Limits>, uses_up: bool) -> Result<Verdict, CallError> {
    let mut deciding = Deciding::of(plan, limits);
    let mut attempt = Attempt::new(limits, None, Patience::default());
    if let Some(exhausted) = deciding.check(&mut attempt).await? {
        deciding.admit(attempt, &exhausted).await?;
        if uses_up {
            deciding.use_up(&deciding.exceeded).await;
        }
    } else {
        deciding.verdict.over = true;
        deciding.show_left_out().await;
        // A limit of 0 is no budget.
        if uses_up && !plan.is_banned {
            let all: Vec<&Item> = plan.items.iter().filter(|item| !item.is_refund).collect();
            deciding.use_up(&all).await;
        }
    }
    Ok(deciding.verdict)
}

/// Charges the limits of a call, or none. Returns whether they deny it, and what was charged.
pub(super) async fn reserve(plan: &Plan, limits: &Arc<Limits>) -> Result<(bool, Option<Outcome>), CallError> {
    let mut deciding = Deciding::of(plan, limits);
    let mut attempt = Attempt::new(limits, None, Patience::default());
    if plan.is_banned {
        limits.reject_beside(None).await;
    }
    match deciding.check(&mut attempt).await? {
        None => Ok((true, None)),
        Some(exhausted) => Ok((false, deciding.admit(attempt, &exhausted).await?)),
    }
}

struct Deciding<'p> {
    plan: &'p Plan,
    limits: &'p Arc<Limits>,
    verdict: Verdict,
    /// The answer of the store that denies the call.
    denial: Option<Outcome>,
    /// The limits that the call exceeds although it is admitted.
    exceeded: Vec<&'p Item>,
    /// Whether the store remembers the denial, which leaves out others.
    is_remembered: bool,
}

impl<'p> Deciding<'p> {
    fn of(plan: &'p Plan, limits: &'p Arc<Limits>) -> Self {
        let verdict = plan.undecided();
        Self { plan, limits, verdict, denial: None, exceeded: Vec::new(), is_remembered: false }
    }

    /// Charges all limits that may deny the call, or none. `None` if they deny it, or else the decisions of quotas that it exceeds.
    async fn check(&mut self, attempt: &mut Attempt) -> Result<Option<Vec<Decision>>, CallError> {
        if self.plan.is_banned {
            return Ok(None);
        }
        match attempt.check(self.plan.ask(self.limits, &[Role::Enforced, Role::Shadow]), None).await {
            Ok(()) => {}
            Err(Rejected::Limited { outcome, .. } | Rejected::Late { outcome, .. }) => {
                self.is_remembered = outcome.is_remembered();
                // What is admitted beside a limit of which nothing is left was charged, and refunded.
                let is_final = |decision: &Decision| !decision.is_allowed() || !self.plan.needs_unit();
                for (item, decision) in self.plan.decided(&outcome).filter(|(_, decision)| is_final(decision))
                {
                    self.show(item, decision, !decision.is_allowed());
                }
                self.denial = Some(outcome);
                return Ok(None);
            }
            Err(rejected) => return Err(rejected.into()),
        }
        let quotas = attempt.check_each(self.plan.ask(self.limits, &[Role::Quota])).await?;
        for (item, decision) in self.plan.of_role(Role::Quota).zip(&quotas) {
            self.show(item, decision, !decision.is_allowed());
            self.exceeded.extend((!decision.is_allowed()).then_some(item));
        }
        let is_denied = self.plan.quotas_deny && !quotas.iter().any(Decision::is_allowed);
        if is_denied {
            let enforced = attempt.charged().map(Outcome::decisions).unwrap_or_default();
            attempt.refuse(&[enforced, &quotas[..]].concat()).await;
        }
        Ok((!is_denied).then(|| quotas.into_iter().filter(|quota| !quota.is_allowed()).collect()))
    }

    /// Admits the call, checks the limits that never deny, and gives hits back. Returns what was charged.
    async fn admit(
        &mut self,
        attempt: Attempt,
        exhausted: &[Decision],
    ) -> Result<Option<Outcome>, CallError> {
        let admitted = attempt.admit().await?;
        for (item, decision) in admitted.charged.iter().flat_map(|charged| self.plan.decided(charged)) {
            self.show(item, decision, false);
        }
        for (item, decision) in self.plan.of_role(Role::Shadow).zip(&admitted.shadows) {
            self.show(item, decision, false);
            self.exceeded.extend((!decision.is_allowed()).then_some(item));
        }
        for item in self.plan.items.iter().filter(|item| item.is_refund) {
            // Without an answer nothing is known of the limit, and the call is charged already.
            if let Some(decision) = self.limits.put_back(&item.policy, item.key, item.hits).await {
                self.show(item, &decision, false);
            }
        }
        let charged = admitted.charged.as_ref().map(Outcome::decisions).unwrap_or_default();
        let decisions = [charged, exhausted].concat();
        report::admitted(self.limits, &decisions, &admitted.shadows, admitted.keys.as_deref());
        Ok(admitted.charged)
    }

    /// Charges what fits of the hits of these limits.
    async fn use_up(&self, items: &[&Item]) {
        if let Some(checks) = super::plan::checks(items, |item| item.hits) {
            self.limits.use_up(checks, self.denial.clone()).await;
        }
    }

    /// Shows the limits that the denial of a call leaves out: those beside a denial that the store remembers, and those that were
    /// refunded or not asked. Without an answer nothing is known of them.
    async fn show_left_out(&mut self) {
        let enforced = self.plan.of_role(Role::Enforced);
        let left_out: Vec<_> = enforced.filter(|item| !self.verdict.shows(&item.slots)).collect();
        let checks = super::plan::checks(&left_out, |_| 0);
        let peeked = if self.plan.is_banned {
            self.limits.reject_beside(checks).await
        } else {
            self.limits.peek(checks).await
        };
        for (item, decision) in peeked.iter().flat_map(|peeked| self.plan.decided(peeked)) {
            let needed = if self.is_remembered { item.hits.max(1) } else { u64::from(item.hits == 0) };
            let lacks = decision.is_metered() && decision.remaining() < needed;
            self.show(item, decision, lacks || !decision.is_allowed());
        }
    }

    fn show(&mut self, item: &'p Item, decision: &Decision, over: bool) {
        self.plan.show(item, over, decision, &mut self.verdict);
    }
}
