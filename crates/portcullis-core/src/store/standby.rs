//! The trait of standbys, which decide while a store cannot.

use crate::store::{Checks, Outcome};
use crate::{Receipt, StoreError};

/// Decides checks that a [`Store`](crate::store::Store) cannot answer, in the process and without waiting.
///
/// `portcullis::store::Fallback` implements this and passes itself to the store with each check, by
/// [`Store::check_with`](crate::store::Store::check_with). A store that fails as a whole calls it for all checks of a decision. A
/// store with several servers calls it for the checks whose server has failed, and keeps the answers of the others.
pub trait Standby: Send + Sync + 'static {
    /// Records that the store has answered.
    fn record(&self, answer: &Outcome);

    /// Decides `checks` because the store has failed, each by the [failure mode](crate::FailureMode) of its policy. All are
    /// charged, or none.
    ///
    /// # Errors
    ///
    /// `failure`, if a policy is closed, if all are open, or if the error is an
    /// [overload](crate::StoreErrorKind::is_overload), which is not an outage. Nothing is charged then.
    fn decide(&self, checks: Checks, failure: StoreError) -> Result<Outcome, StoreError>;

    /// Refunds a charge of [`decide`](Self::decide).
    fn refund(&self, receipt: Receipt);

    /// Returns the answer of the store, or decides instead if the store has failed.
    ///
    /// # Errors
    ///
    /// As [`decide`](Self::decide).
    fn answer_or_decide(
        &self,
        checks: Checks,
        answer: Result<Outcome, StoreError>,
    ) -> Result<Outcome, StoreError> {
        match answer {
            Ok(outcome) => {
                self.record(&outcome);
                Ok(outcome)
            }
            Err(failure) => self.decide(checks, failure),
        }
    }
}
