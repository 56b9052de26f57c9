//! Outcomes of checks that were decided under shares of their policies.

use super::Outcome;
use crate::store::{Check, Checks};

impl Outcome {
    /// Gives the checks of this outcome the policies of `checks` again, after a store has decided them under shares of these. For each
    /// check `elsewhere` returns the limit of what is decided elsewhere and what remains of it. Metered decisions then include both,
    /// except that a denied one keeps what remains. For stores that divide limits.
    ///
    /// ```
    /// use core::num::NonZeroU32;
    /// use portcullis::store::Checks;
    /// use portcullis::store::protocol::{self, LoadedState};
    /// use portcullis::{Policy, Quota, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let checks = Checks::one(Policy::fixed_window("daily", Quota::per_day(100)), hasher.finish()?, 1);
    /// let share = Policy::fixed_window("daily", Quota::per_day(100)).share_among(NonZeroU32::new(10).expect("not zero"))?;
    ///
    /// let mut states = [LoadedState::new(None)];
    /// let outcome = protocol::check(checks.clone().with_policy(0, share), Timestamp::EPOCH, &mut states[..]);
    /// assert_eq!((outcome.decision().limit(), outcome.decision().remaining()), (10, 9));
    /// let outcome = outcome.of_whole(&checks, |_| (90, 50));
    /// assert_eq!((outcome.decision().limit(), outcome.decision().remaining()), (100, 59));
    /// assert_eq!(outcome.checks(), &checks);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_whole(mut self, checks: &Checks, elsewhere: impl Fn(&Check) -> (u64, u64)) -> Self {
        for (check, decision) in self.checks.checks.iter_mut().zip(self.decisions.iter_mut()) {
            let is_whole = |whole: &&Check| whole.is_about(check.policy.name(), check.key);
            let Some(whole) = checks.iter().find(is_whole) else { continue };
            check.policy = whole.policy.clone();
            if decision.is_metered() {
                let (limit, remaining) = elsewhere(check);
                *decision = decision.clone().with_more(limit, remaining);
            }
        }
        self
    }
}
