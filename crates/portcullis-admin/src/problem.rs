//! Errors of the API: problem details (RFC 9457).

use std::borrow::Cow;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

/// The body of every error, as `application/problem+json`. It contains no identity and no value of the request.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// The status of the response.
    status: u16,
    /// What the status means.
    title: &'static str,
    /// What is wrong, and what to do.
    detail: Cow<'static, str>,
    /// The field of the request at fault, such as `identity.request.peer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<Cow<'static, str>>,
    /// The names of the policies, if the request names another one; at most 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<String>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Self { status: status.as_u16(), title, detail: detail.into(), field: None, policies: Vec::new() }
    }

    /// A request whose field has an invalid value: 422.
    pub(crate) fn invalid(field: impl Into<Cow<'static, str>>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail).with_field(field)
    }

    pub(crate) fn with_field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// States that the store has not confirmed whether the change was made.
    pub(crate) fn with_unknown_fate(mut self) -> Self {
        self.detail.to_mut().push_str(": the change may have been made all the same");
        self
    }

    pub(crate) fn with_policies(mut self, policies: Vec<String>) -> Self {
        self.policies = policies;
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let problem = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, problem);
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// What every route may answer instead.
#[derive(IntoResponses)]
#[expect(dead_code, reason = "it describes the responses")]
pub(crate) enum Problems {
    /// The body is not JSON.
    #[response(status = 400, content_type = "application/problem+json")]
    BadRequest(Problem),
    /// The request is not authenticated.
    #[response(status = 401, content_type = "application/problem+json")]
    Unauthenticated(Problem),
    /// The caller may not use the API, or a page of another site has caused the request.
    #[response(status = 403, content_type = "application/problem+json")]
    Forbidden(Problem),
    /// There is no such policy.
    #[response(status = 404, content_type = "application/problem+json")]
    NotFound(Problem),
    /// The caller's key, or the change, is ambiguous or in conflict with a layer.
    #[response(status = 409, content_type = "application/problem+json")]
    Conflict(Problem),
    /// The body is too large.
    #[response(status = 413, content_type = "application/problem+json")]
    TooLarge(Problem),
    /// The body has another type than `application/json`.
    #[response(status = 415, content_type = "application/problem+json")]
    UnsupportedType(Problem),
    /// The request names a host that is not listed.
    #[response(status = 421, content_type = "application/problem+json")]
    Misdirected(Problem),
    /// A field is missing or invalid.
    #[response(status = 422, content_type = "application/problem+json")]
    Invalid(Problem),
    /// The store keeps no grants and blocks.
    #[response(status = 501, content_type = "application/problem+json")]
    Unsupported(Problem),
    /// `authorize` has panicked.
    #[response(status = 500, content_type = "application/problem+json")]
    Broken(Problem),
    /// The store has not answered, or too many streams are open.
    #[response(status = 503, content_type = "application/problem+json")]
    Unavailable(Problem),
}
