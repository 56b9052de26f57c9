//! The names of the headers that the layer writes.
//!
//! A browser shows them to a script of another origin only if the CORS layer, which belongs *outside* of the limit,
//! exposes them: [`RateLimitLayer::exposed_headers`](crate::RateLimitLayer::exposed_headers) lists those of one layer.

use http::HeaderName;

/// The most that may remain: the limit of windows, the burst of meters.
pub static X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// The units that would be admitted right now.
pub static X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// Seconds, rounded up, until the caller counts as one who never came; on request, the Unix time of that.
pub static X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// `true` where the store could not answer and the request went through uncounted. That layer writes no figures then; a
/// layer inside or outside of it may.
pub static X_RATELIMIT_DEGRADED: HeaderName = HeaderName::from_static("x-ratelimit-degraded");
/// The names of the shadow policies that would have refused the request, as a structured list of strings.
pub static X_RATELIMIT_SHADOW: HeaderName = HeaderName::from_static("x-ratelimit-shadow");
/// The policy that decided, what remains, and when there is more.
pub static RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// All policies of the layer that are enforced.
pub static RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// What [`X_RATELIMIT_LIMIT`] says, under its name in the drafts before the seventh.
pub static RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
/// What [`X_RATELIMIT_REMAINING`] says, under its name in the drafts before the seventh.
pub static RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
/// Seconds, rounded up, until the caller counts as one who never came.
pub static RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// The status, its message, its details and the wait of a gRPC refusal. A page that speaks gRPC-Web to another origin
/// reads them only if the CORS layer exposes them.
///
/// ```
/// let names = portcullis_tower::headers::grpc_web();
/// assert_eq!(names[0], "grpc-status");
/// ```
pub fn grpc_web() -> [HeaderName; 4] {
    [&GRPC_STATUS, &GRPC_MESSAGE, &GRPC_STATUS_DETAILS, &GRPC_RETRY_PUSHBACK_MS].map(Clone::clone)
}

pub(crate) static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(crate) static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
pub(crate) static GRPC_STATUS_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
pub(crate) static GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
