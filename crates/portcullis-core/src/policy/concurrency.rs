//! Policies that limit requests in flight.

use core::ops::Deref;
use core::time::Duration;

use super::Policy;
use crate::{FailureMode, InFlight, Strategy};

/// A limit on requests in flight: at most a number of them per key at any instant. A reference to it is one to its [`Policy`], as for a
/// check in a handler.
///
/// ```
/// use core::time::Duration;
/// use portcullis::Policy;
/// use portcullis::layer::Concurrency;
///
/// // Four exports of a tenant at a time. If a process crashes, its permits come back after half a minute.
/// const EXPORTS: Concurrency = Concurrency::new("exports", 4).lease(Duration::from_secs(30));
///
/// let policy: &Policy = &EXPORTS;
/// assert_eq!((policy.name().as_str(), policy.strategy().limit()), ("exports", 4));
/// assert_eq!(policy.strategy().tag(), "in_flight");
/// ```
///
/// A limit from configuration or input is an [`InFlight`], which [`Policy::try_new`] makes a policy of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Concurrency(Policy);

impl Concurrency {
    /// At most `limit` requests of a key in flight, from 1 to [`InFlight::MAX_LIMIT`].
    ///
    /// # Panics
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the limit is zero or more than [`InFlight::MAX_LIMIT`].
    #[track_caller]
    pub const fn new(name: &'static str /* no literal: `Policy::try_new` */, limit: u64) -> Self {
        match InFlight::new(limit) {
            Ok(limit) => Self(Policy::literal(name, Strategy::InFlight(limit))),
            Err(error) => error.panic(),
        }
    }

    /// Sets the lease: the time after which a permit comes back that is neither released nor renewed, as that of a process that has
    /// crashed. By default 30 seconds.
    ///
    /// # Panics
    ///
    /// If `lease` is shorter than [`InFlight::MIN_LEASE`], longer than [`InFlight::MAX_LEASE`], or not a whole number of microseconds.
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

    /// Sets what happens to a request when the store cannot answer. See [`Policy::on_store_failure`].
    ///
    /// # Panics
    ///
    /// If the mode is invalid for [`Policy::on_store_failure`]: each instance needs at least one permit.
    #[track_caller]
    pub const fn on_store_failure(mut self, mode: FailureMode) -> Self {
        match self.0.set_failure_mode(mode) {
            Ok(()) => self,
            Err(error) => error.panic(),
        }
    }

    /// Lets a request that finds no permit wait for up to `wait` instead of being rejected: in order of arrival, until a permit comes back.
    ///
    /// A layer asks as soon as this process has released a permit of the key. One that another process has released is found within a
    /// tenth of a second.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::Policy;
    /// use portcullis::layer::Concurrency;
    ///
    /// // Four exports at a time; the next ones wait for up to two seconds.
    /// const EXPORTS: Concurrency = Concurrency::new("exports", 4).wait_at_most(Duration::from_secs(2));
    /// assert_eq!(Policy::from(EXPORTS).max_wait(), Some(Duration::from_secs(2)));
    /// ```
    ///
    /// # Panics
    ///
    /// If `wait` is zero, longer than [`Policy::MAX_WAIT`], or not a whole number of microseconds.
    #[track_caller]
    pub const fn wait_at_most(mut self, wait: Duration) -> Self {
        match self.0.set_wait(wait) {
            Ok(()) => self,
            Err(error) => error.panic(),
        }
    }

    /// The policy.
    pub fn policy(self) -> Policy {
        self.0
    }
}

/// The policy, wherever one is referred to.
impl Deref for Concurrency {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        &self.0
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
    use crate::PolicySettings;

    const EXPORTS: Concurrency = Concurrency::new("exports", 4).on_store_failure(FailureMode::local(2));

    #[test]
    fn a_limit_or_lease_out_of_range_names_the_policy() {
        for (limit, why) in [(1_001, "1001 requests"), (u64::MAX, "18446744073709551615 requests")] {
            let exports = Policy::try_new("exports", InFlight::new(limit), PolicySettings::default());
            let error = exports.unwrap_err().to_string();
            assert!(error.contains("exports") && error.contains(why), "{error}");
        }
        let exports = |lease| InFlight::new(4).and_then(|limit| limit.with_lease(lease));
        let error = |lease| {
            let policy = Policy::try_new("exports", exports(lease), PolicySettings::default());
            policy.unwrap_err().to_string()
        };
        let longer = InFlight::MAX_LEASE + Duration::from_micros(1);
        for lease in [Duration::from_micros(999_999), longer, Duration::new(30, 1)] {
            assert!(error(lease).contains("exports") && error(lease).contains("1 s to 1 h"), "{lease:?}");
        }
        let longest = EXPORTS.lease(InFlight::MAX_LEASE).policy();
        assert_eq!(longest.strategy().window(), InFlight::MAX_LEASE);
    }

    #[test]
    fn a_share_has_a_whole_permit() {
        let share = EXPORTS.policy().share().unwrap();
        assert_eq!((share.strategy().limit(), share.strategy().window()), (2, InFlight::DEFAULT_LEASE));
        let error = EXPORTS.policy().set_failure_mode(FailureMode::local(5)).unwrap_err().to_string();
        assert!(error.contains("5 instances") && error.contains("4 units"), "{error}");
    }

    #[test]
    fn units_are_not_leased() {
        let settings = PolicySettings { max_lease: Some(1), ..PolicySettings::default() };
        let error = Policy::try_new("exports", InFlight::new(4), settings).unwrap_err().to_string();
        assert!(error.contains("exports") && error.contains("in_flight"), "{error}");
    }

    #[test]
    fn requests_wait_and_quotas_follow() {
        let policy = EXPORTS.wait_at_most(Duration::from_secs(2)).policy();
        let callers = policy.clone().caller_quotas(crate::Quota::per_second(2), crate::Quota::per_second(9));
        assert_eq!(
            (policy.max_wait(), callers.max_wait()),
            (Some(Duration::from_secs(2)), policy.max_wait())
        );
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
