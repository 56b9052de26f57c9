//! Outcomes that are paid from leases.

use super::Outcome;
use crate::Timestamp;
use crate::store::{CheckResult, Checks, ServerResult};

impl Outcome {
    /// The outcome of a request whose checks were all paid from [leases](crate::Policy::lease), each at an instant on the clock of its
    /// store.
    ///
    /// Returns `None` if there are fewer results than checks.
    pub fn leased(
        checks: Checks,
        results: impl IntoIterator<Item = (Timestamp, CheckResult)>,
    ) -> Option<Self> {
        let results = results.into_iter().map(|(at, result)| ServerResult::Store(at, result));
        let outcome = Self::partial(checks, results, None)?;
        Some(Self { is_leased: true, ..outcome })
    }

    /// Whether the request was [paid from leases](Outcome::leased) without asking the store. Such an outcome does not show that
    /// the store is available.
    #[inline]
    pub const fn is_leased(&self) -> bool {
        self.is_leased
    }
}
