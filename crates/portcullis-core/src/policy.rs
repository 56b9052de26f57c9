//! A strategy with a name.

mod failure;
mod name;

pub use failure::{FailureMode, FailureModeError};
pub use name::{PolicyError, PolicyName};

use crate::{
    FixedWindow, Gcra, LeakyBucket, Quota, QuotaError, SlidingLog, SlidingWindow, Strategy, TokenBucket,
};

/// A named strategy: the unit of configuration, of header names, of metric labels and of key namespaces.
///
/// Two layers with the same policy share one budget per key. The constructors named after a strategy are for policies
/// written in the source and can be `const`; what comes from elsewhere goes through the `try_` forms.
///
/// ```
/// use portcullis_core::{Policy, Quota, FailureMode};
///
/// const LOGIN: Policy = Policy::fixed_window("login", Quota::per_minute(5)).on_store_failure(FailureMode::Closed);
/// assert_eq!(LOGIN.name().as_str(), "login");
///
/// let loaded = Policy::try_gcra("search", "10/s burst 20".parse()?)?;
/// assert_eq!(loaded, Policy::gcra("search", Quota::per_second(10).burst(20)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    name: PolicyName,
    strategy: Strategy,
    failure_mode: FailureMode,
    digest: u128,
}

impl Policy {
    /// A policy of any strategy.
    pub fn new(name: PolicyName, strategy: Strategy) -> Self {
        let digest = name::digest(name.as_str(), strategy.tag());
        Self { name, strategy, failure_mode: FailureMode::DEFAULT, digest }
    }

    /// A policy of any strategy, written in the source.
    ///
    /// # Panics
    ///
    /// If the name is not 1 to 64 printable ASCII characters.
    #[track_caller]
    pub const fn literal(name: &'static str, strategy: Strategy) -> Self {
        let digest = name::digest(name, strategy.tag());
        Self { name: PolicyName::literal(name), strategy, failure_mode: FailureMode::DEFAULT, digest }
    }

    /// A bucket of `burst` tokens, the limit by default, that fills at `limit` per period. See [`TokenBucket`].
    ///
    /// # Panics
    ///
    /// If the name or the quota is one that [`Policy::try_token_bucket`] refuses.
    #[track_caller]
    pub const fn token_bucket(name: &'static str, quota: Quota) -> Self {
        match TokenBucket::new(quota) {
            Ok(bucket) => Self::literal(name, Strategy::TokenBucket(bucket)),
            Err(error) => error.panic(),
        }
    }

    /// Like [`Policy::token_bucket`], for values that come from elsewhere.
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota exceeds a bound of [`TokenBucket::new`].
    pub fn try_token_bucket(name: &str, quota: Quota) -> Result<Self, PolicyError> {
        Self::named(name, TokenBucket::new(quota).map(Strategy::TokenBucket))
    }

    /// Evenly spaced: one unit per `period / limit`, and with a burst so many at once after idling.
    ///
    /// The burst defaults to 1. See [`Gcra`].
    ///
    /// # Panics
    ///
    /// If the name or the quota is one that [`Policy::try_gcra`] refuses.
    #[track_caller]
    pub const fn gcra(name: &'static str, quota: Quota) -> Self {
        match Gcra::new(quota) {
            Ok(gcra) => Self::literal(name, Strategy::Gcra(gcra)),
            Err(error) => error.panic(),
        }
    }

    /// Like [`Policy::gcra`], for values that come from elsewhere.
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota exceeds a bound of [`Gcra::new`].
    pub fn try_gcra(name: &str, quota: Quota) -> Result<Self, PolicyError> {
        Self::named(name, Gcra::new(quota).map(Strategy::Gcra))
    }

    /// A queue of `burst` units, the limit by default, let through one per `period / limit`. See [`LeakyBucket`].
    ///
    /// # Panics
    ///
    /// If the name or the quota is one that [`Policy::try_leaky_bucket`] refuses.
    #[track_caller]
    pub const fn leaky_bucket(name: &'static str, quota: Quota) -> Self {
        match LeakyBucket::new(quota) {
            Ok(bucket) => Self::literal(name, Strategy::LeakyBucket(bucket)),
            Err(error) => error.panic(),
        }
    }

    /// Like [`Policy::leaky_bucket`], for values that come from elsewhere.
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota exceeds a bound of [`LeakyBucket::new`].
    pub fn try_leaky_bucket(name: &str, quota: Quota) -> Result<Self, PolicyError> {
        Self::named(name, LeakyBucket::new(quota).map(Strategy::LeakyBucket))
    }

    /// A count per window of one period, windows counted from the Unix epoch. See [`FixedWindow`].
    ///
    /// # Panics
    ///
    /// If the name or the quota is one that [`Policy::try_fixed_window`] refuses.
    #[track_caller]
    pub const fn fixed_window(name: &'static str, quota: Quota) -> Self {
        match FixedWindow::new(quota) {
            Ok(window) => Self::literal(name, Strategy::FixedWindow(window)),
            Err(error) => error.panic(),
        }
    }

    /// Like [`Policy::fixed_window`], for values that come from elsewhere.
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota has a burst.
    pub fn try_fixed_window(name: &str, quota: Quota) -> Result<Self, PolicyError> {
        Self::named(name, FixedWindow::new(quota).map(Strategy::FixedWindow))
    }

    /// The count of this period and the share of the last that the window still covers. See [`SlidingWindow`].
    ///
    /// # Panics
    ///
    /// If the name or the quota is one that [`Policy::try_sliding_window`] refuses.
    #[track_caller]
    pub const fn sliding_window(name: &'static str, quota: Quota) -> Self {
        match SlidingWindow::new(quota) {
            Ok(window) => Self::literal(name, Strategy::SlidingWindow(window)),
            Err(error) => error.panic(),
        }
    }

    /// Like [`Policy::sliding_window`], for values that come from elsewhere.
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota has a burst.
    pub fn try_sliding_window(name: &str, quota: Quota) -> Result<Self, PolicyError> {
        Self::named(name, SlidingWindow::new(quota).map(Strategy::SlidingWindow))
    }

    /// Exactly `limit` units in any period. See [`SlidingLog`].
    ///
    /// # Panics
    ///
    /// If the name or the quota is one that [`Policy::try_sliding_log`] refuses.
    #[track_caller]
    pub const fn sliding_log(name: &'static str, quota: Quota) -> Self {
        match SlidingLog::new(quota) {
            Ok(log) => Self::literal(name, Strategy::SlidingLog(log)),
            Err(error) => error.panic(),
        }
    }

    /// Like [`Policy::sliding_log`], for values that come from elsewhere.
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota has a burst or a limit above
    /// [`SlidingLog::MAX_LIMIT`].
    pub fn try_sliding_log(name: &str, quota: Quota) -> Result<Self, PolicyError> {
        Self::named(name, SlidingLog::new(quota).map(Strategy::SlidingLog))
    }

    /// Says what becomes of a request when the store cannot answer: by default each instance enforces the whole limit by
    /// itself, in memory ([`FailureMode::local(1)`](FailureMode::local)).
    ///
    /// # Panics
    ///
    /// If the answer is one that [`Policy::try_when_store_fails`] refuses.
    #[must_use]
    #[track_caller]
    pub const fn on_store_failure(mut self, answer: FailureMode) -> Self {
        match answer.suits(&self.strategy) {
            Ok(()) => self.failure_mode = answer,
            Err(error) => error.panic(),
        }
        self
    }

    /// Like [`Policy::on_store_failure`], for an answer that comes from elsewhere.
    ///
    /// ```
    /// use portcullis_core::{Policy, FailureMode};
    ///
    /// let monthly = Policy::try_fixed_window("monthly", "1/30d".parse()?)?;
    /// assert!(monthly.clone().try_when_store_fails(FailureMode::try_local(4)?).is_ok());
    /// let error = monthly.try_when_store_fails(FailureMode::try_local(1_000)?).unwrap_err();
    /// assert!(error.to_string().starts_with("policy monthly: a local share among 1000 instances"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it is [`FailureMode::OpenFor`] no time, or if the [share](Policy::share) of one instance has a period, or takes a
    /// time to fill, beyond [`Quota::MAX_PERIOD`].
    pub fn try_when_store_fails(self, answer: FailureMode) -> Result<Self, PolicyError> {
        match answer.suits(&self.strategy) {
            Ok(()) => Ok(Self { failure_mode: answer, ..self }),
            Err(error) => Err(PolicyError::FailureMode { policy: self.name, error }),
        }
    }

    /// The name.
    pub const fn name(&self) -> &PolicyName {
        &self.name
    }

    /// The algorithm with its parameters.
    pub const fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// What becomes of a request when the store cannot answer.
    pub const fn failure_mode(&self) -> FailureMode {
        self.failure_mode
    }

    /// A digest of the name and the kind of strategy: what stores in one process tell policies apart by.
    ///
    /// It is no secret. Combined with a key's fingerprint by exclusive or, it identifies the state of that key under
    /// this policy.
    pub const fn digest(&self) -> u128 {
        self.digest
    }

    fn named(name: &str, strategy: Result<Strategy, QuotaError>) -> Result<Self, PolicyError> {
        let name = PolicyName::new(name)?;
        match strategy {
            Ok(strategy) => Ok(Self::new(name, strategy)),
            Err(error) => Err(PolicyError::Quota { policy: name, error }),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_name_is_printable_ascii_and_short() {
        let longest = "x".repeat(PolicyName::MAX_LEN);
        assert!(Policy::try_gcra(&longest, Quota::per_second(1)).is_ok());
        for (name, why) in [
            ("", "empty"),
            ("caf\u{e9}", "printable ASCII"),
            ("a\nb", "printable ASCII"),
            ("a\u{7f}", "printable ASCII"),
            ("x".repeat(65).as_str(), "65 characters"),
        ] {
            let error = Policy::try_gcra(name, Quota::per_second(1)).unwrap_err().to_string();
            assert!(error.contains(why), "{name:?}: {error}");
        }
    }

    #[test]
    #[should_panic(expected = "1 to 64 printable ASCII characters")]
    fn a_literal_name_that_is_none_panics() {
        let _ = Policy::gcra("caf\u{e9}", Quota::per_second(1));
    }

    #[test]
    fn a_window_has_no_burst_and_the_error_names_the_policy() {
        let error = Policy::try_fixed_window("login", Quota::per_second(1).burst(2)).unwrap_err().to_string();
        assert!(error.contains("login") && error.contains("burst of 2"), "{error}");
    }

    #[test]
    fn names_compare_by_their_text() {
        assert_eq!(PolicyName::literal("a"), PolicyName::new("a").unwrap());
        assert_ne!(PolicyName::literal("a"), PolicyName::literal("b"));
    }
}
