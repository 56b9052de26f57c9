//! The part of an outcome that is about some of its checks.

use alloc::boxed::Box;
use smallvec::SmallVec;

use super::{Fallback, Outcome};
use crate::store::list::List;
use crate::store::{Check, Checks};

impl Outcome {
    /// The outcome about the checks for which `is_part` returns `true`, with their own decisive decision. `None` if there are none.
    ///
    /// ```
    /// use portcullis::store::{Checks, Outcome};
    /// use portcullis::{Policy, Quota, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let (key, policy) = (hasher.finish()?, |name| Policy::gcra(name, Quota::per_minute(1)));
    /// let checks = Checks::one(policy("one"), key, 1).and(policy("two"), key, 1)?;
    /// let outcome = Outcome::unmetered(checks, Timestamp::EPOCH);
    /// let two = outcome.part(|check| check.policy.name().as_str() == "two").ok_or("it is there")?;
    /// assert_eq!((two.checks().len(), two.decision().policy().as_str()), (1, "two"));
    /// assert!(outcome.part(|_| false).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    // For doors that decide about several requests together.
    #[doc(hidden)]
    pub fn part(&self, is_part: impl Fn(&Check) -> bool) -> Option<Self> {
        let indexes: SmallVec<[usize; 4]> = self
            .checks
            .iter()
            .enumerate()
            .filter(|(_, check)| is_part(check))
            .map(|(index, _)| index)
            .collect();
        let own = |index: usize| indexes.get(index).copied();
        let mut decisive_index = 0;
        for index in 1..indexes.len() {
            if self.decisions[own(index)?].outranks(&self.decisions[own(decisive_index)?]) {
                decisive_index = index;
            }
        }
        let length = indexes.len();
        (length > 0).then(|| Self {
            checks: Checks {
                checks: List::from_fn(length, |index| self.checks.checks[indexes[index]].clone()),
            },
            decisions: List::from_fn(length, |index| self.decisions[indexes[index]].clone()),
            positions: List::from_fn(length, |index| self.positions[indexes[index]]),
            decisive_index,
            is_remembered: self.is_remembered,
            is_leased: self.is_leased,
            fallback: self.fallback.as_ref().map(|fallback| {
                let ids = indexes.iter().map(|index| self.fallback_id_of(*index)).collect();
                Box::new(Fallback { failure: fallback.failure.clone(), ids })
            }),
            grants: self.grants.as_ref().map(|grants| Box::new(grants.part(&indexes))),
        })
    }
}
