//! Decisions that need a call although a policy has a lease.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::lease::Answer;
use portcullis_core::store::{
    Check, CheckResult, Checks, Outcome, Position, ServerResult, Standby, StoreFuture,
};
use portcullis_core::{Receipt, StoreError, StoreErrorKind, Timestamp};
use smallvec::SmallVec;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::super::RedisStore;
use super::super::answers::{together, under_grants_of, with_grants};
use super::own_costs::OwnCosts;
use super::{Payment, Payments};
use crate::transport::Transport as _;

/// A decision of which some checks are made by the store. Until it is finished, dropping it undoes what was spent for it.
struct Trip {
    store: RedisStore,
    checks: Checks,
    payments: Payments,
    /// Before the call is sent.
    sent: Duration,
    /// The end of its deadline, if another call has used a part of it.
    end: Option<Instant>,
    is_finished: bool,
}

impl RedisStore {
    /// Decides, after [`pay`](super::Leases::pay) has paid what it could from leases, until `end` if it has less than a whole deadline.
    pub(in crate::store) fn start_leased(
        &self,
        checks: Checks,
        payments: Payments,
        standby: Option<Arc<dyn Standby>>,
        end: Option<Instant>,
    ) -> StoreFuture<Outcome> {
        if payments.iter().all(|payment| matches!(payment, Payment::Spent(_))) {
            self.0.connection.stats().count_lease_hit();
            let spent = payments.iter().filter_map(Payment::spent);
            let outcome = Outcome::leased(checks, spent.map(|(spend, result)| (spend.at, result)));
            return StoreFuture::ready(Ok(outcome.expect("every check is paid")));
        }
        if let [Payment::Wait(call)] = payments[..] {
            return StoreFuture::boxed(self.clone().decide_after_answer(checks, call, standby));
        }
        let sent = self.0.leases.now();
        let trip = Trip { store: self.clone(), checks, payments, sent, end, is_finished: false };
        if trip.asks() {
            StoreFuture::boxed(trip.detached(standby))
        } else {
            StoreFuture::boxed(trip.run(standby))
        }
    }

    /// Refunds the charges of a request that was not admitted, because its client has gone away.
    async fn refund_unused(&self, outcome: Outcome, standby: Option<&dyn Standby>) {
        let receipts: Vec<Receipt> = outcome.into_receipts().collect();
        for receipt in receipts {
            match standby {
                Some(standby) if receipt.fallback_id().is_some() => standby.refund(receipt),
                _ if self.refund_to_lease(&receipt, 0).is_some() => {}
                _ => self.refund_charge(&receipt).await,
            }
        }
    }
}

impl Trip {
    /// Runs in a task of its own. Otherwise a client that disconnects would leave the units for a lease charged and unused.
    ///
    /// # Cancel safety
    /// If it is dropped before it is ready, the costs of the request are refunded, as for any decision over several slots.
    async fn detached(self, standby: Option<Arc<dyn Standby>>) -> Result<Outcome, StoreError> {
        let (caller, answer) = oneshot::channel();
        let (store, used) = (self.store.clone(), standby.clone());
        tokio::spawn(async move {
            let unused = caller.send(self.run(standby).await);
            if let Err(Ok(outcome)) = unused {
                store.refund_unused(outcome, used.as_deref()).await;
            }
        });
        let cancelled = || StoreError::new(StoreErrorKind::TimedOut, "the decision was cancelled");
        answer.await.unwrap_or_else(|_| Err(cancelled()))
    }

    async fn run(mut self, standby: Option<Arc<dyn Standby>>) -> Result<Outcome, StoreError> {
        let start = Instant::now();
        // The standby decides about the costs of the request.
        let for_rest = match standby.clone() {
            Some(standby) if self.asks() => Some(OwnCosts::of(standby, self.checks.clone())),
            standby => standby,
        };
        // A reply to a call that charges units for a lease is of use after the deadline of its request.
        let end = self.end.filter(|_| !self.asks());
        let mut outcome = self.store.start_exact(self.rest(), for_rest, end).await?;
        if self.is_denied_for_lease(&outcome) {
            self.ask_no_more(&outcome);
            outcome = self.repeat(standby, start).await?;
        }
        Ok(if outcome.is_allowed() { self.admitted(&outcome) } else { self.denied(outcome) })
    }

    /// Decides once more, with the request's own costs and within the deadline of the first call, which has charged nothing.
    async fn repeat(&self, standby: Option<Arc<dyn Standby>>, start: Instant) -> Result<Outcome, StoreError> {
        let deadline = self.store.0.connection.deadline();
        let end = self.end.unwrap_or_else(|| start + deadline);
        if Instant::now() < end {
            let exact = self.store.start_exact(self.rest(), standby.clone(), Some(end));
            // Beyond its deadline the call finds out whether there is an outage.
            if let Ok(answer) = timeout_at(end + deadline, exact).await {
                return answer;
            }
        }
        self.store.decide_late(standby.as_deref(), self.rest(), (start, true))
    }

    /// Whether the call charges units for a lease.
    fn asks(&self) -> bool {
        self.payments.iter().any(|payment| matches!(payment, Payment::Ask(1..)))
    }

    /// The checks that the store makes, with the units for leases.
    fn rest(&self) -> Checks {
        let rest = self.checks.iter().zip(&self.payments).filter_map(|(check, payment)| {
            let units = match payment {
                Payment::Spent(_) => return None,
                Payment::Ask(units) => *units,
                Payment::Wait(_) | Payment::Store => 0,
            };
            Some(Check { cost: check.cost.saturating_add(units), ..check.clone() })
        });
        together(rest).expect("a decision that is paid from leases needs no call")
    }

    /// Whether a check is denied at a cost that includes units for a lease.
    fn is_denied_for_lease(&self, outcome: &Outcome) -> bool {
        let mut payments = self.checks.iter().zip(&self.payments);
        payments.any(|(check, payment)| matches!(payment, Payment::Ask(1..)) && is_denied(outcome, check))
    }

    /// The outcome of a request that the store, or a standby, admits together with what was spent.
    fn admitted(&mut self, rest: &Outcome) -> Outcome {
        self.is_finished = true;
        let outcome = self.joined(rest, true);
        self.start_returns();
        outcome
    }

    /// The outcome of a request that is denied: nothing is charged, and what was spent is put back.
    fn denied(&mut self, rest: Outcome) -> Outcome {
        self.give_up();
        // Such a denial names the policy that denies and no other.
        if rest.is_remembered() { rest } else { self.joined(&rest, false) }
    }

    /// Joins the answers of the store, or a standby, with what was spent, and records them for the leases.
    fn joined(&self, rest: &Outcome, is_admitted: bool) -> Outcome {
        let mut answers = rest.results().zip(rest.decisions());
        let mut results: SmallVec<[ServerResult<'_>; 2]> = SmallVec::new();
        for (check, payment) in self.checks.iter().zip(&self.payments) {
            if let Some((spend, result)) = payment.spent() {
                results.push(ServerResult::Store(spend.at, result));
                continue;
            }
            let (mut result, decision) = answers.next().expect("the store answers every check");
            // Otherwise the standby has answered, or the check passes unmetered.
            let is_stores = decision.is_metered() && !decision.is_degraded();
            match payment {
                Payment::Ask(units @ 1..) if is_admitted && is_stores => {
                    result.position = self.grant(check, *units, decision.at(), &result);
                }
                Payment::Ask(1..) if is_admitted => self.store.0.leases.not_granted(check, false),
                Payment::Ask(_) | Payment::Wait(_) if is_stores => {
                    self.store.0.leases.answered(check, decision.at(), result.snapshot);
                }
                _ => {}
            }
            results.push(if is_stores {
                ServerResult::Store(decision.at(), result)
            } else if decision.is_degraded() {
                ServerResult::Standby(rest)
            } else {
                ServerResult::NotAsked
            });
        }
        let (checks, grants) = under_grants_of(rest, self.checks.clone());
        let outcome = Outcome::partial(checks, results, rest.failure().cloned());
        with_grants(outcome.expect("only a failed server is replaced by a standby"), &grants)
    }

    /// Adds units to the lease of a check. Returns the position of the request's own cost: before them.
    fn grant(&self, check: &Check, units: u64, at: Timestamp, result: &CheckResult) -> Position {
        let (snapshot, position) = (result.snapshot, result.position);
        self.store.0.leases.granted(check, Answer { units, sent: self.sent, at, snapshot, position });
        check.policy.strategy().position_before(position, units)
    }

    /// Asks for no more units, because the store has denied the call: only the costs of the request are left.
    fn ask_no_more(&mut self, denial: &Outcome) {
        for (check, payment) in self.checks.iter().zip(&mut self.payments) {
            if let Payment::Ask(1..) = payment {
                self.store.0.leases.not_granted(check, is_denied(denial, check));
                *payment = Payment::Ask(0);
            }
        }
    }

    /// Undoes what was spent and asked for.
    fn give_up(&mut self) {
        self.is_finished = true;
        for (check, payment) in self.checks.iter().zip(&self.payments) {
            match payment {
                Payment::Spent(spend) => self.store.0.leases.undo(check, spend),
                Payment::Ask(1..) => self.store.0.leases.not_granted(check, false),
                Payment::Ask(_) | Payment::Wait(_) | Payment::Store => {}
            }
        }
        self.start_returns();
    }

    /// Starts the refunds of what is left of leases, if this decision can have begun a lease or ended one.
    fn start_returns(&self) {
        if self.asks() || self.store.0.leases.has_returns() {
            self.store.start_returns();
        }
    }
}

impl Drop for Trip {
    fn drop(&mut self) {
        if !self.is_finished {
            self.give_up();
        }
    }
}

/// Whether the store has denied a check. A standby decides without the units for leases.
fn is_denied(outcome: &Outcome, check: &Check) -> bool {
    let decided = outcome.checks().iter().zip(outcome.decisions());
    let mut own = decided
        .filter(|(other, _)| other.key == check.key && other.policy.name() == check.policy.name())
        .map(|(_, decision)| decision);
    own.any(|decision| !decision.is_allowed() && !decision.is_degraded())
}
