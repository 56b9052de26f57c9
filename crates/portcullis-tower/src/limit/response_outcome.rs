//! The outcome of a response, by which a policy decides whether the request stays charged.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use http::{HeaderMap, StatusCode, header};

use portcullis_response::internal::GRPC_STATUS;

/// The outcome of a request: its response, as far as it tells whether the request [stays
/// charged](crate::Limit::charge_when).
///
/// In HTTP it is known with the head of the response. In gRPC the status is in the trailers, at the end of the body, unless the
/// response has no messages.
///
/// ```
/// use portcullis::Limiter;
/// use portcullis::charge::ResponseOutcome;
///
/// /// Failed log-ins, in HTTP and in gRPC.
/// fn is_failed(outcome: &ResponseOutcome<'_>) -> bool {
///     match outcome.grpc_status() {
///         Some(status) => status == 16,
///         None => outcome.status() == 401,
///     }
/// }
///
/// # use portcullis::key::Global;
/// # use portcullis::{Policy, PolicyExt as _, Quota};
/// # let limiter = Limiter::memory();
/// let log_ins = Policy::fixed_window("log-ins", Quota::per_hour(5)).by(Global);
/// let layer = limiter.layer(log_ins.charge_when(is_failed));
/// assert_eq!(layer.policies().count(), 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ResponseOutcome<'a> {
    status: StatusCode,
    headers: &'a HeaderMap,
    trailers: Option<&'a HeaderMap>,
}

impl<'a> ResponseOutcome<'a> {
    pub(crate) fn new(status: StatusCode, headers: &'a HeaderMap, trailers: Option<&'a HeaderMap>) -> Self {
        Self { status, headers, trailers }
    }

    /// Returns the status of the response in HTTP, which is 200 for most gRPC responses.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Returns the status in gRPC, 0 for `OK`, from the trailers or, without a body, from the headers. A value that is not a
    /// number is 2, `UNKNOWN`. `None` if the response has no such status.
    pub fn grpc_status(&self) -> Option<i32> {
        let value = self.trailers.and_then(|trailers| trailers.get(&GRPC_STATUS));
        let value = value.or_else(|| self.headers.get(&GRPC_STATUS))?;
        Some(value.to_str().ok().and_then(|value| value.parse().ok()).unwrap_or(UNKNOWN))
    }

    /// Returns the headers of the response as the inner service has returned it, without those of this layer.
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// Returns the trailers of a gRPC response. `None` for a response that is judged by its head.
    pub fn trailers(&self) -> Option<&'a HeaderMap> {
        self.trailers
    }

    /// Whether the response is gRPC and its status is still to come, in the trailers.
    pub(crate) fn is_pending(&self) -> bool {
        self.status == StatusCode::OK && is_grpc(self.headers) && self.grpc_status().is_none()
    }
}

/// Whether the content type of a response is that of gRPC or gRPC-Web.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).map(http::HeaderValue::as_bytes).unwrap_or_default();
    let start = value.split_at_checked(GRPC.len());
    start.is_some_and(|(start, rest)| {
        start.eq_ignore_ascii_case(GRPC) && matches!(rest.first(), None | Some(b'+' | b';' | b'-'))
    })
}

/// Whether a policy charges a request, by its outcome.
#[derive(Clone, Default)]
pub(crate) struct OutcomeRule {
    /// Every outcome is charged without one.
    pub(crate) charge_when: Option<Arc<ChargeWhen>>,
    /// Whether a request is charged after its response, and not before it.
    pub(crate) charges_after: bool,
    /// The number of unsettled requests per key; the limit of the policy if `None`.
    pub(crate) max_unsettled: Option<usize>,
    /// Whether a request without an outcome is not charged.
    pub(crate) refunds_unanswered: bool,
}

pub(crate) type ChargeWhen = dyn Fn(&ResponseOutcome<'_>) -> bool + Send + Sync;

impl OutcomeRule {
    /// Whether a request with this outcome is charged; `None` if the closure panics.
    pub(crate) fn charges(&self, outcome: &ResponseOutcome<'_>) -> Option<bool> {
        match &self.charge_when {
            None => Some(true),
            Some(charge_when) => catch_unwind(AssertUnwindSafe(|| charge_when(outcome))).ok(),
        }
    }
}

impl fmt::Debug for OutcomeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutcomeRule").field("charges_after", &self.charges_after).finish_non_exhaustive()
    }
}

const GRPC: &[u8] = b"application/grpc";

/// Source: grpc.io, "Status codes and their use in gRPC".
const UNKNOWN: i32 = 2;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn head(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let value = |(name, value): &(&'static str, &'static str)| {
            (name.parse().unwrap(), HeaderValue::from_static(value))
        };
        pairs.iter().map(value).collect()
    }

    #[test]
    fn only_grpc_without_a_status_in_its_head_is_pending() {
        for (status, headers, pending) in [
            (200, head(&[("content-type", "application/grpc")]), true),
            (200, head(&[("content-type", "Application/GRPC+proto")]), true),
            (200, head(&[("content-type", "application/grpc-web-text")]), true),
            (200, head(&[("content-type", "application/grpc"), ("grpc-status", "0")]), false),
            (503, head(&[("content-type", "application/grpc")]), false),
            (200, head(&[("content-type", "application/grpcfoo")]), false),
            (200, head(&[("content-type", "application/json")]), false),
            (200, head(&[]), false),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(ResponseOutcome::new(status, &headers, None).is_pending(), pending, "{headers:?}");
        }
    }

    #[test]
    fn the_status_of_trailers_wins_and_may_be_malformed() {
        let (headers, trailers) = (head(&[("grpc-status", "0")]), head(&[("grpc-status", "16")]));
        let outcome = |trailers| ResponseOutcome::new(StatusCode::OK, &headers, trailers).grpc_status();
        assert_eq!((outcome(None), outcome(Some(&trailers))), (Some(0), Some(16)));
        assert_eq!(outcome(Some(&head(&[("grpc-status", "sixteen")]))), Some(2));
        assert_eq!(ResponseOutcome::new(StatusCode::OK, &head(&[]), None).grpc_status(), None);
    }
}
