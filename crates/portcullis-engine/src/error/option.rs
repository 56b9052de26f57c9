//! Why an option of a layer is invalid.

use std::time::Duration;

/// Why a layer cannot have an option with this value.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerOptionError {
    /// The retries would be spread over more than `RateLimitLayer::MAX_RETRY_SPREAD`.
    #[error("retries cannot be spread over {spread:?}: use at most {MAX_RETRY_SPREAD:?}")]
    RetrySpread {
        /// The length of time.
        spread: Duration,
    },
    /// The fraction of a soft limit is not between 0 and 1.
    #[error(
        "a policy cannot warn at {fraction} of its limit: use a fraction above 0 and below 1, such as 0.8"
    )]
    WarnAt {
        /// The fraction.
        fraction: f64,
    },
}

/// Longer than a service needs to serve those who wait, and short enough to be worth waiting.
pub const MAX_RETRY_SPREAD: Duration = Duration::from_secs(3_600);
