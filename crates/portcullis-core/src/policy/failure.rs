//! What happens to a request when the store cannot answer.

mod packed;

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

pub(super) use packed::PackedMode;

use crate::{Policy, QuotaError, Strategy};

/// What happens to a request when the store cannot answer.
///
/// The default is [`local(1)`](Self::local): each instance enforces the whole limit on its own, in memory.
///
/// The caller of the store implements [`Open`](Self::Open) and [`Closed`](Self::Closed). The other two need the decorator
/// `portcullis::store::Fallback` around the store, which `portcullis::Limiter` adds; without it they act as `Closed`.
///
/// A mode applies to an outage only. An [overload](crate::StoreErrorKind::is_overload) error rejects the request in every
/// mode: load must not give a client a second budget.
///
/// ```
/// use core::time::Duration;
/// use portcullis::{FailureMode, Policy, Quota};
///
/// const API: Policy = Policy::gcra("api", Quota::per_second(100).burst(200));
/// const LOGIN: Policy = Policy::fixed_window("login", Quota::per_minute(5))
///     .on_store_failure(FailureMode::Closed);
/// const SEARCH: Policy = Policy::gcra("search", Quota::per_second(100).burst(200))
///     .on_store_failure(FailureMode::local(4));
/// const PAGES: Policy = Policy::gcra("pages", Quota::per_second(100).burst(200))
///     .on_store_failure(FailureMode::OpenFor(Duration::from_secs(30)));
///
/// assert_eq!(API.failure_mode(), FailureMode::local(1));
/// assert_eq!(API.failure_mode().to_string(), "local, whole limit");
/// assert_eq!(API.share(), Some(API));
/// let share = SEARCH.share().expect("search is decided locally");
/// assert_eq!(share.strategy(), Policy::gcra("search", Quota::per_second(25).burst(50)).strategy());
/// assert_eq!(FailureMode::local(4).to_string(), "local share 1/4");
/// assert_eq!(PAGES.share(), None);
/// assert_eq!(LOGIN.failure_mode().to_string(), "closed");
/// ```
#[cfg_attr(feature = "serde", doc = include_str!("../serde_form/failure.md"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureMode {
    /// The request is allowed, and its decision is degraded. Nothing is limited during an outage.
    Open,
    /// The request is rejected as unavailable: 503, or UNAVAILABLE in gRPC. It is never reported as limited.
    Closed,
    /// Acts as [`Open`](Self::Open) until the outage has lasted this long, which is more than zero; then as
    /// [`Closed`](Self::Closed), until the store answers again.
    ///
    /// Use it where a limit that is off indefinitely is worse than a service that rejects requests. The duration of the outage
    /// is [reported by the store](crate::StoreError::outage); without a report it is the time for which the process has had no
    /// answer, or every charge was refused. A policy keeps at most 146 years.
    OpenFor(Duration),
    /// Each instance decides on its own, in memory, under its [share](Policy::share) of the limit. The memory of an instance
    /// starts empty, and its charges are not sent to the store when the store is back.
    ///
    /// Constructed by [`FailureMode::local`]; the default is `local(1)`, where each instance enforces the whole limit. A cost
    /// that fits the policy but not the share is rejected as unavailable, because it does not exceed the client's limit.
    ///
    /// # Bound
    ///
    /// Each start of an instance begins with an empty memory. So in any period of an outage, `r` instances that were running
    /// when it began and `s` starts since then admit per key at most `r + s` times what the share admits in a period; with
    /// the default, `r + s` times what the policy admits. In the same period, before or after the outage, the store admits at
    /// most what the policy admits, in addition. How often the store fails and recovers makes no difference: neither the
    /// store nor the memory drops its charges.
    Local {
        /// The number of instances that the limit is divided among, at least 1. If more instances run, more is admitted: each
        /// has a share.
        instances: NonZeroU32,
    },
}

impl FailureMode {
    /// The mode of a policy that does not state one.
    pub(super) const DEFAULT: Self = Self::Local { instances: NonZeroU32::MIN };

    /// [`Local`](Self::Local), with the limit divided among this number of instances. With 1 each instance enforces the
    /// whole limit.
    ///
    /// # Panics
    ///
    /// If `instances` is zero. A number that is not a constant has a type for this: [`FailureMode::Local`].
    #[track_caller]
    pub const fn local(instances: u32) -> Self {
        match NonZeroU32::new(instances) {
            Some(instances) => Self::Local { instances },
            None => FailureModeError::NoInstances.panic(),
        }
    }

    /// Whether requests are allowed without being counted once the outage has lasted this long.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::FailureMode;
    ///
    /// let a_while = FailureMode::OpenFor(Duration::from_secs(30));
    /// assert!(a_while.is_open_after(Duration::from_secs(29)));
    /// assert!(!a_while.is_open_after(Duration::from_secs(30)));
    /// assert!(FailureMode::Open.is_open_after(Duration::MAX));
    /// assert!(!FailureMode::Closed.is_open_after(Duration::ZERO));
    /// assert!(!FailureMode::local(4).is_open_after(Duration::ZERO));
    /// ```
    #[must_use]
    pub const fn is_open_after(self, outage: Duration) -> bool {
        match self {
            Self::Open => true,
            Self::OpenFor(most) => outage.as_nanos() < most.as_nanos(),
            Self::Closed | Self::Local { .. } => false,
        }
    }

    /// Checks whether a policy with this strategy can have this mode.
    pub(super) const fn validate(self, strategy: &Strategy) -> Result<(), FailureModeError> {
        match self {
            Self::OpenFor(outage) if outage.is_zero() => Err(FailureModeError::ZeroOpenFor),
            Self::Local { instances } => match strategy.share(instances) {
                Ok(_) => Ok(()),
                Err(error) => Err(FailureModeError::Share { instances, error }),
            },
            Self::Open | Self::Closed | Self::OpenFor(_) => Ok(()),
        }
    }
}

impl Default for FailureMode {
    /// [`FailureMode::local(1)`](FailureMode::local).
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl fmt::Display for FailureMode {
    /// Prints the mode for a log: `open`, `closed`, `open for 30s`, `local, whole limit`, `local share 1/4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Closed => f.write_str("closed"),
            Self::OpenFor(outage) => write!(f, "open for {outage:?}"),
            Self::Local { instances: NonZeroU32::MIN } => f.write_str("local, whole limit"),
            Self::Local { instances } => write!(f, "local share 1/{instances}"),
        }
    }
}

/// Why a policy cannot have a failure mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FailureModeError {
    /// The number of instances is zero.
    #[error("a local share among 0 instances: there must be at least 1")]
    NoInstances,
    /// The duration of [`FailureMode::OpenFor`] is zero.
    #[error("open for 0 s is never open: use a longer time, or the mode closed")]
    ZeroOpenFor,
    /// The share of one instance exceeds a bound of the algorithm.
    #[error("a local share among {instances} instances: {error}; name fewer instances")]
    Share {
        /// The number of instances.
        instances: NonZeroU32,
        /// What is wrong with the share.
        error: QuotaError,
    },
}

impl FailureModeError {
    /// Panics on an invalid literal.
    #[track_caller]
    pub(crate) const fn panic(self) -> ! {
        match self {
            Self::NoInstances => panic!("a local share needs at least 1 instance"),
            Self::ZeroOpenFor => {
                panic!("open for 0 s is never open: use a longer time, or the mode closed")
            }
            Self::Share { .. } => {
                panic!("the share of one instance takes longer than 2^51 microseconds, or has no unit")
            }
        }
    }
}

impl Policy {
    /// The policy under which one instance decides while the store fails; `None` if the mode is not [`FailureMode::Local`].
    ///
    /// Among n instances, a rate-based algorithm keeps a share of `max(1, burst / n)` of the burst, rounded down, and takes n
    /// times as long per unit; interval refill keeps its instants. A window or log keeps `limit / n` per period, rounded
    /// down. If the limit is less than n, it keeps one unit per several periods, as many as make n instances admit at most the
    /// limit per period on average. A calendar window and a limit on requests in flight keep `limit / n` as well, and must have a
    /// limit of at least n. With one instance, the default, the share is the policy itself. A share has no [lease](Policy::lease),
    /// the same longest [wait](Policy::wait_at_most), and `debt / n` of a [debt](Policy::allow_debt) that was set, rounded down.
    ///
    /// So n instances together stay within the bound of the policy's [algorithm](crate::Strategy) if its burst (limit) is at
    /// least n. If it is less, each instance still admits one unit at a time, so n units may be admitted at one instant; the
    /// long-term rate is kept.
    pub fn share(&self) -> Option<Self> {
        let FailureMode::Local { instances } = self.failure_mode() else { return None };
        self.share_among(instances).ok()
    }

    /// The policy under which one of this number of instances decides by itself: the [share](Policy::share) of a policy that is
    /// [local](FailureMode::Local) among them. For a store that the instances do not share.
    ///
    /// ```
    /// use core::num::NonZeroU32;
    /// use portcullis::{Policy, Quota};
    ///
    /// let search = Policy::gcra("search", Quota::per_second(100).burst(200));
    /// let share = search.share_among(NonZeroU32::new(4).expect("4 is not zero"))?;
    /// assert_eq!(share, Policy::gcra("search", Quota::per_second(25).burst(50)));
    /// # Ok::<(), portcullis::QuotaError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the share has a period, or takes a time to fill, beyond [`Quota::MAX_PERIOD`](crate::Quota::MAX_PERIOD), or if it is one of
    /// a calendar window or of a limit on requests in flight and has no unit.
    pub fn share_among(&self, instances: NonZeroU32) -> Result<Self, QuotaError> {
        let strategy = self.strategy.share(instances)?;
        let strategy = self.with_shared_ceiling(strategy, instances);
        Ok(Self { strategy, lease_or_wait: self.lease_or_wait.without_lease(), ..self.clone() })
    }
}

impl Strategy {
    pub(super) const fn share(&self, instances: NonZeroU32) -> Result<Self, QuotaError> {
        // The default mode is set without a call of `validate`, so every strategy must have this share.
        if instances.get() == 1 || self.limit() == 0 || self.is_unlimited() {
            return Ok(*self);
        }
        macro_rules! share {
            ($algorithm:expr, $kind:ident) => {
                match $algorithm.share(instances) {
                    Ok(share) => Ok(Self::$kind(share)),
                    Err(error) => Err(error),
                }
            };
        }
        match self {
            Self::TokenBucket(bucket) => share!(bucket, TokenBucket),
            Self::Gcra(gcra) => share!(gcra, Gcra),
            Self::LeakyBucket(bucket) => share!(bucket, LeakyBucket),
            Self::FixedWindow(window) => share!(window, FixedWindow),
            Self::CalendarWindow(window) => share!(window, CalendarWindow),
            Self::SlidingWindow(window) => share!(window, SlidingWindow),
            Self::SlidingLog(log) => share!(log, SlidingLog),
            Self::InFlight(limit) => share!(limit, InFlight),
        }
    }
}

#[cfg(test)]
mod tests;
