//! Why a request does not reach the inner service.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use portcullis_core::{Decision, Outcome, PolicyName, Retry};

use super::{fields, problem};
use crate::KeyError;

/// A request that does not reach the inner service, and why: what a closure given to
/// [`RateLimitLayer::reject_with`](crate::RateLimitLayer::reject_with) makes a response of.
#[derive(Clone, Copy, Debug)]
pub struct Rejection<'a> {
    parts: &'a Parts,
    cause: Cause<'a>,
}

/// Why a request does not reach the inner service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A policy denies it, and later it fits: 429, in gRPC `RESOURCE_EXHAUSTED`.
    Limited,
    /// Its cost exceeds what a policy can ever admit: 400, in gRPC `INVALID_ARGUMENT`.
    NeverFits,
    /// It does not say who is calling, or not in a way that can be accepted: 400, in gRPC `INVALID_ARGUMENT`.
    BadIdentity,
    /// The same, where a credential was asked for: 401, in gRPC `UNAUTHENTICATED`.
    Unauthenticated,
    /// The store cannot answer, and a policy [is closed](portcullis_core::FailureMode) then: 503, in gRPC `UNAVAILABLE`.
    StoreFailed,
    /// More is asked than can be answered in time: of the store, of the inner service after a wait, or because too many
    /// requests [wait](crate::Registry::set_max_waiting_requests). 503, in gRPC `UNAVAILABLE`. Nothing is charged, and no policy
    /// lets the request through for it.
    Overloaded,
    /// A look-up of the caller has failed, or took longer than the layer
    /// [waits](crate::RateLimitLayer::lookup_deadline): 503, in gRPC `UNAVAILABLE`.
    LookupFailed,
    /// The server lacks what it takes to tell who is calling: 500, in gRPC `INTERNAL`.
    Misconfigured,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause<'a> {
    Limited(&'a Outcome),
    NoKey(&'a KeyError),
    StoreFailed,
    Overloaded,
    LookupFailed,
}

impl<'a> Rejection<'a> {
    pub(crate) fn new(parts: &'a Parts, cause: Cause<'a>) -> Self {
        Self { parts, cause }
    }

    /// The request, but for its body.
    pub fn parts(&self) -> &'a Parts {
        self.parts
    }

    /// Why it is rejected.
    pub fn reason(&self) -> Reason {
        match self.cause {
            Cause::Limited(_) if self.wait().is_none() => Reason::NeverFits,
            Cause::Limited(_) => Reason::Limited,
            Cause::NoKey(error) if error.challenge().is_some() => Reason::Unauthenticated,
            Cause::NoKey(error) if error.is_client_fault() => Reason::BadIdentity,
            Cause::NoKey(_) => Reason::Misconfigured,
            Cause::StoreFailed => Reason::StoreFailed,
            Cause::Overloaded => Reason::Overloaded,
            Cause::LookupFailed => Reason::LookupFailed,
        }
    }

    /// The decision of the policy that decided, if the request was limited.
    pub fn decision(&self) -> Option<&'a Decision> {
        match self.cause {
            Cause::Limited(outcome) => Some(outcome.decision()),
            _ => None,
        }
    }

    /// What each enforced policy has to say, in their order; empty if the store was not asked or could not answer.
    pub fn decisions(&self) -> &'a [Decision] {
        match self.cause {
            Cause::Limited(outcome) => outcome.decisions(),
            _ => &[],
        }
    }

    /// The policies that deny the request: others may allow it, and have charged nothing.
    pub fn violated_policies(&self) -> impl Iterator<Item = &'a PolicyName> {
        self.decisions().iter().filter(|decision| !decision.is_allowed()).map(Decision::policy)
    }

    /// The wait that `Retry-After` says: whole seconds, at least 1. `None` if no wait cures it, or nobody knows which.
    pub fn retry_after(&self) -> Option<Duration> {
        self.wait().map(|wait| Duration::from_secs(fields::retry_after(wait)))
    }

    /// The status of the [default response](Self::response).
    pub fn status(&self) -> StatusCode {
        match self.reason() {
            Reason::Limited => StatusCode::TOO_MANY_REQUESTS,
            Reason::NeverFits | Reason::BadIdentity => StatusCode::BAD_REQUEST,
            Reason::Unauthenticated => StatusCode::UNAUTHORIZED,
            Reason::StoreFailed | Reason::Overloaded | Reason::LookupFailed => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Reason::Misconfigured => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// One sentence for a person: lower case, no full stop. The server's faults are not told to strangers.
    pub fn message(&self) -> Cow<'a, str> {
        match self.cause {
            Cause::Limited(_) => match self.retry_after() {
                Some(wait) => format!("rate limit exceeded: retry after {} s", wait.as_secs()).into(),
                None => "the cost of this request exceeds what the rate limit can ever admit".into(),
            },
            Cause::NoKey(error) if error.is_client_fault() => error.to_string().into(),
            Cause::NoKey(_) | Cause::LookupFailed => "the server cannot tell who is calling".into(),
            Cause::StoreFailed => "the rate limiter cannot answer at the moment".into(),
            Cause::Overloaded => "the server is overloaded".into(),
        }
    }

    /// The response that the layer gives without a closure: plain text, `application/json` or `application/problem+json`,
    /// as the request's `Accept` prefers. The headers that every rejection has are not in it yet.
    pub fn response(&self) -> Response<Bytes> {
        problem::response(self)
    }

    /// How long exactly until it is worth another try, if it ever is and that is known.
    pub(super) fn wait(&self) -> Option<Duration> {
        match self.decision()?.retry() {
            Some(Retry::After(wait)) => Some(wait),
            Some(Retry::Never) | None => None,
        }
    }

    pub(super) fn challenge(&self) -> Option<&'a HeaderValue> {
        match self.cause {
            Cause::NoKey(error) => error.challenge(),
            _ => None,
        }
    }
}
