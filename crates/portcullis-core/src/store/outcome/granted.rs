//! Checks that were decided under the quota of a grant.

use alloc::vec::Vec;

use super::Outcome;
use crate::Policy;
use crate::overrides::Grant;
use crate::store::Check;

/// The grants that applied.
#[derive(Clone, Debug, Default)]
pub(super) struct Grants {
    /// Each with the index of its check.
    pub(super) of_checks: Vec<(usize, Grant)>,
    /// The policies of checks that a remembered denial leaves out.
    left_out: Vec<Policy>,
}

impl Grants {
    /// The grants of the checks at these indexes.
    pub(super) fn part(&self, indexes: &[usize]) -> Self {
        let grant =
            |index: &usize| self.of_checks.iter().find(|(check, _)| check == index).map(|(_, grant)| *grant);
        let of_checks = indexes.iter().enumerate().filter_map(|(index, check)| Some((index, grant(check)?)));
        Self { of_checks: of_checks.collect(), left_out: self.left_out.clone() }
    }
}

impl Outcome {
    /// States that the check at `index` was decided under the quota of a grant: it already [has](Outcome::checks) the policy with
    /// that quota. For stores.
    pub fn with_grant(mut self, index: usize, grant: Grant) -> Self {
        self.grants.get_or_insert_default().of_checks.push((index, grant));
        self
    }

    /// States that this [remembered](Outcome::remembered) denial leaves out a check that has this policy, with the quota of a grant
    /// or a caller. For stores.
    pub fn leaving_out(mut self, policy: Policy) -> Self {
        self.grants.get_or_insert_default().left_out.push(policy);
        self
    }

    /// The policies that have the quota of a caller or of a [grant](crate::overrides::Grant): the policies of checks that were decided under it,
    /// and of checks that a [remembered](Outcome::remembered) denial leaves out. Empty for nearly all outcomes.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::store::{Checks, MemoryStore, Store as _};
    /// use portcullis::{Policy, Quota, Secret};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let ada = hasher.finish()?;
    /// let (store, api) = (MemoryStore::new(), Policy::fixed_window("api", Quota::per_minute(10)).allow_overrides());
    /// let grant = Some((Quota::per_minute(100), Duration::from_secs(60)));
    /// store.set_grant(&api, ada, grant).into_ready().expect("memory answers at once")?;
    ///
    /// let outcome = store.check(Checks::one(api, ada, 1)).into_ready().expect("memory answers at once")?;
    /// assert!(outcome.individual_policies().map(|policy| policy.strategy().limit()).eq([100]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn individual_policies(&self) -> impl Iterator<Item = &Policy> {
        let of_checks = self.checks.iter().map(|Check { policy, .. }| policy);
        let left_out = self.grants.iter().flat_map(|grants| &grants.left_out);
        of_checks.chain(left_out).filter(|policy| policy.is_individual())
    }

    /// The [grant](crate::overrides::Grant) under whose quota the check at `index` was decided: the policy in [`checks`](Outcome::checks)
    /// has this quota, and so has its receipt. `None` if the check was decided under the policy that was given.
    ///
    /// ```
    /// use portcullis::store::{Checks, Outcome};
    /// use portcullis::{Policy, Quota, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let checks = Checks::one(Policy::gcra("pages", Quota::per_minute(1)), hasher.finish()?, 1);
    /// assert_eq!(Outcome::unmetered(checks, Timestamp::EPOCH).grant(0), None);
    /// # Ok::<(), portcullis::key::KeyWriteError>(())
    /// ```
    pub fn grant(&self, index: usize) -> Option<Grant> {
        let grants = self.grants.as_ref()?;
        grants.of_checks.iter().find(|(check, _)| *check == index).map(|(_, grant)| *grant)
    }
}
