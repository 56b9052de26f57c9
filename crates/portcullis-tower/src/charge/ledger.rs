//! What has become of a charge since the request was admitted.

use std::iter::Peekable;
use std::sync::{Mutex, MutexGuard, PoisonError};

use portcullis_core::{Checks, Decision, Outcome, Receipt};

use super::{ChargeError, Standing};

/// Empty, and without anything on the heap, until a handler does something.
#[derive(Default)]
pub(super) struct ChargeLedger(Mutex<Option<Vec<Page>>>);

/// One policy.
struct Page {
    decision: Decision,
    /// What was charged, from the admission on, until it is settled: one receipt, and one more for each stand-in that was
    /// charged while the store could not answer.
    receipts: Vec<Receipt>,
    settled: bool,
}

impl Page {
    /// The next receipt, if it is of this policy: one that nobody counts has none.
    fn own(&self, receipts: &mut Peekable<impl Iterator<Item = Receipt>>) -> Option<Receipt> {
        receipts.next_if(|receipt| receipt.policy().name() == self.decision.policy())
    }

    /// However often more is charged, one call is enough to settle it.
    fn add(&mut self, mut receipt: Receipt) {
        for held in &mut self.receipts {
            match held.absorb(receipt) {
                None => return,
                Some(charged_elsewhere) => receipt = charged_elsewhere,
            }
        }
        self.receipts.push(receipt);
    }
}

/// What there is to settle under one policy.
pub(super) struct Entry {
    pub(super) index: usize,
    receipts: Vec<Receipt>,
    /// To settle from where nothing was charged.
    blank: Option<Receipt>,
}

impl Entry {
    /// What is to be settled to what, for `cost` to be charged in the end: only the difference is moved, so what is to stay
    /// charged is charged at any time in between.
    pub(super) fn corrections(mut self, cost: u32) -> Vec<(Receipt, u32)> {
        let charged = self.receipts.iter().map(|receipt| u64::from(receipt.cost())).sum::<u64>();
        if let Some(missing) = u64::from(cost).checked_sub(charged).filter(|missing| *missing > 0) {
            let missing = u32::try_from(missing).unwrap_or(u32::MAX);
            return self
                .receipts
                .pop()
                .or(self.blank)
                .map(|receipt| (receipt.cost().saturating_add(missing), receipt))
                .map(|(whole, receipt)| vec![(receipt, whole)])
                .unwrap_or_default();
        }
        let mut surplus = charged.saturating_sub(cost.into());
        let mut corrections = Vec::new();
        // The newest first: the state holds it longest.
        while surplus > 0
            && let Some(receipt) = self.receipts.pop()
        {
            let less = receipt.cost().min(u32::try_from(surplus).unwrap_or(u32::MAX));
            surplus = surplus.saturating_sub(less.into());
            let rest = receipt.cost().saturating_sub(less);
            corrections.push((receipt, rest));
        }
        corrections
    }
}

impl ChargeLedger {
    pub(super) fn with_current<T>(
        &self,
        standing: &Standing,
        only: Option<usize>,
        read: impl FnOnce(&Decision) -> T,
    ) -> T {
        let pages = self.lock();
        match (&*pages, only) {
            (None, None) => read(standing.decision()),
            // Where nothing is counted, nothing changes.
            (Some(_), None) if matches!(standing, Standing::Degraded(_)) => read(standing.decision()),
            (None, Some(index)) => read(&standing.decisions()[index]),
            (Some(pages), Some(index)) => read(&pages[index].decision),
            (Some(pages), None) => {
                let decisions = pages.iter().map(|page| &page.decision);
                read(Decision::decisive(decisions).expect("something was decided"))
            }
        }
    }

    /// Whether a decision is degraded, also if it is not the one that counts.
    pub(super) fn is_degraded(&self, standing: &Standing) -> bool {
        match &*self.lock() {
            None => standing.decisions().iter().any(Decision::is_degraded),
            Some(pages) => pages.iter().any(|page| page.decision.is_degraded()),
        }
    }

    pub(super) fn decisions(&self, standing: &Standing, only: Option<usize>) -> Vec<Decision> {
        let mut decisions: Vec<_> = match &*self.lock() {
            None => standing.decisions().to_vec(),
            Some(pages) => pages.iter().map(|page| page.decision.clone()).collect(),
        };
        if let Some(index) = only {
            decisions = vec![decisions.swap_remove(index)];
        }
        decisions
    }

    /// The question to ask for more, and the policies it is about: those under which the request was counted. `None` if
    /// there are none.
    pub(super) fn more(
        &self,
        standing: &Standing,
        only: Option<usize>,
        units: u32,
    ) -> Result<Option<(Vec<usize>, Checks)>, ChargeError> {
        let Standing::Decided(outcome) = standing else { return Ok(None) };
        let mut pages = self.lock();
        let pages = open(&mut pages, standing);
        let mut question = None::<(Vec<usize>, Checks)>;
        for (index, check) in outcome.checks().iter().enumerate() {
            if only.is_some_and(|only| only != index) || standing.check(index).is_none() {
                continue;
            }
            if pages[index].settled {
                return Err(ChargeError::Settled);
            }
            let (policy, key) = (check.policy.clone(), check.key);
            question = Some(match question {
                None => (vec![index], Checks::one(policy, key, units)),
                Some((mut indexes, checks)) => {
                    indexes.push(index);
                    (indexes, checks.and(policy, key, units).expect("they went together before"))
                }
            });
        }
        Ok(question)
    }

    /// Writes down what came of asking for more.
    ///
    /// # Errors
    ///
    /// If it comes too late: what was charged meanwhile, which is to be given back, and the policies it is about.
    pub(super) fn add(
        &self,
        standing: &Standing,
        indexes: Vec<usize>,
        outcome: Outcome,
    ) -> Result<(), Vec<(usize, Receipt)>> {
        let mut pages = self.lock();
        let pages = open(&mut pages, standing);
        if indexes.iter().any(|index| pages[*index].settled) {
            let indexes = indexes.into_iter();
            let mut receipts = outcome.into_receipts().peekable();
            return Err(indexes
                .filter_map(|index| Some((index, pages[index].own(&mut receipts)?)))
                .collect());
        }
        // A denial of this question is not how the request was decided.
        if outcome.is_allowed() {
            for (index, decision) in indexes.iter().zip(outcome.decisions()) {
                pages[*index].decision = decision.clone();
            }
        }
        let mut receipts = outcome.into_receipts().peekable();
        for index in indexes {
            if let Some(receipt) = pages[index].own(&mut receipts) {
                pages[index].add(receipt);
            }
        }
        Ok(())
    }

    /// Takes all receipts, which nobody can do a second time.
    pub(super) fn close(&self, standing: &Standing, only: Option<usize>) -> Result<Vec<Entry>, ChargeError> {
        let mut pages = self.lock();
        let pages = open(&mut pages, standing);
        let entries: Vec<_> = pages
            .iter_mut()
            .enumerate()
            .filter(|(index, page)| !page.settled && only.is_none_or(|only| only == *index))
            .map(|(index, page)| {
                page.settled = true;
                let receipts = std::mem::take(&mut page.receipts);
                let check = standing.check(index).filter(|_| receipts.is_empty());
                let blank = check.map(|check| {
                    Receipt::blank(check.policy.clone(), check.key, page.decision.at())
                        .charged_by(standing.stand_in(index))
                });
                Entry { index, receipts, blank }
            })
            .collect();
        if entries.is_empty() { Err(ChargeError::Settled) } else { Ok(entries) }
    }

    pub(super) fn update(&self, standing: &Standing, index: usize, decision: Decision) {
        open(&mut self.lock(), standing)[index].decision = decision;
    }

    /// Pages are whole between any two statements, so a panic elsewhere spoils nothing.
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Page>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open<'a>(pages: &'a mut Option<Vec<Page>>, standing: &Standing) -> &'a mut Vec<Page> {
    pages.get_or_insert_with(|| {
        let receipts: Vec<_> = match standing {
            Standing::Decided(outcome) => outcome.clone().into_receipts().collect(),
            Standing::Degraded(_) => Vec::new(),
        };
        let mut receipts = receipts.into_iter().peekable();
        let page = |decision: &Decision| Page {
            decision: decision.clone(),
            receipts: receipts
                .next_if(|receipt| receipt.policy().name() == decision.policy())
                .into_iter()
                .collect(),
            settled: false,
        };
        standing.decisions().iter().map(page).collect()
    })
}
