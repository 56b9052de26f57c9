//! Errors of the API: problem details (RFC 9457).

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use utoipa::openapi::{self, Content, Ref, RefOr, ResponseBuilder};
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
pub(crate) struct Problems;

impl IntoResponses for Problems {
    fn responses() -> BTreeMap<String, RefOr<openapi::Response>> {
        let problem = Content::new(Some(Ref::from_schema_name("Problem")));
        let answer = |(status, when): (&str, &str)| {
            let answer = ResponseBuilder::new().description(when);
            let answer = answer.content("application/problem+json", problem.clone());
            (status.to_owned(), answer.build().into())
        };
        ANSWERS.map(answer).into()
    }
}

const ANSWERS: [(&str, &str); 12] = [
    ("400", "The body is not JSON."),
    ("401", "The request is not authenticated."),
    ("403", "The caller may not use the API, or a page of another site has caused the request."),
    ("404", "There is no such policy."),
    ("409", "The caller's key, or the change, is ambiguous or in conflict with a layer."),
    ("413", "The body is too large."),
    ("415", "The body has another type than `application/json`."),
    ("421", "The request names a host that is not listed."),
    ("422", "A field is missing or invalid."),
    ("500", "`authorize` has panicked."),
    ("501", "The store keeps no grants and blocks."),
    ("503", "The store has not answered, or too many streams are open."),
];
