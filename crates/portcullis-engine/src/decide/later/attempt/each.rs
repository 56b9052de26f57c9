//! Charges of which each is made by itself, beside those that are made together.

use portcullis_core::Decision;

use super::Attempt;
use crate::decide::later::each;
use crate::decide::{Ask, Rejected};

impl Attempt {
    /// Checks and charges each of these by itself: a denial by one changes neither the others nor the request. Returns their
    /// decisions in the order of the policies.
    ///
    /// # Errors
    ///
    /// Returns why the request is rejected: the store could not answer. All that it was charged is refunded then.
    pub async fn check_each(&mut self, ask: Ask) -> Result<Vec<Decision>, Rejected> {
        let (limits, patience) = (self.limits.clone(), self.patience.clone());
        let only = |asked, answer| (ask.only(asked), answer);
        let answers = each::check(&limits, &ask.callers, &ask.enforced, &patience, only).await;
        let mut decisions = Vec::with_capacity(answers.len());
        let mut failed = None;
        for (ask, answer) in answers {
            if answer.is_err() && failed.is_some() {
                continue;
            }
            match self.answered(&ask, answer) {
                // A check that nothing left denies has charged nothing.
                Ok((outcome, _)) => {
                    decisions.push(outcome.decision().clone());
                    if outcome.is_allowed() {
                        self.add(&ask, outcome);
                    }
                }
                Err(rejected) => failed = Some(rejected),
            }
        }
        match failed {
            None => Ok(decisions),
            Some(rejected) => Err(self.refunded(rejected).await),
        }
    }
}
