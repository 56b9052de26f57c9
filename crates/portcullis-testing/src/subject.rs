//! Systems that a timeline can be run on.

mod pure;
mod store;

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use portcullis_core::overrides::{Block, LockOut};
use portcullis_core::store::{Checks, Outcome, Renewal, Renewed};
use portcullis_core::{
    Decision, Key, Policy, Quota, Receipt, Settlement, StoreError, StoreErrorKind, Timestamp, Verdict,
};

pub use pure::Pure;
pub use store::StoreSubject;

/// The future of a call to a [`SystemUnderTest`].
pub type SubjectFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A rate limiter whose clock the caller sets: a store, a whole service, or the algorithm alone.
///
/// Time may go backwards between calls. See [`StoreSubject`] for any [`Store`](portcullis_core::store::Store) and [`Pure`] for
/// the algorithm alone.
pub trait SystemUnderTest: Send {
    /// Checks at `now`.
    fn check(&mut self, now: Timestamp, checks: Checks) -> SubjectFuture<'_, Checked>;

    /// Refunds a charge at `now`, and peeks.
    fn refund(&mut self, now: Timestamp, receipt: Receipt) -> SubjectFuture<'_, Decision>;

    /// Settles a charge to `cost` at `now`.
    fn settle(&mut self, now: Timestamp, receipt: Receipt, cost: u64) -> SubjectFuture<'_, Settlement>;

    /// Renews the permits of a charge at `now`. The default is an error.
    fn renew(&mut self, now: Timestamp, renewal: Renewal) -> SubjectFuture<'_, Renewed> {
        let _ = (now, renewal);
        let error = StoreError::new(StoreErrorKind::Unsupported, "the system under test renews no permits");
        Box::pin(std::future::ready(Err(error)))
    }

    /// Resets `key` under `policy` at `now`.
    fn reset<'a>(&'a mut self, now: Timestamp, policy: &'a Policy, key: Key) -> SubjectFuture<'a, ()>;

    /// Changes the [override](portcullis_core::overrides) of `key` under `policy` at `now`. Returns the block that denials have begun.
    /// The default is an error.
    fn change_override<'a>(
        &'a mut self,
        now: Timestamp,
        policy: &'a Policy,
        key: Key,
        change: OverrideChange,
    ) -> SubjectFuture<'a, Option<Block>> {
        let _ = (now, policy, key, change);
        let error = StoreError::new(StoreErrorKind::Unsupported, "the system under test keeps no overrides");
        Box::pin(std::future::ready(Err(error)))
    }

    /// Whether [`change_override`](Self::change_override) is supported. If not, cases that change overrides are skipped and reported as
    /// skipped. The default is `false`.
    fn keeps_overrides(&self) -> bool {
        false
    }

    /// Whether a charge returns receipts. If not, as for a service that only answers requests, cases that refund or settle
    /// are skipped and reported as skipped.
    fn hands_out_receipts(&self) -> bool {
        true
    }
}

/// A change of the [override](portcullis_core::overrides) of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: systems under test handle each change.
pub enum OverrideChange {
    /// Grants another quota for a length of time, or ends the grant.
    Grant(Option<(Quota, Duration)>),
    /// Blocks the key for a length of time.
    Block(Duration),
    /// Ends the block.
    Unblock,
    /// Counts denials towards a lock-out.
    Denials(u32, LockOut),
}

/// The answer of a [`SystemUnderTest`] to a check.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
// Exhaustive: systems under test build it.
pub struct Checked {
    /// The decisive decision.
    pub decision: Decision,
    /// The decision of each policy, in the order of the checks; empty if it is not known.
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
    /// Converts the answer of a system that returns only the decisive decision.
    fn from(decision: Decision) -> Self {
        Self { decision, decisions: Vec::new(), receipts: Vec::new() }
    }
}

/// Returns the decisive one of several decisions, as the documentation defines it: the denial with the longest wait, or
/// without a denial the least remaining, then the longest reset, then the first.
pub(crate) fn decisive(decisions: &[Decision]) -> Option<&Decision> {
    decisions.iter().reduce(|best, other| if takes_precedence(other, best) { other } else { best })
}

fn takes_precedence(decision: &Decision, than: &Decision) -> bool {
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
