//! What decides while a store cannot.

use crate::{Checks, Outcome, Receipt, StoreError};

/// Decides, in the process and at once, what a [`Store`](crate::Store) cannot answer.
///
/// `Fallback` of `portcullis-memory` is one; it hands itself to the store with each check, by
/// [`Store::check_with`](crate::Store::check_with). A store that fails as a whole asks it for all checks of a decision. A store
/// that is spread over several servers asks it for those checks whose server has failed; what the others answer stands.
pub trait Standby: Send + Sync + 'static {
    /// Notes that the store has answered.
    fn note(&self, answer: &Outcome);

    /// Decides `checks` in place of the store, which has failed: each as the [mode](crate::FailureMode) of its policy says. All
    /// are charged, or none.
    ///
    /// # Errors
    ///
    /// `failure`, if a policy is closed, if all are open, or if the error [says](crate::StoreErrorKind::is_overload) that too
    /// much is asked, which is no outage. Nothing is charged then.
    fn decide(&self, checks: Checks, failure: StoreError) -> Result<Outcome, StoreError>;

    /// Gives back what [`decide`](Self::decide) has charged.
    fn refund(&self, receipt: Receipt);

    /// Passes an answer of the store on, or decides in its place if it has failed.
    ///
    /// # Errors
    ///
    /// As [`decide`](Self::decide).
    fn conclude(&self, checks: Checks, answer: Result<Outcome, StoreError>) -> Result<Outcome, StoreError> {
        match answer {
            Ok(outcome) => {
                self.note(&outcome);
                Ok(outcome)
            }
            Err(failure) => self.decide(checks, failure),
        }
    }
}
