//! Outcomes of limits that are switched off.

use super::{Outcome, Results};
use crate::charge::Position;
use crate::store::Checks;
use crate::{Decision, Timestamp};

impl Outcome {
    /// The outcome of `checks` that nothing evaluates, because limits are switched off: the request is allowed, and no check is
    /// metered, so that there are no receipts. The first decision is the decisive one.
    ///
    /// ```
    /// use portcullis::store::{Checks, Outcome};
    /// use portcullis::{Policy, Quota, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let checks = Checks::one(Policy::fixed_window("exports", Quota::per_day(5)), hasher.finish()?, 9);
    /// let outcome = Outcome::unmetered(checks, Timestamp::EPOCH);
    /// assert!(outcome.is_allowed() && outcome.failure().is_none());
    /// assert_eq!((outcome.decision().remaining(), outcome.decision().is_metered()), (5, false));
    /// assert_eq!(outcome.into_receipts().count(), 0);
    /// # Ok::<(), portcullis::key::KeyWriteError>(())
    /// ```
    pub fn unmetered(checks: Checks, at: Timestamp) -> Self {
        let decisions = checks.iter().map(|check| Decision::not_asked(&check.policy, at)).collect();
        let positions = checks.iter().map(|_| Position::default()).collect();
        Self::with_results(checks, Results { decisions, positions, decisive_index: 0 })
    }
}
