//! What can be driven along a timeline.

mod over_store;
mod pure;

use std::future::Future;
use std::pin::Pin;

use portcullis_core::{
    Checks, Decision, Key, Outcome, Policy, Receipt, Settlement, StoreError, Timestamp, Verdict,
};

pub use over_store::StoreSubject;
pub use pure::Pure;

/// An answer that is on its way.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Something that limits, and can be told what time it is: a store, a whole service, or the algorithm alone.
///
/// Time may go backwards between calls. See [`StoreSubject`] for any [`Store`](portcullis_core::Store) and [`Pure`] for
/// the algorithm alone.
pub trait SystemUnderTest: Send {
    /// Asks at `now`.
    fn check(&mut self, now: Timestamp, checks: Checks) -> Answer<'_, Checked>;

    /// Takes a charge back at `now`, and peeks.
    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> Answer<'_, Decision>;

    /// Corrects a charge to `cost` at `now`.
    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u32) -> Answer<'_, Settlement>;

    /// Forgets `key` under `policy` at `now`.
    fn reset<'a>(&'a mut self, now: Timestamp, policy: &'a Policy, key: Key) -> Answer<'a, ()>;

    /// Whether a charge comes with receipts. A subject that has none to give, such as a service that answers requests,
    /// is not asked to refund or to settle: cases that do are skipped, and reported as such.
    fn hands_out_receipts(&self) -> bool {
        true
    }
}

/// What a [`SystemUnderTest`] says to one check.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub struct Checked {
    /// The decision that counts.
    pub decision: Decision,
    /// What each policy says, in the order of the checks; empty if the subject does not tell.
    pub decisions: Vec<Decision>,
    /// One receipt per check that was charged.
    pub receipts: Vec<Receipt>,
}

impl From<Outcome> for Checked {
    fn from(outcome: Outcome) -> Self {
        Self {
            decision: outcome.decision().clone(),
            decisions: outcome.decisions().to_vec(),
            receipts: outcome.into_receipts().collect(),
        }
    }
}

impl From<Decision> for Checked {
    /// Of a subject that tells nothing but the decision that counts.
    fn from(decision: Decision) -> Self {
        Self { decision, decisions: Vec::new(), receipts: Vec::new() }
    }
}

/// The one of several decisions that counts, by the rule of the book: of the denying ones the longest wait; else the
/// least remaining; then the longest reset; then the first.
pub(crate) fn decisive(decisions: &[Decision]) -> Option<&Decision> {
    decisions.iter().reduce(|best, other| if more_telling(other, best) { other } else { best })
}

fn more_telling(decision: &Decision, than: &Decision) -> bool {
    match (decision.verdict(), than.verdict()) {
        (Verdict::Deny(_), Verdict::Allow { .. }) => return true,
        (Verdict::Allow { .. }, Verdict::Deny(_)) => return false,
        (Verdict::Deny(wait), Verdict::Deny(other)) if wait != other => return wait > other,
        _ => {}
    }
    if decision.remaining() != than.remaining() {
        return decision.remaining() < than.remaining();
    }
    decision.reset_after() > than.reset_after()
}
