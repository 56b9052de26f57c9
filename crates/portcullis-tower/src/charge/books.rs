//! What has become of a charge since the request was admitted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use portcullis_core::{Checks, Decision, Outcome, Receipt};

use super::{ChargeError, Standing};

/// Empty, and without anything on the heap, until a handler does something.
#[derive(Default)]
pub(super) struct Books(Mutex<Option<Vec<Page>>>);

/// One policy.
struct Page {
    decision: Decision,
    /// The charge of the admission, until it is settled.
    first: Option<Receipt>,
    /// Charges that were made later.
    more: Vec<Receipt>,
    settled: bool,
}

/// What there is to settle under one policy.
pub(super) struct Entry {
    pub(super) index: usize,
    pub(super) first: Option<Receipt>,
    pub(super) more: Vec<Receipt>,
}

impl Books {
    pub(super) fn with_current<T>(
        &self,
        standing: &Standing,
        only: Option<usize>,
        read: impl FnOnce(&Decision) -> T,
    ) -> T {
        let pages = self.lock();
        match (&*pages, only) {
            (None, None) => read(standing.decision()),
            (None, Some(index)) => read(&standing.decisions()[index]),
            (Some(pages), Some(index)) => read(&pages[index].decision),
            (Some(pages), None) => {
                let mut decisions = pages.iter().map(|page| &page.decision);
                let first = decisions.next().expect("something was decided");
                read(decisions.fold(first, |best, next| if next.outranks(best) { next } else { best }))
            }
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

    /// The question to ask for more, and the policies it is about; `None` if nothing was counted to begin with.
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
            if only.is_some_and(|only| only != index) {
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
    pub(super) fn add(&self, standing: &Standing, indexes: &[usize], outcome: Outcome) {
        let mut pages = self.lock();
        let pages = open(&mut pages, standing);
        for (index, decision) in indexes.iter().zip(outcome.decisions()) {
            // A denial of this question is not how the request was decided.
            if outcome.is_allowed() {
                pages[*index].decision = decision.clone();
            }
        }
        for receipt in outcome.into_receipts() {
            let of = |page: &&mut Page| page.decision.policy() == receipt.policy().name();
            let page = pages.iter_mut().find(of).expect("it was asked about");
            page.more.push(receipt);
        }
    }

    /// Takes all receipts, which nobody can do a second time.
    pub(super) fn close(&self, standing: &Standing, only: Option<usize>) -> Result<Vec<Entry>, ChargeError> {
        let mut pages = self.lock();
        let pages = open(&mut pages, standing);
        let mine = |index: usize| only.is_none_or(|only| only == index);
        if pages.iter().enumerate().all(|(index, page)| page.settled || !mine(index)) {
            return Err(ChargeError::Settled);
        }
        let mine = pages.iter_mut().enumerate().filter(|(index, _)| mine(*index));
        Ok(mine
            .map(|(index, page)| {
                page.settled = true;
                Entry { index, first: page.first.take(), more: std::mem::take(&mut page.more) }
            })
            .collect())
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
            first: receipts.next_if(|receipt| receipt.policy().name() == decision.policy()),
            more: Vec::new(),
            settled: false,
        };
        standing.decisions().iter().map(page).collect()
    })
}
