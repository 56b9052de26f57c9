//! The rejection of a check, as a value.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use portcullis_core::Decision;

use super::accept;
use crate::{KeyError, Reason, Registry, Rejection};
use portcullis_engine::Rejected;
use portcullis_response::internal::{Cause, ResponseSettings};

/// Why a check in a handler is rejected, and the response of a layer to that: status, headers and body.
///
/// With the feature `axum` it implements `IntoResponse`, so that a handler returns it by `?`. With the feature `tonic` a
/// `tonic::Status` is made of it by `?`, with the details and headers of a gRPC rejection. The headers of the budget that it
/// writes win over those of a layer around the handler.
///
/// ```
/// use portcullis::testing::{self, ManualClock};
/// use portcullis::{Decision, Policy, Quota, Reason};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let limiter = testing::limiter(&ManualClock::default());
/// let exports = Policy::fixed_window("exports", Quota::per_day(10));
/// let check = limiter.check(&exports).by(|key| key.part("user", b"ada")).cost(11);
/// let limited = check.await.unwrap_err();
/// assert_eq!(limited.reason(), Reason::NeverFits);
/// assert_eq!(limited.decision().map(Decision::remaining), Some(10));
/// let response = limited.into_http();
/// assert_eq!((response.status().as_u16(), &response.headers()["x-ratelimit-remaining"]), (400, &10.into()));
/// # }
/// ```
#[derive(Clone)]
pub struct Limited(Box<Inner>);

#[derive(Clone)]
struct Inner {
    responses: Arc<ResponseSettings>,
    cause: Arc<Refusal>,
    /// Added to the wait.
    retry_offset: Duration,
    /// An empty request, with the `Accept` that the handler has given.
    parts: Parts,
}

/// Why a check is not admitted.
#[expect(clippy::large_enum_variant, reason = "nearly every refusal is the largest variant")]
pub(super) enum Refusal {
    Limits(Rejected),
    NoKey(KeyError),
}

impl Refusal {
    fn as_cause(&self) -> Cause<'_> {
        match self {
            Self::Limits(rejected) => Cause::Limits(rejected),
            Self::NoKey(error) => Cause::NoKey(error),
        }
    }
}

impl Limited {
    pub(super) fn new(responses: Arc<ResponseSettings>, cause: Refusal, accept: HeaderMap) -> Self {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.headers = accept;
        let (retry_offset, cause) = (responses.retry_offset(cause.as_cause()), Arc::new(cause));
        Self(Box::new(Inner { responses, cause, retry_offset, parts }))
    }

    /// Returns what the closure for rejections gets: the reason, the decisions, the
    /// violated policies and the message. Its [parts](Rejection::parts) are those of an empty request.
    pub fn rejection(&self) -> Rejection<'_> {
        let rejection = Rejection::new(&self.0.parts, self.0.cause.as_cause());
        rejection.retried_later_by(self.0.retry_offset).in_format(self.0.responses.format())
    }

    /// Returns the reason.
    pub fn reason(&self) -> Reason {
        self.rejection().reason()
    }

    /// Returns the decision of the decisive policy, if the check was limited; `None` for any other reason.
    pub fn decision(&self) -> Option<&Decision> {
        self.rejection().decision()
    }

    /// Returns the status of the default response in HTTP: 429 if the check was limited.
    pub fn status(&self) -> StatusCode {
        self.rejection().status()
    }

    /// Returns the time until a retry can succeed, exact, for a caller that waits itself. `None` if no retry can succeed, or the
    /// wait is unknown.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use portcullis::testing::{self, ManualClock};
    /// use portcullis::{Policy, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let limiter = testing::limiter(&ManualClock::default());
    /// let messages = Policy::gcra("messages", Quota::per_second(5));
    /// let check = || limiter.check(&messages).by(|key| key.part("user", b"ada"));
    /// assert!(check().await.is_ok());
    /// let limited = check().await.expect_err("a message every 200 ms");
    /// assert_eq!(limited.retry_after(), Some(Duration::from_millis(200)));
    /// assert_eq!(limited.retry_after_seconds(), Some(1));
    /// # }
    /// ```
    pub fn retry_after(&self) -> Option<Duration> {
        self.rejection().retry_after()
    }

    /// Returns the value of `Retry-After`: [`retry_after`](Self::retry_after) in whole seconds, rounded up, at least 1.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.rejection().retry_after_seconds()
    }

    /// Sets the body format of the response by the `Accept` of a request, as [`Check::accept`](crate::Check::accept) does.
    #[must_use]
    pub fn accept(mut self, request: &HeaderMap) -> Self {
        self.0.parts.headers = accept(request);
        self
    }

    /// Returns the response of a layer: from the closure for rejections if there is one, with
    /// the headers of a rejection.
    pub fn into_http(self) -> Response<Bytes> {
        // An outer layer, if there is one, does not write its budget where this response has no figures.
        self.0.responses.render_rejection(&self.rejection())
    }

    /// Returns the close code for a WebSocket: 1008, policy violation, if the client caused the rejection; 1013, try again
    /// later, if the server cannot decide; 1011 for an error in its set-up.
    ///
    /// Source: RFC 6455, section 7.4.1; the registry of close codes of IANA.
    pub fn close_code(&self) -> u16 {
        match self.reason() {
            Reason::Limited
            | Reason::Blocked
            | Reason::NeverFits
            | Reason::BadIdentity
            | Reason::Unauthenticated
            | Reason::Denied => 1008,
            Reason::Misconfigured => 1011,
            _ => 1013,
        }
    }

    /// Returns the reason text for a WebSocket: [the message](Rejection::message), such as `rate limit exceeded: retry after
    /// 5 s`, in at most 123 bytes, which is what a close frame has room for.
    ///
    /// Source: RFC 6455, section 5.5.
    pub fn close_reason(&self) -> String {
        let mut text = self.rejection().message().into_owned();
        while text.len() > MAX_CLOSE_REASON {
            text.pop();
        }
        text
    }

    /// The empty request that stands for one of gRPC.
    #[cfg(feature = "tonic")]
    pub(super) fn into_grpc(mut self) -> Response<Bytes> {
        self.0.parts.method = http::Method::POST;
        let grpc = http::HeaderValue::from_static("application/grpc");
        self.0.parts.headers.insert(http::header::CONTENT_TYPE, grpc);
        self.into_http()
    }
}

impl fmt::Display for Limited {
    /// Writes [the message](Rejection::message).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rejection().message())
    }
}

impl fmt::Debug for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited")
            .field("reason", &self.reason())
            .field("decision", &self.decision())
            .finish_non_exhaustive()
    }
}

impl std::error::Error for Limited {}

/// The rejection of what would have to wait where too many wait already, as a layer of the registry answers.
pub fn overloaded(registry: &Registry) -> Limited {
    let responses = Arc::new(registry.default_responses());
    Limited::new(responses, Refusal::Limits(Rejected::Overloaded), HeaderMap::new())
}

/// A control frame has up to 125 bytes, two of which are the code.
const MAX_CLOSE_REASON: usize = 123;

#[cfg(test)]
mod tests {
    use super::*;

    fn limited(cause: Refusal) -> Limited {
        Limited::new(Arc::new(ResponseSettings::default()), cause, HeaderMap::new())
    }

    #[test]
    fn close_codes_tell_clients_from_servers() {
        for (cause, code) in [
            (Refusal::NoKey(KeyError::client("malformed")), 1008),
            (Refusal::NoKey(KeyError::server("no set-up")), 1011),
            (Refusal::Limits(Rejected::StoreFailed), 1013),
            (Refusal::Limits(Rejected::Overloaded), 1013),
        ] {
            assert_eq!(limited(cause).close_code(), code);
        }
    }

    #[test]
    fn a_close_reason_fits_into_a_frame() {
        let long = limited(Refusal::NoKey(KeyError::client("\u{20ac}".repeat(60))));
        assert_eq!(long.close_reason(), "\u{20ac}".repeat(41));
        assert_eq!(limited(Refusal::Limits(Rejected::Overloaded)).close_reason(), "the server is overloaded");
    }

    #[test]
    fn a_result_with_a_rejection_stays_small() {
        assert_eq!(size_of::<Limited>(), size_of::<usize>());
    }
}
