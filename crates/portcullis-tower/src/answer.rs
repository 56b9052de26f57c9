//! The answers that the layer gives itself, and what it adds to those of the inner service.

mod grpc;
mod plain;

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body_util::Full;
use portcullis_core::{Decision, Retry};

use crate::KeyError;
use crate::headers::{X_RATELIMIT_DEGRADED, X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET};

/// What an admitted request's response is told.
pub(crate) struct Note {
    pub(crate) decision: Decision,
    pub(crate) in_extensions: bool,
}

impl Note {
    /// An inner layer that has written its own headers or decision knows better.
    pub(crate) fn write<B>(self, response: &mut Response<B>) {
        let headers = response.headers_mut();
        if self.decision.is_degraded() {
            headers.insert(&X_RATELIMIT_DEGRADED, HeaderValue::from_static("true"));
        } else if !headers.contains_key(&X_RATELIMIT_LIMIT) {
            write_figures(&self.decision, headers);
        }
        if self.in_extensions && response.extensions().get::<Decision>().is_none() {
            response.extensions_mut().insert(self.decision);
        }
    }
}

/// Why a request does not reach the inner service.
#[derive(Clone, Copy)]
pub(crate) enum Refusal<'a> {
    /// A policy denies it.
    Limited(&'a Decision),
    /// Nobody can tell whom to charge.
    NoKey(&'a KeyError),
    /// The store cannot answer, and a policy is closed then.
    StoreFailed,
}

/// Refusals by whose turn it is to act.
#[derive(Clone, Copy)]
enum Kind {
    /// The client may come back later.
    TryLater,
    /// The client has to ask otherwise.
    BadRequest,
    /// The client has to say who it is.
    Unauthenticated,
    /// The store has to come back.
    Unavailable,
    /// The server has to be mended.
    Misconfigured,
}

impl Refusal<'_> {
    /// The response, in the manner of the request: gRPC or plain HTTP.
    pub(crate) fn response(self, request: &HeaderMap) -> Response<Full<Bytes>> {
        let mut response = match grpc::content_type(request) {
            Some(content_type) => grpc::response(self, content_type),
            None => plain::response(self),
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Self::Limited(decision) = self {
            write_figures(decision, headers);
            if let Some(wait) = self.wait() {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(wait).max(1)));
            }
        }
        response
    }

    fn kind(self) -> Kind {
        match self {
            Self::Limited(_) if self.wait().is_none() => Kind::BadRequest,
            Self::Limited(_) => Kind::TryLater,
            Self::NoKey(error) if error.challenge().is_some() => Kind::Unauthenticated,
            Self::NoKey(error) if error.is_client_fault() => Kind::BadRequest,
            Self::NoKey(_) => Kind::Misconfigured,
            Self::StoreFailed => Kind::Unavailable,
        }
    }

    /// How long until it is worth another try, if it ever is.
    fn wait(self) -> Option<Duration> {
        match self {
            Self::Limited(decision) => match decision.retry() {
                Some(Retry::After(wait)) => Some(wait),
                Some(Retry::Never) | None => None,
            },
            Self::NoKey(_) | Self::StoreFailed => None,
        }
    }

    /// What a person reads. The server's faults are not told to strangers.
    fn text(self) -> Cow<'static, str> {
        match self {
            Self::Limited(_) => match self.wait() {
                Some(wait) => {
                    format!("rate limit exceeded: retry after {} s", whole_seconds(wait).max(1)).into()
                }
                None => "the cost of this request exceeds what the rate limit can ever admit".into(),
            },
            Self::NoKey(error) if error.is_client_fault() => error.to_string().into(),
            Self::NoKey(_) => "the server cannot tell who is calling".into(),
            Self::StoreFailed => "the rate limiter cannot answer at the moment".into(),
        }
    }
}

fn write_figures(decision: &Decision, headers: &mut HeaderMap) {
    headers.insert(&X_RATELIMIT_LIMIT, HeaderValue::from(decision.limit()));
    headers.insert(&X_RATELIMIT_REMAINING, HeaderValue::from(decision.remaining()));
    headers.insert(&X_RATELIMIT_RESET, HeaderValue::from(whole_seconds(decision.reset_after())));
}

/// Rounded up: who comes back after so many seconds is not too early.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use portcullis_core::{Policy, Quota, Report, Timestamp};

    use super::*;

    #[test]
    fn a_wait_of_nothing_is_told_as_the_least_there_is() {
        let retry = Some(Retry::After(Duration::ZERO));
        let (reset_after, next_after, delay) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let report = Report { limit: 1, remaining: 0, reset_after, next_after, retry, delay };
        let policy = Policy::gcra("all", Quota::per_second(1));
        let decision = Decision::new(&policy, Timestamp::EPOCH, report);
        let mut request = HeaderMap::new();
        let response = Refusal::Limited(&decision).response(&request);
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (429, &HeaderValue::from(1))
        );
        request.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let response = Refusal::Limited(&decision).response(&request);
        assert_eq!(response.headers()["grpc-retry-pushback-ms"], "1");
    }
}
