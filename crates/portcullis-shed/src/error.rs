//! Why a layer that sheds load cannot be made as it is described.

use std::time::Duration;

use portcullis_engine::LayerOptionError;

/// An option of a [`ShedLayer`](crate::ShedLayer) that is out of range.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ShedError {
    /// The limit may not move within this range.
    #[error(
        "a limit on requests in flight cannot move from {floor} to {ceiling}: use a range within 1 and {}",
        crate::MAX_LIMIT
    )]
    Range {
        /// The smallest limit.
        floor: usize,
        /// The largest limit.
        ceiling: usize,
    },
    /// A share of the limit is out of range.
    #[error("{share} of a limit cannot be set aside: use a fraction from 0, and below 1")]
    Share {
        /// The share.
        share: f64,
    },
    /// The ratio of latencies is out of range.
    #[error("a latency of {ratio} times that without load cannot be tolerated: use a ratio from 1.1 to 10")]
    Tolerance {
        /// The ratio.
        ratio: f64,
    },
    /// The range of `Retry-After` is empty.
    #[error("rejections cannot ask for a wait from {shortest:?} to {longest:?}: the first is the longer one")]
    RetryAfter {
        /// The shortest wait.
        shortest: Duration,
        /// The longest wait.
        longest: Duration,
    },
    /// Callers cannot have shares by a key that does not tell them apart.
    #[error(
        "the places in flight cannot be shared per `{key}`, {}: use a key that the server determines, such as `ClientIp`",
        if *.is_shared { "which is one for all callers" } else { "of which a caller can make up any number" }
    )]
    ShareKey {
        /// The description of the key.
        key: String,
        /// Whether it is one for all callers.
        is_shared: bool,
    },
    /// The waits of rejections would be spread too far.
    #[error(transparent)]
    RetrySpread(#[from] LayerOptionError),
}
