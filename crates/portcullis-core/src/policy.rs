//! Policies: named strategies.

mod caller_quotas;
mod concurrency;
mod debt;
mod error;
mod failure;
mod lease;
mod name;
mod overrides;
mod settings;
mod text;
mod unlimited;
mod wait;

use alloc::sync::Arc;
use core::num::NonZeroU64;

pub use caller_quotas::{CallerQuotaError, CallerQuotasError};
pub use concurrency::Concurrency;
pub use debt::DebtError;
pub use error::{PolicyError, PolicyPartError};
pub use failure::{FailureMode, FailureModeError};
pub use lease::LeaseError;
pub use name::{PolicyName, PolicyNameError};
pub use overrides::GrantedQuotaError;
pub use settings::PolicySettings;
pub use wait::WaitError;

use caller_quotas::QuotaRange;
use failure::PackedMode;
use wait::LeaseOrWait;

use crate::compact::Wide;
use crate::{
    CalendarWindow, FixedWindow, Gcra, LeakyBucket, Quota, SlidingLog, SlidingWindow, Strategy, TokenBucket,
    WindowTable,
};

/// A named strategy: the unit of configuration, header names, metric labels and key namespaces.
///
/// Two layers with the same policy share one budget per key. [`on_store_failure`](Policy::on_store_failure) states what happens while
/// the store cannot answer, [`wait_at_most`](Policy::wait_at_most) lets requests wait, and [`lease`](Policy::lease) lets a process
/// charge units in advance. The constructors named after a strategy are for policies
/// written in the source and are `const`; values from configuration or input go through
/// [`Policy::try_new`], which returns all mistakes.
///
/// ```
/// use portcullis::store::Gcra;
/// use portcullis::{FailureMode, Policy, PolicySettings, Quota};
///
/// const LOGIN: Policy = Policy::fixed_window("login", Quota::per_minute(5)).on_store_failure(FailureMode::Closed);
/// assert_eq!(LOGIN.name().as_str(), "login");
///
/// let loaded = Policy::try_new("search", Gcra::new("10/s burst 20".parse()?), PolicySettings::default())?;
/// assert_eq!(loaded, Policy::gcra("search", Quota::per_second(10).burst(20)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg_attr(feature = "serde", doc = include_str!("serde_form/policy.md"))]
#[derive(Clone, PartialEq, Eq)]
pub struct Policy {
    name: PolicyName,
    strategy: Strategy,
    failure_mode: PackedMode,
    lease_or_wait: LeaseOrWait,
    digest: Wide,
    /// The quotas that single callers may have.
    caller_quotas: Option<Arc<QuotaRange>>,
}

/// The policy of a literal name and an algorithm, or a panic with what is wrong with its quota.
macro_rules! literal {
    ($name:ident, $algorithm:ident::new($($argument:ident),+)) => {
        match $algorithm::new($($argument),+) {
            Ok(algorithm) => Self::literal($name, Strategy::$algorithm(algorithm)),
            Err(error) => error.panic(),
        }
    };
}

impl Policy {
    /// The least burst of a token bucket or GCRA with a [lease](Policy::lease).
    pub const MIN_LEASED_BURST: u64 = lease::MIN_BURST;

    /// A policy with any strategy.
    pub fn new(name: PolicyName, strategy: Strategy) -> Self {
        let digest = Wide::new(name::digest_of_states(name.as_str(), &strategy));
        let lease_or_wait = LeaseOrWait::of(&strategy);
        let failure_mode = PackedMode::new(FailureMode::DEFAULT);
        Self { name, strategy, failure_mode, lease_or_wait, digest, caller_quotas: None }
    }

    /// A policy with any strategy, written in the source.
    ///
    /// # Panics
    ///
    /// If the name is not 1 to 64 printable ASCII characters.
    #[track_caller]
    pub const fn literal(name: &'static str /* no literal: `try_new` */, strategy: Strategy) -> Self {
        let digest = Wide::new(name::digest_of_states(name, &strategy));
        Self {
            name: PolicyName::literal(name),
            strategy,
            failure_mode: PackedMode::new(FailureMode::DEFAULT),
            lease_or_wait: LeaseOrWait::of(&strategy),
            digest,
            caller_quotas: None,
        }
    }

    /// A bucket of `burst` tokens (the limit by default) that refills at `limit` tokens per period. See [`TokenBucket`].
    ///
    /// # Panics
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota exceeds a bound of [`TokenBucket::new`].
    #[track_caller]
    pub const fn token_bucket(name: &'static str /* no literal: `try_new` */, quota: Quota) -> Self {
        literal!(name, TokenBucket::new(quota))
    }

    /// Evenly spaced units: one per `period / limit`, and up to `burst` (1 by default) at one instant after an idle time. See
    /// [`Gcra`].
    ///
    /// # Panics
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota exceeds a bound of [`Gcra::new`].
    #[track_caller]
    pub const fn gcra(name: &'static str /* no literal: `try_new` */, quota: Quota) -> Self {
        literal!(name, Gcra::new(quota))
    }

    /// A queue of `burst` units (the limit by default) that drains one per `period / limit`. See [`LeakyBucket`].
    ///
    /// # Panics
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota exceeds a bound of [`LeakyBucket::new`].
    #[track_caller]
    pub const fn leaky_bucket(name: &'static str /* no literal: `try_new` */, quota: Quota) -> Self {
        literal!(name, LeakyBucket::new(quota))
    }

    /// A count per window of one period, aligned to the Unix epoch. See [`FixedWindow`].
    ///
    /// # Panics
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota has a burst.
    #[track_caller]
    pub const fn fixed_window(name: &'static str /* no literal: `try_new` */, quota: Quota) -> Self {
        literal!(name, FixedWindow::new(quota))
    }

    /// The count of this period, and the previous one weighted by its overlap with the window. See [`SlidingWindow`].
    ///
    /// # Panics
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota has a burst or a limit above
    /// [`SlidingWindow::MAX_LIMIT`].
    #[track_caller]
    pub const fn sliding_window(name: &'static str /* no literal: `try_new` */, quota: Quota) -> Self {
        literal!(name, SlidingWindow::new(quota))
    }

    /// Exactly `limit` units in any period. See [`SlidingLog`].
    ///
    /// # Panics
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the quota has a burst or a limit above
    /// [`SlidingLog::MAX_LIMIT`].
    #[track_caller]
    pub const fn sliding_log(name: &'static str /* no literal: `try_new` */, quota: Quota) -> Self {
        literal!(name, SlidingLog::new(quota))
    }

    /// A count per window of a calendar, such as a month. See [`CalendarWindow`].
    ///
    /// # Panics
    ///
    /// If the name is not 1 to 64 printable ASCII characters, or the limit is zero or more than
    /// [`Quota::MAX_UNITS`](crate::Quota::MAX_UNITS).
    #[track_caller]
    pub const fn calendar_window(name: &'static str, limit: u64, table: &'static WindowTable) -> Self {
        literal!(name, CalendarWindow::new(limit, table))
    }

    /// Sets what happens to a request when the store cannot answer. By default each instance enforces the whole limit on its
    /// own, in memory ([`FailureMode::local(1)`](FailureMode::local)).
    ///
    /// # Panics
    ///
    /// If it is [`FailureMode::OpenFor`] with a zero duration, or if the [share](Policy::share) of one instance has a period,
    /// or takes a time to fill, beyond [`Quota::MAX_PERIOD`], or is one of a calendar window without a unit.
    #[must_use]
    #[track_caller]
    pub const fn on_store_failure(mut self, mode: FailureMode) -> Self {
        match self.set_failure_mode(mode) {
            Ok(()) => self,
            Err(error) => error.panic(),
        }
    }

    /// Lets a process charge up to `units` units of a key in advance and spend them without a call to the store, for at most one
    /// second. For keys with many requests well below their limit, in stores that several processes share; other stores ignore it.
    ///
    /// `units` is from 1 to the burst of a token bucket or GCRA, or the limit of a window. In any period all processes together
    /// admit at most what the policy promises plus the units in lease: the number of processes times `units`. See
    /// the guide to leases for the protocol.
    ///
    /// ```
    /// use portcullis::{Policy, Quota};
    ///
    /// // About one call for 500 units, and each process may admit 500 units more.
    /// const TENANT: Policy = Policy::token_bucket("tenant", Quota::per_second(10_000)).lease(500);
    /// assert_eq!(TENANT.max_lease().map(u64::from), Some(500));
    /// ```
    ///
    /// # Panics
    ///
    /// If the policy is a leaky bucket, a calendar window, a sliding log or a limit on requests in flight, or a token bucket or GCRA with a burst below
    /// [`MIN_LEASED_BURST`](Policy::MIN_LEASED_BURST); if `units` is 0 or more than the policy admits at one instant; if
    /// requests [wait](Policy::wait_at_most) under the policy; if it reads [overrides](Policy::allow_overrides).
    #[must_use]
    #[track_caller]
    pub const fn lease(mut self, units: u64) -> Self {
        match self.set_lease(units) {
            Ok(()) => self,
            Err(error) => error.panic(),
        }
    }

    /// The most units that one process has in [lease](Policy::lease) of one key; `None` if every decision is the store's.
    pub const fn max_lease(&self) -> Option<NonZeroU64> {
        self.lease_or_wait.units()
    }

    /// The name.
    #[inline]
    pub const fn name(&self) -> &PolicyName {
        &self.name
    }

    /// The algorithm with its parameters.
    #[inline]
    pub const fn strategy(&self) -> &Strategy {
        &self.strategy
    }

    /// What happens to a request when the store cannot answer.
    #[inline]
    pub const fn failure_mode(&self) -> FailureMode {
        self.failure_mode.get()
    }

    /// A digest of the name, the kind of strategy and its [structure](crate::store::Structure), by which stores in one process
    /// distinguish policies.
    ///
    /// It is not secret. Combined with a key's fingerprint by exclusive or, it identifies the state of that key under
    /// this policy. A policy whose limit, burst, debt or lease differs has the same digest, and so have the
    /// [share](Policy::share) of an instance and the [quota of a caller](Policy::with_quota).
    #[inline]
    pub const fn digest(&self) -> u128 {
        self.digest.get()
    }
}

#[cfg(test)]
mod tests;
