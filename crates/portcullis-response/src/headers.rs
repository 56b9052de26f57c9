//! The names of the headers that the layer writes.
//!
//! A browser shows them to a script of another origin only if the CORS layer, which belongs *outside* of this layer,
//! exposes them: `RateLimitLayer::exposed_headers` lists those of one layer.

use http::HeaderName;

/// The maximum of the remaining units: the limit of windows, the burst of rate-based algorithms.
pub static X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// The units that would be admitted right now.
pub static X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// Seconds, rounded up, until the full limit is available again; optionally the Unix time of that.
pub static X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// `true` where the store could not answer and the request was not counted by it. A layer that counted nothing writes no
/// figures then; an inner or outer layer may.
pub static X_RATELIMIT_DEGRADED: HeaderName = HeaderName::from_static("x-ratelimit-degraded");
/// The names of the shadow policies that would have rejected the request, as a structured list of strings.
pub static X_RATELIMIT_SHADOW: HeaderName = HeaderName::from_static("x-ratelimit-shadow");
/// The names of the policies that the request comes near the limit of, as a structured list of strings: see
/// `Limit::warn_at`.
pub static X_RATELIMIT_WARNING: HeaderName = HeaderName::from_static("x-ratelimit-warning");
/// The decisive policy, the remaining units, and the time until there are more.
pub static RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// All enforced policies of the layer.
pub static RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The value of [`X_RATELIMIT_LIMIT`], under its name in the drafts before the seventh.
pub static RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
/// The value of [`X_RATELIMIT_REMAINING`], under its name in the drafts before the seventh.
pub static RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
/// Seconds, rounded up, until the full limit is available again.
pub static RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Returns the headers with the status, its message, its details and the wait of a gRPC rejection. A page that uses gRPC-Web
/// from another origin reads them only if the CORS layer exposes them.
///
/// ```
/// let names = portcullis::headers::grpc_web();
/// assert_eq!(names[0], "grpc-status");
/// ```
pub fn grpc_web() -> [HeaderName; 4] {
    [&GRPC_STATUS, &GRPC_MESSAGE, &GRPC_STATUS_DETAILS, &GRPC_RETRY_PUSHBACK_MS].map(Clone::clone)
}

/// The status of a call.
pub static GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
pub(crate) static GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
/// The details of an error.
pub static GRPC_STATUS_DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// Milliseconds after which a call may be retried.
pub static GRPC_RETRY_PUSHBACK_MS: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");
