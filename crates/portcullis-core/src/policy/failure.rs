//! What becomes of a request when the store cannot answer.

use core::fmt;
use core::num::NonZeroU32;
use core::time::Duration;

use crate::{Policy, QuotaError, Strategy};

/// What becomes of a request when the store cannot answer.
///
/// The default is [`local(1)`](Self::local): each instance enforces the whole limit by itself, in memory.
///
/// [`Open`](Self::Open) and [`Closed`](Self::Closed) are answered by the caller of the store. The other two need the
/// decorator `Fallback` of `portcullis-memory` round the store, which `portcullis::Limiter` puts there; over a bare store they
/// are answered as `Closed`.
///
/// A mode applies to an outage only. An error that [says that too much is asked](crate::StoreErrorKind::is_overload) rejects
/// the request in every mode: pressure must not open a second budget.
///
/// ```
/// use core::time::Duration;
/// use portcullis_core::{Policy, Quota, FailureMode};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureMode {
    /// The request goes through, and its decision says that it is degraded. Nothing is limited during an outage.
    Open,
    /// The request is refused as unavailable: 503, or UNAVAILABLE in gRPC. It is never called limited.
    Closed,
    /// As [`Open`](Self::Open) until the outage has lasted so long, which is more than zero; from then on as
    /// [`Closed`](Self::Closed), until the store answers again.
    ///
    /// For who fears a limit that is off without end more than a service that refuses. How long the outage has lasted
    /// is what the store [says](crate::StoreError::outage), else how long the process has had no answer from it, or was
    /// refused every charge.
    OpenFor(Duration),
    /// Each instance decides by itself, in memory, under its [share](Policy::share) of the limit. The memory of an instance
    /// starts empty, and what it charges is not sent to the store when the store is back.
    ///
    /// Written as [`FailureMode::local`]; `local(1)`, where each instance enforces the whole limit, is the default. A cost
    /// that fits the policy but not the share is refused as unavailable, because it is not the caller's limit that it exceeds.
    ///
    /// # Bound
    ///
    /// Each start of an instance begins with an empty memory. So in any period of an outage, `r` instances that were running
    /// when it began and `s` starts since admit per key at most `r + s` times what the share admits in a period; with the
    /// default, `r + s` times what the policy admits. What the store admitted in the same period, before the outage or after
    /// it, is at most what the policy admits once more. How often the store fails and returns makes no difference: neither
    /// the store nor the memory forgets what it has charged.
    Local {
        /// The number of instances that the limit is divided among, at least 1. More instances than that admit more: each
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
    /// If `instances` is zero.
    #[track_caller]
    pub const fn local(instances: u32) -> Self {
        match Self::try_local(instances) {
            Ok(local) => local,
            Err(error) => error.panic(),
        }
    }

    /// Like [`FailureMode::local`], for a number that comes from elsewhere.
    ///
    /// # Errors
    ///
    /// If `instances` is zero.
    pub const fn try_local(instances: u32) -> Result<Self, FailureModeError> {
        match NonZeroU32::new(instances) {
            Some(instances) => Ok(Self::Local { instances }),
            None => Err(FailureModeError::NoInstances),
        }
    }

    /// Whether requests go through, uncounted, when the store has not answered for so long.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis_core::FailureMode;
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

    /// Whether it can be the answer of a policy with this strategy.
    pub(super) const fn suits(self, strategy: &Strategy) -> Result<(), FailureModeError> {
        match self {
            Self::OpenFor(outage) if outage.is_zero() => Err(FailureModeError::OpenForNothing),
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
    /// Prints it for a log: `open`, `closed`, `open for 30s`, `local, whole limit`, `local share 1/4`.
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

/// Why a policy cannot answer so when the store fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FailureModeError {
    /// The limit was to be divided among nobody.
    #[error("a local share among 0 instances: there must be at least 1")]
    NoInstances,
    /// Open for no time at all.
    #[error("open for 0 s is never open: give a longer time, or answer closed")]
    OpenForNothing,
    /// The share of one instance is beyond what can be computed.
    #[error("a local share among {instances} instances: {error}; name fewer instances")]
    Share {
        /// How many instances were to share the limit.
        instances: NonZeroU32,
        /// What is wrong with the share.
        error: QuotaError,
    },
}

impl FailureModeError {
    /// Ends a literal that is nonsense.
    #[track_caller]
    pub(crate) const fn panic(self) -> ! {
        match self {
            Self::NoInstances => panic!("a local share is of at least 1 instance"),
            Self::OpenForNothing => {
                panic!("open for 0 s is never open: give a longer time, or answer closed")
            }
            Self::Share { .. } => panic!("the share of one instance takes longer than 2^51 microseconds"),
        }
    }
}

impl Policy {
    /// The policy that one instance decides under while the store fails, if the policy is [`FailureMode::Local`].
    ///
    /// Among n instances a meter keeps a share of `max(1, burst / n)` of the burst, rounded down, and takes n times as long
    /// per unit; interval refill keeps its instants. A window or log keeps `limit / n` per period, rounded down; if
    /// the limit is less than n, one unit in so many periods that n instances admit no more than the limit in one on average.
    /// With one instance, the default, it is the policy itself.
    ///
    /// So what n instances admit together stays within what the [algorithm](crate::Algorithm) of the policy promises, as
    /// long as its burst (limit) is at least n. If it is less, an instance still admits one unit at a time, so that n
    /// may go through at one instant; the rate in the long run is kept.
    pub fn share(&self) -> Option<Self> {
        let FailureMode::Local { instances } = self.failure_mode else { return None };
        let strategy = self.strategy.share(instances).ok()?;
        Some(Self { strategy, ..self.clone() })
    }
}

impl Strategy {
    const fn share(&self, instances: NonZeroU32) -> Result<Self, QuotaError> {
        // Every strategy has this share: it is the mode of a policy that was never asked whether it suits.
        if instances.get() == 1 {
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
            Self::SlidingWindow(window) => share!(window, SlidingWindow),
            Self::SlidingLog(log) => share!(log, SlidingLog),
        }
    }
}

#[cfg(test)]
mod tests;
