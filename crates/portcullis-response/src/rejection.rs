//! Maps the cause of a rejection to its reason, status and message.

use std::borrow::Cow;
use std::ptr;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use portcullis_core::store::Outcome;
use portcullis_core::{Decision, Key, PolicyName, Retry};

use crate::RejectionFormat;
use crate::fields;
use crate::fields::values::{self, ItemBuf};
use portcullis_engine::{PolicySet, Reason, Rejected};
use portcullis_identity::KeyError;

/// A request that does not reach the inner service, and the reason. The argument of a closure given to
/// `RateLimitLayer::reject_with`.
#[derive(Clone, Copy, Debug)]
pub struct Rejection<'a> {
    parts: &'a Parts,
    cause: Cause<'a>,
    /// Added to the wait.
    retry_offset: Duration,
    /// The format of the body for a client without a preference.
    format: RejectionFormat,
}

/// What a closure returns that makes the responses to rejected requests: a `Response` with its body in one piece.
///
/// ```compile_fail,E0277
/// use http::Response;
/// use portcullis::layer::RejectionResponse;
///
/// fn reject_with<R: RejectionResponse>(closure: impl Fn() -> R) {}
/// reject_with(|| Response::new("a body that is no `Bytes`".to_owned()));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the response to a rejection",
    label = "not a `Response<Bytes>`",
    note = "return a `Response<Bytes>`: `rejection.response()`, changed where needed, or `Response::new(text.into())`",
    note = "the closure is not awaited: it is neither `async` nor returns an `async` block"
)]
pub trait RejectionResponse {
    /// Returns the response itself.
    #[doc(hidden)]
    fn into_response(self) -> Response<Bytes>;
}

impl RejectionResponse for Response<Bytes> {
    fn into_response(self) -> Self {
        self
    }
}

/// Of a closure that does not return.
#[expect(private_interfaces, reason = "it names `!`, which Rust has only behind `->`")]
impl RejectionResponse for <fn() -> ! as Returns>::Type {
    fn into_response(self) -> Response<Bytes> {
        self
    }
}

trait Returns {
    type Type;
}

impl<T> Returns for fn() -> T {
    type Type = T;
}

/// Why a request is rejected.
#[derive(Clone, Copy, Debug)]
pub enum Cause<'a> {
    /// Its limits reject it.
    Limits(&'a Rejected),
    /// A list denies it.
    Denied,
    /// It has no key.
    NoKey(&'a KeyError),
    /// Its key could not be looked up.
    LookupFailed,
    /// The server is overloaded. The wait is the offset.
    Shed,
}

impl Cause<'_> {
    /// The reason, as events have it.
    pub fn reason(&self) -> Reason {
        match self {
            Cause::Limits(rejected) => rejected.reason(),
            Cause::Denied => Reason::Denied,
            Cause::NoKey(error) if error.challenge().is_some() => Reason::Unauthenticated,
            Cause::NoKey(error) if error.is_client_fault() => Reason::BadIdentity,
            Cause::NoKey(_) => Reason::Misconfigured,
            Cause::LookupFailed => Reason::LookupFailed,
            Cause::Shed => Reason::Shed,
        }
    }
}

impl<'a> Rejection<'a> {
    /// The rejection of a request, for which no time is added to the wait.
    pub fn new(parts: &'a Parts, cause: Cause<'a>) -> Self {
        Self { parts, cause, retry_offset: Duration::ZERO, format: RejectionFormat::default() }
    }

    /// Adds to the wait of a client that may retry.
    #[must_use]
    pub fn retried_later_by(self, retry_offset: Duration) -> Self {
        Self { retry_offset, ..self }
    }

    /// Sets the format of the body for a client without a preference.
    #[must_use]
    pub fn in_format(self, format: RejectionFormat) -> Self {
        Self { format, ..self }
    }

    pub(crate) fn format(&self) -> RejectionFormat {
        self.format
    }

    /// Returns the request without its body. For a check in a handler, which has no request, it is an empty
    /// `GET` of `/`, with the `Check::accept` that the handler has given.
    pub fn parts(&self) -> &'a Parts {
        self.parts
    }

    /// Returns the reason.
    pub fn reason(&self) -> Reason {
        self.cause.reason()
    }

    /// Returns the decision of the decisive policy, if the request was limited.
    pub fn decision(&self) -> Option<&'a Decision> {
        self.limited().map(|(outcome, _)| outcome.decision())
    }

    /// The denial of a request that was limited, and the policies that were checked.
    pub(crate) fn limited(&self) -> Option<(&'a Outcome, PolicySet)> {
        match self.cause {
            Cause::Limits(
                Rejected::Limited { outcome, checked, .. } | Rejected::Late { outcome, checked },
            ) => Some((outcome, *checked)),
            _ => None,
        }
    }

    /// Returns the narrowest key of a request that was limited.
    pub fn key(&self) -> Option<Key> {
        self.limited().and_then(|(outcome, _)| outcome.checks().narrowest_key())
    }

    /// Returns the decision of each enforced policy, in order; empty if the store was not called or could not answer.
    pub fn decisions(&self) -> &'a [Decision] {
        match self.cause {
            Cause::Limits(rejected) => rejected.decisions(),
            _ => &[],
        }
    }

    /// Returns the policies that deny the request. Others may allow it; they have charged nothing.
    pub fn violated_policies(&self) -> impl Iterator<Item = &'a PolicyName> {
        let unsettled = match self.cause {
            Cause::Limits(Rejected::Unsettled { policy, .. }) => Some(policy),
            _ => None,
        };
        let denials = self.decisions().iter().filter(|decision| !decision.is_allowed());
        denials.map(Decision::policy).chain(unsettled)
    }

    /// Returns whether the key of a policy is blocked: by a `Limit::lock_out` or
    /// by hand.
    pub fn is_blocked(&self) -> bool {
        self.decisions().iter().any(Decision::is_blocked)
    }

    /// Returns the time until a retry can succeed: exact, such as 200 ms at 5 per second, or `RateLimitLayer::spread_retries` if
    /// the layer does so. `None` if no retry can succeed, or the wait is unknown.
    pub fn retry_after(&self) -> Option<Duration> {
        if matches!(self.cause, Cause::Shed) {
            return Some(self.retry_offset);
        }
        match self.decision()?.retry() {
            Some(Retry::After(wait)) => Some(wait.saturating_add(self.retry_offset)),
            Some(Retry::Unknown | Retry::Never) | None => None,
        }
    }

    /// Returns the value of `Retry-After`: [`retry_after`](Self::retry_after) in whole seconds, rounded up, at least 1. A caller
    /// that waits itself waits for the exact time.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after().map(fields::retry_after)
    }

    /// Returns the status of the [default response](Self::response).
    pub fn status(&self) -> StatusCode {
        match self.reason() {
            Reason::Limited | Reason::Blocked | Reason::Unsettled => StatusCode::TOO_MANY_REQUESTS,
            Reason::NeverFits | Reason::BadIdentity => StatusCode::BAD_REQUEST,
            Reason::Denied => StatusCode::FORBIDDEN,
            Reason::Unauthenticated => StatusCode::UNAUTHORIZED,
            Reason::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns one sentence for people: lower case, no full stop. It does not describe errors of the server, except that in a
    /// build with debug assertions it names the line that is missing where `ClientIp` finds no address.
    pub fn message(&self) -> Cow<'a, str> {
        match self.cause {
            Cause::Limits(Rejected::Limited { .. } | Rejected::Late { .. }) => {
                match self.retry_after_seconds() {
                    Some(wait) if self.is_blocked() => format!("{}{wait} s", self.blocked()).into(),
                    Some(wait) => format!("{RETRY_AFTER}{wait} s").into(),
                    None if self.is_in_flight() => in_progress(self.is_of_shared_key()).into(),
                    None if self.is_zero() && self.is_of_shared_key() => ZERO.into(),
                    None if self.is_zero() => ZERO_OF_CLIENT.into(),
                    None => "the cost of this request exceeds what the rate limit can ever admit".into(),
                }
            }
            Cause::Denied => "this server does not allow the request".into(),
            Cause::Limits(Rejected::Unsettled { key, .. }) => in_progress(key.is_shared()).into(),
            Cause::NoKey(error) if error.is_client_fault() => error.to_string().into(),
            Cause::NoKey(error) => match error.setup_hint() {
                Some(hint) => format!("{UNKNOWN_CLIENT}: {hint}").into(),
                None => UNKNOWN_CLIENT.into(),
            },
            Cause::LookupFailed => UNKNOWN_CLIENT.into(),
            Cause::Limits(Rejected::StoreFailed) => "the rate limiter cannot answer at the moment".into(),
            Cause::Limits(Rejected::Overloaded) => "the server is overloaded".into(),
            Cause::Shed => format!("{OVERLOADED}{} s", self.retry_after_seconds().unwrap_or_default()).into(),
        }
    }

    /// Appends the [message](Self::message). The most frequent one needs no allocation here.
    pub(crate) fn push_message(&self, text: &mut ItemBuf) {
        match (self.limited(), self.retry_after_seconds()) {
            (Some(_), Some(wait)) => {
                let start = if self.is_blocked() { self.blocked() } else { RETRY_AFTER };
                text.extend_from_slice(start.as_bytes());
                values::push_number(text, wait);
                text.extend_from_slice(b" s");
            }
            _ => text.extend_from_slice(self.message().as_bytes()),
        }
    }

    pub(crate) fn cause(&self) -> Cause<'a> {
        self.cause
    }

    /// Whether the quota admits nothing.
    fn is_zero(&self) -> bool {
        self.decision().is_some_and(|decision| decision.limit() == 0)
    }

    /// Whether too many requests are in flight, so that the wait is unknown.
    fn is_in_flight(&self) -> bool {
        self.decision().and_then(Decision::retry) == Some(Retry::Unknown)
    }

    /// The start of the message about a block.
    fn blocked(&self) -> &'static str {
        if self.is_of_shared_key() { BLOCKED } else { CLIENT_BLOCKED }
    }

    /// Whether clients share the key of the decisive policy, so that the message says nothing about one of them.
    fn is_of_shared_key(&self) -> bool {
        let Some((outcome, _)) = self.limited() else { return false };
        let decisive = outcome.decision();
        let mut checks = outcome.checks().iter().zip(outcome.decisions());
        checks.any(|(check, decision)| ptr::eq(decision, decisive) && check.key.is_shared())
    }

    pub(crate) fn challenge(&self) -> Option<&'a HeaderValue> {
        match self.cause {
            Cause::NoKey(error) => error.challenge(),
            _ => None,
        }
    }
}

/// Why a request is not admitted beside others that run, under a key that clients share or under that of one client.
const fn in_progress(is_shared: bool) -> &'static str {
    if is_shared {
        "too many requests are in progress"
    } else {
        "too many requests of this client are in progress"
    }
}

const RETRY_AFTER: &str = "rate limit exceeded: retry after ";
const ZERO: &str = "rate limit exceeded: the quota is zero, so that it admits no requests";
const ZERO_OF_CLIENT: &str =
    "rate limit exceeded: the quota of this client is zero, so that it admits no requests";
const OVERLOADED: &str = "the service is overloaded: retry after ";
const BLOCKED: &str = "these requests are blocked: retry after ";
const CLIENT_BLOCKED: &str = "this client is blocked: retry after ";
const UNKNOWN_CLIENT: &str = "the server cannot tell who is calling";
