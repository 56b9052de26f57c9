//! Policies that limit requests in flight.

use core::time::Duration;

use super::failure::PackedMode;
use super::{Policy, PolicyError};
use crate::{FailureMode, InFlight, Strategy};

/// A limit on requests in flight, of which a [`Policy`] is made: at most a number of them per key at any instant.
///
/// ```
/// use core::time::Duration;
/// use portcullis_core::{Concurrency, Policy};
///
/// // Four exports of a tenant at a time. If a process crashes, its permits come back after half a minute.
/// const EXPORTS: Concurrency = Concurrency::new("exports", 4).lease(Duration::from_secs(30));
///
/// let policy = Policy::from(EXPORTS);
/// assert_eq!((policy.name().as_str(), policy.strategy().limit()), ("exports", 4));
/// assert_eq!(policy.strategy().tag(), "in_flight");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Concurrency(Policy);

impl Concurrency {
    /// At most `limit` requests of a key in flight, from 1 to [`InFlight::MAX_LIMIT`].
    ///
    /// # Panics
    ///
    /// If the name or the limit is invalid for [`Concurrency::try_new`].
    #[track_caller]
    pub const fn new(name: &'static str, limit: u64) -> Self {
        match InFlight::new(limit) {
            Ok(limit) => Self(Policy::literal(name, Strategy::InFlight(limit))),
            Err(error) => error.panic(),
        }
    }

    /// Like [`Concurrency::new`], for values that are not constants.
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the limit is zero or more than [`InFlight::MAX_LIMIT`].
    pub fn try_new(name: &str, limit: u64) -> Result<Self, PolicyError> {
        Policy::named(name, InFlight::new(limit).map(Strategy::InFlight)).map(Self)
    }

    /// Sets the lease: the time after which a permit comes back that is neither released nor renewed, as that of a process that has
    /// crashed. By default 30 seconds.
    ///
    /// # Panics
    ///
    /// If the lease is invalid for [`Concurrency::try_lease`].
    #[track_caller]
    pub const fn lease(mut self, lease: Duration) -> Self {
        if let Strategy::InFlight(limit) = self.0.strategy {
            self.0.strategy = match limit.with_lease(lease) {
                Ok(limit) => Strategy::InFlight(limit),
                Err(error) => error.panic(),
            };
        }
        self
    }

    /// Like [`Concurrency::lease`], for a time that is not a constant.
    ///
    /// # Errors
    ///
    /// If `lease` is shorter than [`InFlight::MIN_LEASE`], longer than [`InFlight::MAX_LEASE`], or not a whole number of microseconds.
    pub fn try_lease(mut self, lease: Duration) -> Result<Self, PolicyError> {
        if let Strategy::InFlight(limit) = self.0.strategy {
            match limit.with_lease(lease) {
                Ok(limit) => self.0.strategy = Strategy::InFlight(limit),
                Err(error) => return Err(PolicyError::Quota { policy: self.0.name, error }),
            }
        }
        Ok(self)
    }

    /// Sets what happens to a request when the store cannot answer. See [`Policy::on_store_failure`].
    ///
    /// # Panics
    ///
    /// If the mode is invalid for [`Policy::try_on_store_failure`]: each instance needs at least one permit.
    #[track_caller]
    pub const fn on_store_failure(mut self, mode: FailureMode) -> Self {
        match mode.validate(&self.0.strategy) {
            Ok(()) => self.0.failure_mode = PackedMode::new(mode),
            Err(error) => error.panic(),
        }
        self
    }

    /// The policy.
    pub fn policy(self) -> Policy {
        self.0
    }
}

impl From<Concurrency> for Policy {
    fn from(concurrency: Concurrency) -> Self {
        concurrency.0
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use super::*;

    const EXPORTS: Concurrency = Concurrency::new("exports", 4).on_store_failure(FailureMode::local(2));

    #[test]
    fn a_limit_or_lease_out_of_range_names_the_policy() {
        for (limit, why) in [(0, "zero units"), (1_001, "1001 requests")] {
            let error = Concurrency::try_new("exports", limit).unwrap_err().to_string();
            assert!(error.contains("exports") && error.contains(why), "{error}");
        }
        let error = |lease| EXPORTS.try_lease(lease).unwrap_err().to_string();
        let longer = InFlight::MAX_LEASE + Duration::from_micros(1);
        for lease in [Duration::from_micros(999_999), longer, Duration::new(30, 1)] {
            assert!(error(lease).contains("exports") && error(lease).contains("1 s to 1 h"), "{lease:?}");
        }
        let longest = EXPORTS.lease(InFlight::MAX_LEASE).policy();
        assert_eq!(longest.strategy().window(), InFlight::MAX_LEASE);
        assert!(Concurrency::try_new("caf\u{e9}", 1).is_err());
    }

    #[test]
    fn a_share_has_a_whole_permit() {
        let share = EXPORTS.policy().share().unwrap();
        assert_eq!((share.strategy().limit(), share.strategy().window()), (2, InFlight::DEFAULT_LEASE));
        let error = EXPORTS.policy().try_on_store_failure(FailureMode::local(5)).unwrap_err().to_string();
        assert!(error.contains("5 instances") && error.contains("4 units"), "{error}");
    }

    #[test]
    fn units_are_not_leased_and_requests_do_not_wait() {
        let error = EXPORTS.policy().try_lease(1).unwrap_err().to_string();
        assert!(error.contains("exports") && error.contains("in_flight"), "{error}");
        let error = EXPORTS.policy().try_wait_at_most(Duration::from_secs(1)).unwrap_err().to_string();
        assert!(error.contains("exports") && error.contains("in flight"), "{error}");
    }

    #[test]
    #[should_panic(expected = "1 s to 1 h")]
    fn invalid_literal_lease_panics() {
        let _ = EXPORTS.lease(Duration::ZERO);
    }

    #[test]
    #[should_panic(expected = "at most 1000 requests in flight")]
    fn invalid_literal_limit_panics() {
        let _ = Concurrency::new("exports", 1_001);
    }
}
