//! Makes `Charge`, `Usage` and `Shadow` extractors of Axum.

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::request::Parts;
use std::convert::Infallible;
use std::fmt;

use super::{Charge, Usage};
use crate::Shadow;
use portcullis_engine::charge::Mark;
use portcullis_log::{LogThrottle, codes};

impl<S: Sync> FromRequestParts<S> for Charge {
    type Rejection = MissingCharge;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, MissingCharge> {
        parts.extensions.get().cloned().ok_or(MissingCharge)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Charge {
    type Rejection = Infallible;

    /// `None` is logged for the first requests that a layer has counted which leaves no charge.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        let charge = parts.extensions.get().cloned();
        if charge.is_none() && parts.extensions.get::<Mark>().is_some() {
            log_missing(
                &UNUSED,
                codes::CHARGE_NOT_LEFT,
                "a handler takes an `Option<Charge>`, and a layer that has counted the request leaves none: add `.with_charge()` to it, if \
                 the handler is to see its charges",
            );
        }
        Ok(charge)
    }
}

impl<S: Sync> FromRequestParts<S> for Usage {
    type Rejection = MissingUsage;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, MissingUsage> {
        parts.extensions.get().cloned().ok_or(MissingUsage)
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for Usage {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get().cloned())
    }
}

impl<S: Sync> FromRequestParts<S> for Shadow {
    type Rejection = Infallible;

    /// Empty where no shadow policy was checked.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// The rejection of a handler that takes a [`Charge`], for a request that no layer has counted, or only one
/// without [charges](crate::RateLimitLayer::with_charge): 500. A handler that exempt requests reach as well, or whose layer
/// has only shadow policies, takes an `Option<Charge>`. It is logged at once and then at most once a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no rate limit layer has left a charge in this request: add `.with_charge()` to its layer, put a layer around the route, or take \
     an `Option<Charge>`"
)]
#[non_exhaustive]
pub struct MissingCharge;

impl IntoResponse for MissingCharge {
    fn into_response(self) -> Response {
        static THROTTLE: LogThrottle = LogThrottle::per_minute();

        log_missing(&THROTTLE, codes::CHARGE_MISSING, self);
        (StatusCode::INTERNAL_SERVER_ERROR, "the server cannot tell what this request was charged\n")
            .into_response()
    }
}

/// The rejection of a handler that takes a [`Usage`], for a request without a [reservation](crate::Limit::reserve): 500. A
/// handler that exempt requests reach as well takes an `Option<Usage>`. It is logged at once and then at most once a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no rate limit layer has reserved units for this request: add `.reserve(..)` to a policy of its layer, or take an \
     `Option<Usage>`"
)]
#[non_exhaustive]
pub struct MissingUsage;

impl IntoResponse for MissingUsage {
    fn into_response(self) -> Response {
        static THROTTLE: LogThrottle = LogThrottle::per_minute();

        log_missing(&THROTTLE, codes::USAGE_MISSING, self);
        (StatusCode::INTERNAL_SERVER_ERROR, "the server cannot count what this request uses\n")
            .into_response()
    }
}

fn log_missing(throttle: &'static LogThrottle, code: &'static str, what: impl fmt::Display + Send + 'static) {
    throttle.count(0, None, || {
        move |counted| {
            tracing::error!(%code, requests = counted.events, "{what}; counted since the last such line");
        }
    });
}

static UNUSED: LogThrottle = LogThrottle::per_minute();

#[cfg(test)]
mod tests;
