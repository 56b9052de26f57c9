//! Peeks that deny a request.

use super::{Outcome, set_delays};
use crate::store::Check;

impl Outcome {
    /// The denial that this outcome becomes if a check of cost 0 for which `requires_unit` returns `true` denies the request
    /// where nothing remains. The request may be retried when one unit is available.
    ///
    /// Returns `None` if the outcome is a denial already, or if each of these checks has a unit left or was not metered. What the
    /// other checks have charged stays charged: the caller refunds this outcome.
    ///
    /// ```
    /// use portcullis::store::{CheckResult, Checks, Outcome};
    /// use portcullis::{Policy, Quota, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let policy = Policy::gcra("log-ins", Quota::per_minute(1));
    /// let (key, strategy, now) = (hasher.finish()?, *policy.strategy(), Timestamp::EPOCH);
    /// let peek = |charged| {
    ///     let mut state = None;
    ///     strategy.charge(&mut state, now, charged);
    ///     let result = CheckResult::of(&strategy, state.as_ref(), now, 0, true);
    ///     Outcome::new(Checks::one(policy.clone(), key, 0), now, [result]).expect("one result per check")
    /// };
    /// assert!(peek(0).denied_if_exhausted(|_| true).is_none());
    /// assert!(peek(1).is_allowed() && peek(1).denied_if_exhausted(|_| false).is_none());
    /// let denial = peek(1).denied_if_exhausted(|_| true).ok_or("a unit is left")?;
    /// assert!(!denial.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    // For the layer alone, whose policies may charge afterwards.
    #[doc(hidden)]
    pub fn denied_if_exhausted(&self, requires_unit: impl Fn(&Check) -> bool) -> Option<Self> {
        let is_exhausted = |index: &usize| {
            let (check, decision) = (self.checks.iter().nth(*index), &self.decisions[*index]);
            decision.is_metered()
                && decision.remaining() == 0
                && check.is_some_and(|check| check.cost == 0 && requires_unit(check))
        };
        let exhausted = (0..self.decisions.len()).filter(is_exhausted);
        let mut denial = None::<Self>;
        for index in exhausted.filter(|_| self.is_allowed()) {
            let denial = denial.get_or_insert_with(|| self.clone());
            denial.decisions[index] = denial.decisions[index].clone().denied();
            if index != denial.decisive_index
                && denial.decisions[index].outranks(&denial.decisions[denial.decisive_index])
            {
                denial.decisive_index = index;
            }
        }
        let mut denial = denial?;
        set_delays(&mut denial.decisions, denial.decisive_index, core::time::Duration::ZERO);
        Some(denial)
    }
}

#[cfg(test)]
mod tests {
    use crate::store::{CheckResult, Checks, Outcome};
    use crate::{Policy, Quota, Retry, Secret, Timestamp};
    use core::time::Duration;

    /// Peeks at policies of one unit per number of seconds, all of which are charged, beside a charge of one more.
    fn outcome(seconds: &[u64]) -> Outcome {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", b"ada");
        let (key, now) = (hasher.finish().unwrap(), Timestamp::EPOCH);
        let mut checks = Checks::one(Policy::fixed_window("charged", Quota::per_day(1)), key, 1);
        for (index, seconds) in seconds.iter().enumerate() {
            let name = ["first", "second", "third"][index];
            let quota = Quota::new(1, Duration::from_secs(*seconds), None).unwrap();
            checks = checks.and(Policy::gcra(name, quota), key, 0).unwrap();
        }
        let results = checks.clone().into_iter().map(|check| {
            let (strategy, mut state) = (check.policy.strategy(), None);
            strategy.charge(&mut state, now, 1);
            CheckResult::of(strategy, state.as_ref(), now, check.cost, true)
        });
        Outcome::new(checks, now, results.collect::<alloc::vec::Vec<_>>()).unwrap()
    }

    #[test]
    fn the_denial_with_the_longest_wait_is_decisive() {
        for (seconds, index) in [([5, 9, 7], 2), ([9, 5, 7], 1), ([5, 7, 9], 3)] {
            let denial = outcome(&seconds).denied_if_exhausted(|_| true).unwrap();
            assert_eq!(denial.decision(), &denial.decisions()[index]);
            assert_eq!(denial.decision().retry(), Some(Retry::After(Duration::from_secs(9))));
            let allowed: alloc::vec::Vec<_> =
                denial.decisions().iter().map(crate::Decision::is_allowed).collect();
            assert_eq!(allowed, [true, false, false, false], "a charge of the last unit is no denial");
            assert_eq!(denial.into_receipts().count(), 0);
        }
    }

    #[test]
    fn a_limit_on_requests_in_flight_denies_for_an_unknown_time() {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", b"ada");
        let (policy, mut state) = (crate::Concurrency::new("exports", 1).policy(), None);
        policy.strategy().charge(&mut state, Timestamp::EPOCH, 1);
        let result = CheckResult::of(policy.strategy(), state.as_ref(), Timestamp::EPOCH, 0, true);
        let checks = Checks::one(policy, hasher.finish().unwrap(), 0);
        let peek = Outcome::new(checks, Timestamp::EPOCH, [result]).unwrap();
        let denial = peek.denied_if_exhausted(|_| true).unwrap();
        assert_eq!(denial.decision().retry(), Some(Retry::Unknown));
    }

    #[test]
    fn only_peeks_that_require_a_unit_deny() {
        let outcome = outcome(&[5, 9]);
        let denial = outcome.denied_if_exhausted(|check| check.policy.name().as_str() == "first").unwrap();
        assert_eq!(denial.decision().retry(), Some(Retry::After(Duration::from_secs(5))));
        assert!(denial.decisions()[2].is_allowed());
        assert!(outcome.denied_if_exhausted(|check| check.cost > 0).is_none());
        assert!(denial.denied_if_exhausted(|_| true).is_none(), "a denial stays as it is");
    }
}
