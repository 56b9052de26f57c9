//! Checks that were decided under the quota of a grant.

use alloc::vec::Vec;

use super::Outcome;
use crate::overrides::Grant;

/// The grants that applied, each with the index of its check.
pub(super) type Grants = Vec<(usize, Grant)>;

impl Outcome {
    /// The same outcome, whose check at `index` was decided under the quota of a grant: it already [has](Outcome::checks) the policy
    /// with that quota. For stores.
    pub fn with_grant(mut self, index: usize, grant: Grant) -> Self {
        self.grants.get_or_insert_default().push((index, grant));
        self
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
        grants.iter().find(|(check, _)| *check == index).map(|(_, grant)| *grant)
    }
}
