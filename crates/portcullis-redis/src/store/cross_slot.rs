//! A decision over keys in several slots of a cluster.
//!
//! Each slot is asked by one call, all at once. If one of them denies, what the others have charged is given back. No key
//! ever admits more than its policy: a unit is charged before a request is let through. While the decision is under way,
//! what may be given back counts as used: others can be denied that would have fitted, by as many units as such decisions
//! hold at that instant.
//!
//! So that a caller cannot hold what others share by requests that its own limit denies, the slots of its own keys that were
//! denied [lately](denied_lately::LATELY) are asked first, and the others only if these admit. What such a caller can hold is
//! its calls that were under way when it was first denied.
//!
//! If a slot fails, the others go on limiting. A denial stands, whatever has failed. Else the checks of the failed slots are
//! decided as their policies say: passed if they are open, or decided in memory by the [standby](Standby), all of them or none;
//! if it denies, or a policy is closed, what the slots have charged is given back. If too much was asked of a slot, which is no
//! outage, the decision is rejected.
//!
//! A decision runs to its end in a task of its own. If its caller has gone by then, no request was let through, and all is
//! given back: else a client that asks and hangs up could use up, by requests that one key denies, the limits of all the
//! others.

mod denied_lately;
mod partial;
mod slots;

use std::sync::Arc;

use portcullis_core::{
    Check, CheckResult, Checks, Outcome, Position, Refund, Run, Standby, StoreError, StoreErrorKind,
    Timestamp,
};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

pub(crate) use self::denied_lately::DeniedLately;
use self::partial::PartialOutcome;
use self::slots::{SlotGroup, in_order};
use super::{Answers, Inner, RedisStore};
use crate::keys::slot;
use crate::wire::Operation;

/// Calls to slots that are under way.
type Calls = JoinSet<(SlotGroup, Result<Answers, StoreError>)>;

/// What is given back, by its place in the decision.
type Refunds = JoinSet<(usize, Result<(Timestamp, CheckResult), StoreError>)>;

/// The caller that waits for a decision, as long as it does.
type Caller = oneshot::Sender<Result<Outcome, StoreError>>;

impl RedisStore {
    /// Whether the keys of a decision live in more than one slot.
    pub(super) fn span_slots(&self, checks: &Checks) -> bool {
        let mut keys = checks.iter().map(|check| check.key);
        let Some(first) = keys.next() else { return false };
        // The same hash tag is the same slot, without a look at it.
        keys.any(|key| key.slot() != first.slot() && slot(key) != slot(first))
            && self.0.connection.is_cluster()
    }

    /// Decides within one deadline.
    ///
    /// # Cancel safety
    /// A decision whose caller goes away before it is told charges nothing.
    pub(super) async fn decide_cross_slot(
        self,
        checks: Checks,
        standby: Option<Arc<dyn Standby>>,
    ) -> Result<Outcome, StoreError> {
        let (caller, told) = oneshot::channel();
        tokio::spawn(self.decide_for(caller, PartialOutcome::new(checks, standby)));
        told.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn decide_for(self, caller: Caller, mut partial: PartialOutcome) {
        if caller.is_closed() {
            return;
        }
        let end = Instant::now() + self.0.connection.deadline();
        let late = self.ask_all(&mut partial, end).await;
        if partial.passes() {
            if !self.tell(caller, &partial) {
                self.give_back(&mut partial).join_all().await;
            }
        } else {
            let mut refunds = self.give_back(&mut partial);
            while let Ok(Some(refund)) = timeout_at(end, refunds.join_next()).await {
                if let Ok((place, Ok((at, standing)))) = refund {
                    partial.given_back(place, at, standing);
                }
            }
            // Whether the caller still listens makes no difference any more.
            self.tell(caller, &partial);
            refunds.join_all().await;
        }
        self.give_back_late(&partial, late).await;
    }

    /// Returns whether the caller was still there.
    fn tell(&self, caller: Caller, partial: &PartialOutcome) -> bool {
        let answer = partial.answer();
        let answer = answer.or_else(|error| self.0.denied_instead(partial.checks(), &error).ok_or(error));
        partial.note(&answer);
        caller.send(answer).is_ok()
    }

    /// Asks the slots, those of keys that were denied lately before the others. Returns the calls that take longer than until
    /// `end`: the decision does not wait for them.
    async fn ask_all(&self, partial: &mut PartialOutcome, end: Instant) -> Calls {
        let [first, rest] = in_order(partial.checks(), |key| self.0.denied_lately.contains(key));
        // Their own deadline is that of the decision.
        let (missing, calls) = self.ask_each(partial, first, None).await;
        for part in missing {
            partial.failed(&part, &gone());
        }
        partial.decide_missing();
        self.note_denied(partial);
        if rest.is_empty() || partial.is_over() {
            return calls;
        }
        let (missing, calls) = self.ask_each(partial, rest, Some(end)).await;
        for part in missing {
            partial.failed(&part, &self.too_late(&part));
        }
        partial.decide_missing();
        self.note_denied(partial);
        calls
    }

    /// One call per slot, all at once. Returns the slots without an answer by `end`, and the calls to them.
    async fn ask_each(
        &self,
        partial: &mut PartialOutcome,
        mut parts: Vec<SlotGroup>,
        end: Option<Instant>,
    ) -> (Vec<SlotGroup>, Calls) {
        let (mut calls, asked) = (JoinSet::new(), Instant::now());
        if end.is_some_and(|end| end <= asked) {
            return (parts, calls);
        }
        for part in parts.clone() {
            let (store, checks) = (self.clone(), partial.checks().clone());
            calls.spawn(async move {
                let own = part.places.iter().filter_map(|place| checks.iter().nth(*place));
                let answer = store.0.ask(&checks, own).await;
                (part, answer)
            });
        }
        loop {
            let next = match end {
                Some(end) => timeout_at(end, calls.join_next()).await.ok().flatten(),
                None => calls.join_next().await,
            };
            let Some(answer) = next else { return (parts, calls) };
            // A task that was stopped leaves its slot among those without an answer.
            let Ok((part, answer)) = answer else { continue };
            match answer {
                Ok(answers) => {
                    let own = part.places.iter().filter_map(|place| partial.checks().iter().nth(*place));
                    self.0.remember(partial.checks(), own.zip(&answers), asked);
                    partial.answered(&part, answers);
                    // Now, and not when all have answered: what begins meanwhile asks in another order already.
                    self.note_denied(partial);
                }
                Err(error) => partial.failed(&part, &error),
            }
            parts.retain(|asked| *asked != part);
        }
    }

    fn note_denied(&self, partial: &PartialOutcome) {
        partial.denied_keys().for_each(|key| self.0.denied_lately.note(key));
    }

    /// Why a slot has no answer for which the decision had less than the whole deadline: it is overloaded, unless it is known
    /// to answer nobody.
    fn too_late(&self, part: &SlotGroup) -> StoreError {
        const MESSAGE: &str = "redis gave no reply before the end of a decision over several slots";
        match self.0.connection.outage(Some(part.slot)) {
            Some(outage) => StoreError::new(StoreErrorKind::TimedOut, MESSAGE).lasting(outage),
            None => StoreError::new(StoreErrorKind::Overtaken, MESSAGE),
        }
    }

    /// Begins to give back what was charged, at the slots and by the standby. Where a refund fails the charge stays, at most
    /// until it expires.
    fn give_back(&self, partial: &mut PartialOutcome) -> Refunds {
        partial.give_back_local();
        let mut refunds = JoinSet::new();
        for (place, check, position) in partial.charged() {
            let store = self.clone();
            refunds.spawn(async move { (place, store.refund_at(&check, position).await) });
        }
        refunds
    }

    /// Gives back what was charged by calls whose answers came when the decision was made already.
    async fn give_back_late(&self, partial: &PartialOutcome, mut late: Calls) {
        while let Some(answer) = late.join_next().await {
            let Ok((part, Ok(answers))) = answer else { continue };
            if !answers.iter().all(|(_, standing)| standing.admitted) {
                continue;
            }
            for (place, (_, standing)) in part.places.into_iter().zip(answers) {
                if let Some(check) = partial.checks().iter().nth(place).filter(|check| check.cost > 0) {
                    drop(self.refund_at(check, standing.position).await);
                }
            }
        }
    }

    async fn refund_at(
        &self,
        check: &Check,
        position: Position,
    ) -> Result<(Timestamp, CheckResult), StoreError> {
        let mut attempts = 0;
        loop {
            let answer = self.0.refund(check, position).await;
            attempts += 1;
            match answer {
                // It was certainly not sent, because too much waits in this process: units of others are at stake.
                Err(error) if error.kind() == StoreErrorKind::Overloaded && attempts < MOST_ATTEMPTS => {
                    sleep(self.0.connection.deadline()).await;
                }
                answer => return answer,
            }
        }
    }
}

impl Inner {
    async fn refund(
        &self,
        check: &Check,
        position: Position,
    ) -> Result<(Timestamp, CheckResult), StoreError> {
        let runs = [Run { units: check.cost, position }];
        let operation = Operation::Refund(Refund::of(&runs));
        let mut reply = self.change(operation, check).await?;
        let at = reply.at()?;
        let (_, kept) = self.kept(&mut reply, check, at)?;
        Ok((at, kept.standing(at, check.cost, true)))
    }
}

/// The task was stopped, as when the runtime ends.
fn gone() -> StoreError {
    StoreError::new(StoreErrorKind::TimedOut, "the decision was stopped half-way")
}

/// How often a refund is tried that finds no room in this process.
const MOST_ATTEMPTS: u32 = 5;
