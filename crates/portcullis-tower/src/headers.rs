//! The names of the headers that the layer writes.
//!
//! A browser shows them to a script of another origin only if the CORS layer, which belongs *outside* of the limit,
//! exposes them, and `retry-after` with them.

use http::HeaderName;

/// The most that may remain: the limit of windows, the burst of meters.
pub static X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// The units that would be admitted right now.
pub static X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// Seconds, rounded up, until the caller counts as one who never came.
pub static X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// `true` where the store could not answer and the request went through uncounted. That layer writes none of the other
/// three then; a layer inside or outside of it may.
pub static X_RATELIMIT_DEGRADED: HeaderName = HeaderName::from_static("x-ratelimit-degraded");
