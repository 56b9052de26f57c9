//! Records what was charged and refunded since the request was admitted.

use std::iter::Peekable;
use std::sync::{Mutex, MutexGuard, PoisonError};

use portcullis_core::store::{Checks, Outcome};
use portcullis_core::{Decision, Receipt};
use smallvec::SmallVec;

use super::{ChargeBasis, ChargeError, Charged, ChargedCheck};
use crate::limit::is_in_flight;
use crate::limit::rate::Rate;

/// Empty, without a heap allocation, until a handler changes the charge.
#[derive(Debug, Default)]
pub struct ChargeLedger(Mutex<Option<Entries>>);

/// The state of the charge under each policy. The decisions are apart, so that they are read like those at the admission.
#[derive(Debug)]
struct Entries {
    decisions: Vec<Decision>,
    policies: Vec<PolicyEntry>,
}

/// The receipts of the charge under one policy.
#[derive(Debug)]
struct PolicyEntry {
    /// The receipts of all charges since the admission, until they are settled: one, and one more for each fallback that was
    /// charged while the store could not answer, and for each other rate, up to [`MAX_RATES`].
    receipts: Vec<Receipt>,
    settled: bool,
}

impl PolicyEntry {
    /// Merges a receipt into a held one where possible, so that one call settles any number of charges.
    fn add(&mut self, mut receipt: Receipt) {
        if self.receipts.len() >= MAX_RATES
            && let Some(newest) = self.receipts.pop()
        {
            // At the higher rate, so that a refund frees no more than was charged.
            let is_slower = Rate::of(newest.policy()) > Rate::of(receipt.policy());
            let (newest, other) = if is_slower {
                (newest.with_policy(receipt.policy()), receipt)
            } else {
                let policy = newest.policy().clone();
                (newest, receipt.with_policy(&policy))
            };
            receipt = other;
            self.receipts.push(newest);
        }
        // A refund frees each unit at the rate at which it was charged.
        let rate = Rate::of(receipt.policy());
        let of_same_rate = self.receipts.iter_mut().filter(|held| Rate::of(held.policy()) == rate);
        for held in of_same_rate {
            match held.absorb(receipt) {
                None => return,
                Some(charged_elsewhere) => receipt = charged_elsewhere,
            }
        }
        self.receipts.push(receipt);
    }
}

/// The receipts from which on those of another rate are merged with the newest.
const MAX_RATES: usize = 8;

/// Takes the next receipt, if it is for the policy of a decision. A policy that did not count the request has none.
fn take_own(decision: &Decision, receipts: &mut Peekable<impl Iterator<Item = Receipt>>) -> Option<Receipt> {
    receipts.next_if(|receipt| receipt.policy().name() == decision.policy())
}

/// The receipts to settle under one policy.
#[derive(Debug)]
pub struct Correction {
    /// The index of the decision of the policy.
    pub index: usize,
    receipts: Vec<Receipt>,
    /// The receipt to settle upwards where nothing was charged.
    blank: Option<Receipt>,
}

impl Correction {
    /// The units that are charged, until they are settled.
    pub fn charged(&self) -> u64 {
        self.receipts.iter().map(Receipt::cost).fold(0, u64::saturating_add)
    }

    /// Keeps slots in the middle of a queue: freed, they would let two requests proceed at once.
    #[must_use]
    pub fn keeping_slots(mut self) -> Self {
        let keeping = |receipt: Receipt| {
            if receipt.policy().strategy().queues() { receipt.if_newest() } else { receipt }
        };
        self.receipts = self.receipts.into_iter().map(keeping).collect();
        self
    }

    /// Returns the receipts to settle, each with its new cost, so that `cost` is charged in the end. Only the difference is
    /// moved, so that the units that stay charged are charged at any time in between.
    pub fn receipts_to_settle(mut self, cost: u64) -> Vec<(Receipt, u64)> {
        let charged = self.charged();
        if let Some(missing) = cost.checked_sub(charged).filter(|missing| *missing > 0) {
            return self
                .receipts
                .pop()
                .or(self.blank)
                .map(|receipt| (receipt.cost().saturating_add(missing), receipt))
                .map(|(whole, receipt)| vec![(receipt, whole)])
                .unwrap_or_default();
        }
        let mut surplus = charged.saturating_sub(cost);
        let mut corrections = Vec::new();
        // The newest charge first, because the state holds it longest.
        while surplus > 0
            && let Some(receipt) = self.receipts.pop()
        {
            let less = receipt.cost().min(surplus);
            surplus = surplus.saturating_sub(less);
            let rest = receipt.cost().saturating_sub(less);
            corrections.push((receipt, rest));
        }
        corrections
    }
}

impl ChargeLedger {
    /// Forgets all, for another charge.
    #[inline]
    pub fn clear(&mut self) {
        let entries = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if entries.is_some() {
            *entries = None;
        }
    }

    /// The current decision under one policy, or the decisive one.
    pub fn decision(&self, basis: Charged<'_>, only: Option<usize>) -> Decision {
        let entries = self.lock();
        let decision = match only {
            None => decisive(entries.as_ref(), basis),
            Some(index) => &current(entries.as_ref(), basis)[index],
        };
        decision.clone()
    }

    /// Reads the current decisive decision, and all current decisions.
    pub fn with_decisions(&self, basis: Charged<'_>, read: impl FnOnce(&Decision, &[Decision])) {
        let entries = self.lock();
        let entries = entries.as_ref();
        read(decisive(entries, basis), current(entries, basis));
    }

    /// Like [`with_decisions`](Self::with_decisions), but without a lock, for a charge that no clone can change.
    pub fn with_decisions_unshared(&mut self, basis: Charged<'_>, read: impl FnOnce(&Decision, &[Decision])) {
        let entries = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).as_ref();
        read(decisive(entries, basis), current(entries, basis));
    }

    /// The current decisions of all policies, or `only` of the one at this index.
    pub fn decisions(&self, basis: Charged<'_>, only: Option<usize>) -> Vec<Decision> {
        let mut decisions = current(self.lock().as_ref(), basis).to_vec();
        if let Some(index) = only {
            decisions = vec![decisions.swap_remove(index)];
        }
        decisions
    }

    /// Returns the checks for `units` more, under the policies that were charged, and the indexes of those, which are the ones that
    /// counted the request. `None` if there are none.
    ///
    /// # Errors
    ///
    /// [`ChargeError::Settled`] if the charge of one of the policies is settled.
    ///
    /// # Panics
    ///
    /// Panics if `basis` is not the one of this charge.
    pub fn checks_for_more(
        &self,
        basis: Charged<'_>,
        only: Option<usize>,
        units: u64,
    ) -> Result<Option<(Vec<usize>, Checks)>, ChargeError> {
        if basis.checks().next().is_none() {
            return Ok(None);
        }
        let mut entries = self.lock();
        let entries = entries_mut(&mut entries, basis);
        let (mut indexes, mut charged) = (Vec::new(), SmallVec::<[ChargedCheck<'_>; 2]>::new());
        for (index, check) in basis.checks().enumerate() {
            if only.is_some_and(|only| only != index) || basis.check(index).is_none() {
                continue;
            }
            if entries.policies[index].settled {
                return Err(ChargeError::Settled);
            }
            indexes.push(index);
            charged.push(check);
        }
        Ok(ChargedCheck::again(&charged, units).map(|checks| (indexes, checks)))
    }

    /// Records the outcome of a later charge.
    ///
    /// # Errors
    ///
    /// If the charge was settled meanwhile: the receipts to refund, each with the index of its policy.
    pub fn record(
        &self,
        basis: Charged<'_>,
        indexes: Vec<usize>,
        outcome: Outcome,
    ) -> Result<(), Vec<(usize, Receipt)>> {
        let mut entries = self.lock();
        let Entries { decisions, policies } = entries_mut(&mut entries, basis);
        if indexes.iter().any(|index| policies[*index].settled) {
            let indexes = indexes.into_iter();
            let mut receipts = outcome.into_receipts().peekable();
            return Err(indexes
                .filter_map(|index| Some((index, take_own(&decisions[index], &mut receipts)?)))
                .collect());
        }
        // A denial of the later charge does not change the decision about the request.
        if outcome.is_allowed() {
            for (index, decision) in indexes.iter().zip(outcome.decisions()) {
                decisions[*index] = decision.clone();
            }
        }
        let mut receipts = outcome.into_receipts().peekable();
        for index in indexes {
            if let Some(receipt) = take_own(&decisions[index], &mut receipts) {
                policies[index].add(receipt);
            }
        }
        Ok(())
    }

    /// Records a later charge of which each policy stands by itself, as [`add`](Self::add) does: under a policy that is settled the units
    /// stay charged.
    pub fn add_each(&self, basis: Charged<'_>, outcome: Outcome) {
        let decisions = outcome.decisions().to_vec();
        let mut receipts = outcome.into_receipts().peekable();
        for decision in decisions {
            let receipt = take_own(&decision, &mut receipts);
            self.add(basis, receipt, decision);
        }
    }

    /// Records the current decision under one policy of the charge, and a receipt unless the charge is settled under it.
    pub fn add(&self, basis: Charged<'_>, receipt: Option<Receipt>, decision: Decision) {
        let mut entries = self.lock();
        let Entries { decisions, policies } = entries_mut(&mut entries, basis);
        let known = decisions.iter().position(|known| known.policy() == decision.policy());
        let Some(index) = known else { return };
        decisions[index] = decision;
        if let Some(receipt) = receipt
            && !policies[index].settled
        {
            policies[index].add(receipt);
        }
    }

    /// Takes all receipts, once: the charge is settled afterwards.
    ///
    /// # Errors
    ///
    /// [`ChargeError::Settled`] if the charge is settled already.
    pub fn close(&self, basis: Charged<'_>, only: Option<usize>) -> Result<Vec<Correction>, ChargeError> {
        let mut entries = self.lock();
        let Entries { decisions, policies } = entries_mut(&mut entries, basis);
        let corrections: Vec<_> = policies
            .iter_mut()
            .zip(decisions.iter())
            .enumerate()
            .filter(|(index, (entry, _))| !entry.settled && only.is_none_or(|only| only == *index))
            .map(|(index, (entry, decision))| {
                entry.settled = true;
                let receipts = std::mem::take(&mut entry.receipts);
                let check = basis.check(index).filter(|_| receipts.is_empty());
                let blank = check.map(|check| {
                    Receipt::blank(check.policy.clone(), check.key, decision.at())
                        .charged_by(basis.charged_by(index))
                });
                Correction { index, receipts, blank }
            })
            .collect();
        if corrections.is_empty() { Err(ChargeError::Settled) } else { Ok(corrections) }
    }

    /// Replaces the current decision of the policy at `index`.
    pub fn update(&self, basis: Charged<'_>, index: usize, decision: Decision) {
        entries_mut(&mut self.lock(), basis).decisions[index] = decision;
    }

    /// The entries are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Option<Entries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The current decisions.
fn current<'a>(entries: Option<&'a Entries>, basis: Charged<'a>) -> &'a [Decision] {
    entries.map_or(basis.basis.decisions(), |entries| entries.decisions.as_slice())
}

fn decisive<'a>(entries: Option<&'a Entries>, basis: Charged<'a>) -> &'a Decision {
    match (entries, basis.basis) {
        // A request that nothing counts has no figures that could change.
        (None, _) | (Some(_), ChargeBasis::Degraded(_)) => basis.basis.decision(),
        (Some(entries), ChargeBasis::Decided(_) | ChargeBasis::Single(..)) => {
            Decision::decisive(&entries.decisions).expect("something was decided")
        }
    }
}

fn entries_mut<'a>(entries: &'a mut Option<Entries>, basis: Charged<'_>) -> &'a mut Entries {
    entries.get_or_insert_with(|| {
        let receipts = basis.outcome().into_iter().flat_map(Outcome::into_receipts);
        let mut receipts = receipts.filter(|receipt| !is_in_flight(receipt.policy())).peekable();
        let entry = |decision: &Decision| PolicyEntry {
            receipts: take_own(decision, &mut receipts).into_iter().collect(),
            settled: false,
        };
        let decisions = basis.basis.decisions();
        Entries { decisions: decisions.to_vec(), policies: decisions.iter().map(entry).collect() }
    })
}
