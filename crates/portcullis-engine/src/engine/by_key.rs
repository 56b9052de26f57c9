//! Charges, refunds and peeks by key, without a request or a receipt.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use portcullis_core::store::{Check, Checks, Outcome, StoreFuture};
use portcullis_core::{Decision, Key, Policy, Receipt, Settlement, Timestamp};

use super::{Limits, report};
use crate::Reason;
use crate::event::{EventKeys, EventKind};
use crate::limit::is_in_flight;

impl Limits {
    /// Charges each key what fits of the units of its check, such as those of a request that is denied although they are used. No debt
    /// is left. `denial` is the answer of the store to these checks if there is one. If the store cannot answer, that is emitted.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped once it was polled, the units are charged all the same, unless too many such tasks run: a caller that
    /// does not wait for the answer has used them.
    pub async fn use_up(self: &Arc<Self>, checks: Checks, denial: Option<Outcome>) {
        if used(&checks, denial.as_ref()).next().is_none() {
            return;
        }
        let limits = Arc::clone(self);
        let using = async move { limits.use_what_is_left(&checks, denial.as_ref()).await };
        #[cfg(feature = "runtime")]
        if let Ok(permit) = self.engine().backlog.task_permit() {
            return drop(permit.spawn(using).await);
        }
        using.await;
    }

    async fn use_what_is_left(&self, checks: &Checks, denial: Option<&Outcome>) {
        let answered = |check: &Check| denial.and_then(|denial| decision_about(denial, check));
        let left: Vec<&Check> = used(checks, denial).collect();
        // A remembered denial leaves out the other checks, and one of a cluster those that were not asked.
        let is_known = denial.is_some_and(|denial| !denial.is_remembered())
            && left.iter().all(|check| answered(check).is_some());
        let peeked = if is_known { None } else { self.peek(Some(peeks(&left))).await };
        let Some(known) = peeked.as_ref().or(denial) else { return };
        let mut pending: Vec<_> = left.iter().filter_map(|check| self.start_use(check, known)).collect();
        poll_fn(|cx| {
            pending.retain_mut(|(check, used)| match Pin::new(used).poll(cx) {
                Poll::Ready(Ok(settlement)) => {
                    report::used_up(self, check.key, check.cost, &settlement);
                    false
                }
                Poll::Ready(Err(error)) => {
                    self.emit_store_state(Some(&error));
                    false
                }
                Poll::Pending => true,
            });
            if pending.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Begins to charge what fits of a check, under the quota and by the store of its answer. `None` if nothing is left.
    fn start_use<'c>(
        &self,
        check: &'c Check,
        known: &Outcome,
    ) -> Option<(&'c Check, StoreFuture<Settlement>)> {
        let (index, decision) = decision_about(known, check)?;
        let policy = &known.checks().iter().nth(index)?.policy;
        let receipt = Receipt::blank(policy.without_debt(), check.key, Timestamp::EPOCH);
        let receipt = receipt.charged_by(known.fallback_id_of(index));
        (decision.remaining() > 0).then(|| (check, self.engine().store().settle(receipt, check.cost)))
    }

    /// Refunds a key these units of the window of now, as far as they are charged. The store is asked for its time first, of which the
    /// window follows. `None` if it cannot answer, which is emitted.
    pub async fn put_back(&self, policy: &Policy, key: Key, units: u64) -> Option<Decision> {
        let peeked = self.peek(Some(Checks::one(policy.clone(), key, 0))).await?;
        let (at, fallback) = (peeked.decision().at(), peeked.fallback_id());
        let units = units.min(policy.strategy().limit());
        if units == 0 {
            return Some(peeked.into_decision());
        }
        let receipt = Receipt::of_window(policy.clone(), key, units, at);
        let refunded = self.refund(receipt.charged_by(fallback)).await;
        report::refunded(self, key, units, &refunded);
        refunded.ok()
    }

    /// What is left under these checks, which charge nothing. `None` if there are none, or if the store cannot answer, which is
    /// emitted.
    pub async fn peek(&self, checks: Option<Checks>) -> Option<Outcome> {
        let answer = self.check(checks?).await;
        report::answered(self, answer.as_ref());
        answer.ok()
    }

    /// Peeks at these checks, and emits that a request is rejected which none of them denies.
    pub async fn reject_beside(&self, checks: Option<Checks>) -> Option<Outcome> {
        let peeked = self.peek(checks.clone()).await;
        let decisions = peeked.as_ref().map(Outcome::decisions).unwrap_or_default();
        let rejected = EventKind::Rejected { reason: Reason::Limited, decisions };
        // By no policy of these.
        let keys = || checks.as_ref().map_or(EventKeys::None, EventKeys::of_checks);
        self.with_policies(Vec::new()).emit(rejected, keys);
        peeked
    }
}

/// The checks of which something may be left, so that a flood of denied reports asks the store no more than one of other requests.
fn used<'c>(checks: &'c Checks, denial: Option<&'c Outcome>) -> impl Iterator<Item = &'c Check> {
    let is_used = |check: &&Check| check.cost > 0 && !is_in_flight(&check.policy);
    checks.iter().filter(is_used).filter(move |check| {
        let decided = denial.and_then(|denial| decision_about(denial, check));
        decided.is_none_or(|(_, decision)| decision.remaining() > 0)
    })
}

/// The decision about a key under a policy, if it has figures, and its index.
fn decision_about<'o>(outcome: &'o Outcome, check: &Check) -> Option<(usize, &'o Decision)> {
    let is_about = |known: &Check| known.is_about(check.policy.name(), check.key);
    let index = outcome.checks().iter().position(is_about)?;
    let decision = outcome.decisions().get(index).filter(|decision| decision.is_metered())?;
    Some((index, decision))
}

/// The checks without their costs.
fn peeks(checks: &[&Check]) -> Checks {
    Checks::of(checks.len(), |index| (&checks[index].policy, checks[index].key, 0))
}
