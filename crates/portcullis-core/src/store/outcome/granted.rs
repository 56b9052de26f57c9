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

    /// The policies that have the quota of a caller or of a [grant](crate::overrides): the policies of checks that were decided under it,
    /// and of checks that a [remembered](Outcome::remembered) denial leaves out. Empty for nearly all outcomes.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis_core::overrides::{Effect, Override};
    /// use portcullis_core::store::{Checks, Outcome};
    /// use portcullis_core::{Policy, Quota, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let (now, api) = (Timestamp::EPOCH, Policy::gcra("api", Quota::per_second(10)).allow_overrides());
    /// let mut record = Override::NONE;
    /// record.set_grant(now, Some((Quota::per_second(100), Duration::from_secs(60))));
    /// let Effect::Granted(granted, _) = record.effect(&api, now) else { panic!("there is a grant") };
    ///
    /// let outcome = Outcome::unmetered(Checks::one(granted.clone(), hasher.finish()?, 1), now);
    /// assert!(outcome.individual_policies().eq([&granted]));
    /// # Ok::<(), portcullis_core::KeyWriteError>(())
    /// ```
    pub fn individual_policies(&self) -> impl Iterator<Item = &Policy> {
        let of_checks = self.checks.iter().map(|Check { policy, .. }| policy);
        let left_out = self.grants.iter().flat_map(|grants| &grants.left_out);
        of_checks.chain(left_out).filter(|policy| policy.is_individual())
    }

    /// The [grant](crate::overrides) under whose quota the check at `index` was decided: the policy in [`checks`](Outcome::checks)
    /// has this quota, and so has its receipt. `None` if the check was decided under the policy that was given.
    ///
    /// ```
    /// use portcullis_core::store::{Checks, Outcome};
    /// use portcullis_core::{Policy, Quota, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let checks = Checks::one(Policy::gcra("pages", Quota::per_minute(1)), hasher.finish()?, 1);
    /// assert_eq!(Outcome::unmetered(checks, Timestamp::EPOCH).grant(0), None);
    /// # Ok::<(), portcullis_core::KeyWriteError>(())
    /// ```
    pub fn grant(&self, index: usize) -> Option<Grant> {
        let grants = self.grants.as_ref()?;
        grants.of_checks.iter().find(|(check, _)| *check == index).map(|(_, grant)| *grant)
    }
}
