//! Decisions over keys in several slots of a cluster.
//!
//! Each slot is queried by one call, and all calls are sent at once. If one slot denies, the charges of the others are refunded. A unit is
//! charged before a request is admitted, so no key admits more than its policy allows; meanwhile others may be denied.
//!
//! If one of the client's own keys was denied [recently](recently_denied::RECENT), its slot is queried first, and the others only if it
//! admits: requests that a client's own limit denies must not hold units of shared limits. Slots with limits on requests in flight are
//! queried last.
//!
//! If a slot fails, a denial by another one is final. Otherwise the checks of the failed slots are decided by their policies' failure modes:
//! they pass if they are open, or are decided by the [standby](Standby), all of them or none. If it denies, or a policy is closed, the charges
//! are refunded. If a slot is overloaded, which is no outage, the decision is rejected.
//!
//! A decision runs to its end in a task of its own. If its caller has gone away by then, all charges are refunded: otherwise a client that
//! disconnects could use up the limits of other keys by requests that one key denies.

mod partial;
mod recently_denied;
mod slots;

use std::sync::Arc;

use portcullis_core::store::{Check, CheckResult, Checks, Outcome, Position, Refund, Run, Standby};
use portcullis_core::{StoreError, StoreErrorKind, Timestamp};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use self::partial::PartialOutcome;
pub(crate) use self::recently_denied::RecentlyDenied;
use self::slots::{SlotGroup, query_order};
use super::answers::{Answers, together};
use super::{Inner, RedisStore};
use crate::protocol::keys::Slots;
use crate::transport::Transport as _;

/// Calls to slots that are in progress.
type Calls = JoinSet<(SlotGroup, Result<Answers, StoreError>)>;

/// Refunds in progress, with the index of the check in the decision.
type Refunds = JoinSet<(usize, Result<(Timestamp, CheckResult), StoreError>)>;

/// Sends the outcome to the caller, with a sender by which the caller confirms it. It is closed when the caller goes away.
type OutcomeSender = oneshot::Sender<(Result<Outcome, StoreError>, oneshot::Sender<()>)>;

impl RedisStore {
    /// Decides within one deadline.
    ///
    /// # Cancel safety
    /// A decision that is dropped before it returns its outcome charges nothing.
    pub(super) async fn decide_cross_slot(
        self,
        checks: Checks,
        slots: Slots,
        standby: Option<Arc<dyn Standby>>,
    ) -> Result<Outcome, StoreError> {
        let (caller, receiver) = oneshot::channel();
        tokio::spawn(self.decide_for(caller, PartialOutcome::new(checks, standby), slots));
        let Ok((outcome, taken)) = receiver.await else { return Err(cancelled()) };
        // Fails if the decision does not wait for it: a denial has no charge to keep.
        let _ = taken.send(());
        outcome
    }

    async fn decide_for(self, caller: OutcomeSender, mut partial: PartialOutcome, slots: Slots) {
        if caller.is_closed() {
            return;
        }
        let end = Instant::now() + self.0.connection.deadline();
        let late = self.query_slots(&mut partial, &slots, end).await;
        if partial.passes() {
            // The caller may go away between the outcome and its next poll.
            if self.send_outcome(caller, &partial).await.is_err() {
                self.refund_all(&mut partial).join_all().await;
            }
        } else {
            let mut refunds = self.refund_all(&mut partial);
            while let Ok(Some(refund)) = timeout_at(end, refunds.join_next()).await {
                if let Ok((index, Ok((at, result)))) = refund {
                    partial.refunded(index, at, result);
                }
            }
            // A denial needs no further refund if the caller has gone away.
            drop(self.send_outcome(caller, &partial));
            refunds.join_all().await;
        }
        self.refund_late(&partial, late).await;
    }

    /// Sends the outcome. Returns a receiver that fails if the caller goes away without the outcome.
    fn send_outcome(&self, caller: OutcomeSender, partial: &PartialOutcome) -> oneshot::Receiver<()> {
        let answer = partial.answer();
        let answer =
            answer.or_else(|error| self.0.denied_without_store(partial.checks(), error.kind()).ok_or(error));
        partial.note(&answer);
        let (taken, is_taken) = oneshot::channel();
        drop(caller.send((answer, taken)));
        is_taken
    }

    /// Queries the slots, stage by stage. Returns the calls without a reply by `end`; the decision does not wait for them.
    async fn query_slots(&self, partial: &mut PartialOutcome, slots: &Slots, end: Instant) -> Vec<Calls> {
        let stages = query_order(partial.checks(), slots, |key| self.0.recently_denied.contains(key));
        let mut late = Vec::new();
        for (stage, groups) in stages.into_iter().enumerate() {
            // The deadline of the first calls is that of the decision.
            let (missing, calls) = self.query_each(partial, groups, (stage > 0).then_some(end)).await;
            for group in missing {
                let error = if stage > 0 { self.too_late(&group) } else { cancelled() };
                partial.failed(&group, &error);
            }
            late.push(calls);
            let denied = partial.unanswered().and_then(|checks| self.0.denial_in_outage(&checks));
            partial.remembered(denied);
            partial.decide_missing();
            self.record_denied(partial);
            if partial.is_over() {
                break;
            }
        }
        late
    }

    /// Sends one call per slot, all at once. Returns the slots without a reply by `end`, and the calls to them.
    async fn query_each(
        &self,
        partial: &mut PartialOutcome,
        mut groups: Vec<SlotGroup>,
        end: Option<Instant>,
    ) -> (Vec<SlotGroup>, Calls) {
        let (mut calls, sent) = (JoinSet::new(), Instant::now());
        if end.is_some_and(|end| end <= sent) {
            return (groups, calls);
        }
        for group in groups.clone() {
            let (store, checks) = (self.clone(), partial.checks().clone());
            calls.spawn(async move {
                let answer = store.0.run_checks(group.slot, &checks, group.checks(&checks), None).await;
                (group, answer)
            });
        }
        loop {
            let next = match end {
                Some(end) => timeout_at(end, calls.join_next()).await.ok().flatten(),
                None => calls.join_next().await,
            };
            let Some(answer) = next else { return (groups, calls) };
            // The slot of a cancelled task remains among those without a reply.
            let Ok((group, answer)) = answer else { continue };
            match answer {
                Ok(answers) => {
                    let own = group.checks(partial.checks()).zip(answers.iter());
                    self.0.remember(group.slot, partial.checks(), own, sent);
                    partial.granted(&group, answers.grants());
                    partial.answered(&group, answers.iter().copied());
                    // Recorded now, and not after all replies, so that decisions that begin meanwhile use the new order.
                    self.record_denied(partial);
                }
                Err(error) => partial.failed(&group, &error),
            }
            groups.retain(|other| *other != group);
        }
    }

    fn record_denied(&self, partial: &PartialOutcome) {
        partial.denied_keys().for_each(|key| self.0.recently_denied.insert(key));
    }

    /// The error of a slot without a reply that had less than the whole deadline: an overload, unless an outage is known.
    fn too_late(&self, group: &SlotGroup) -> StoreError {
        const MESSAGE: &str = "redis gave no reply before the end of a decision over several slots";
        match self.0.connection.availability(Some(group.slot)).outage {
            Some(outage) => StoreError::new(StoreErrorKind::TimedOut, MESSAGE).with_outage(outage),
            None => StoreError::new(StoreErrorKind::Overtaken, MESSAGE),
        }
    }

    /// Begins to refund the charges of the slots and of the standby. If a refund fails, its charge stays, at most until it expires.
    fn refund_all(&self, partial: &mut PartialOutcome) -> Refunds {
        partial.refund_local();
        let mut refunds = JoinSet::new();
        for (index, check, position) in partial.charged() {
            let store = self.clone();
            refunds.spawn(async move { (index, store.refund_at(&check, position).await) });
        }
        refunds
    }

    /// Refunds the charges of calls whose replies came after the decision.
    async fn refund_late(&self, partial: &PartialOutcome, mut late: Vec<Calls>) {
        while let Some(calls) = late.last_mut() {
            let Some(answer) = calls.join_next().await else {
                late.pop();
                continue;
            };
            let Ok((group, Ok(answers))) = answer else { continue };
            if !answers.iter().all(|(_, result)| result.admitted) {
                continue;
            }
            let own = answers.under_grants(group.checks(partial.checks()));
            for (check, (_, result)) in own.iter().zip(answers.iter()).filter(|(check, _)| check.units() > 0)
            {
                drop(self.refund_at(check, result.position).await);
            }
        }
    }

    async fn refund_at(
        &self,
        check: &Check,
        position: Position,
    ) -> Result<(Timestamp, CheckResult), StoreError> {
        let runs = [Run { units: check.units(), position }];
        let mut reply = self.0.refund_unused(check, Refund::of(&runs)).await?;
        self.0.result_of(&mut reply, check, check.units())
    }
}

impl Inner {
    /// Returns the remembered denial of a check whose slot rejects calls, before anything is sent. Its key counts as denied.
    pub(super) fn denial_of_lost_slot(&self, checks: &Checks, slots: &Slots) -> Option<Outcome> {
        let is_lost = |slot: u16| self.connection.availability(Some(slot)).rejects();
        let lost = checks.iter().zip(slots).filter(|(_, slot)| is_lost(**slot));
        let denied = self.denial_in_outage(&together(lost.map(|(check, _)| check.clone()))?)?;
        denied.checks().iter().for_each(|check| self.recently_denied.insert(check.key));
        Some(denied)
    }
}

/// The task was cancelled, for example because the runtime has ended.
fn cancelled() -> StoreError {
    StoreError::new(StoreErrorKind::TimedOut, "the decision was cancelled")
}
