//! The endpoint for JSON, as that of Envoy's service.

mod message;
mod reservation;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::messages::rate_limit_response::Code;
use crate::{CallError, MAX_MESSAGE_BYTES, RateLimitService};

impl RateLimitService {
    /// Returns a router with `POST /json`, which takes a call as JSON, in the form that protobuf defines, and answers in the same form: with 200,
    /// or with 429 if the call is over a limit. `/json/reserve` and `/json/commit` are those of [reservations](crate#reservations).
    ///
    /// A call that is not valid is answered with 400, a commit of an unknown reservation with 404, and one that the store cannot answer with 500. Envoy's service has 400 for both. The
    /// content type has to be `application/json`, or the answer is 415, and requests of web pages are 403: a page of any site could
    /// spend the budgets of the service otherwise.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use axum::{body::Body, http::Request};
    /// use portcullis::Limiter;
    /// use portcullis::rules::envoy::Descriptors;
    /// use portcullis_rls::RateLimitService;
    /// use tower::ServiceExt as _;
    ///
    /// let file = "{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}";
    /// let service = RateLimitService::envoy(Limiter::memory(), Descriptors::parse(&[("shop.yaml", file)])?);
    /// let call = r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ada"}]}]}"#;
    /// for status in [200, 429] {
    ///     let request = Request::post("/json").header("content-type", "application/json").body(Body::from(call))?;
    ///     assert_eq!(service.json().oneshot(request).await?.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn json(&self) -> Router {
        Router::new()
            .route("/json", post(answer))
            .route("/json/reserve", post(reserve))
            .route("/json/commit", post(commit))
            .layer(DefaultBodyLimit::max(MAX_MESSAGE_BYTES))
            .with_state(self.clone())
    }
}

async fn answer(State(service): State<RateLimitService>, headers: HeaderMap, body: Bytes) -> Response {
    let request = match read::<message::Request>(&headers, &body) {
        Ok(request) => request.into(),
        Err(refusal) => return *refusal,
    };
    match service.decide(&request).await {
        Ok(response) => json(response.overall_code(), &message::to_json(&response)),
        Err(error) => failed(&error),
    }
}

async fn reserve(State(service): State<RateLimitService>, headers: HeaderMap, body: Bytes) -> Response {
    let request = match read::<reservation::Reserve>(&headers, &body) {
        Ok(request) => request.into(),
        Err(refusal) => return *refusal,
    };
    match service.reserve(&request).await {
        Ok(response) => json(response.code(), &reservation::reserved(&response)),
        Err(error) => failed(&error),
    }
}

async fn commit(State(service): State<RateLimitService>, headers: HeaderMap, body: Bytes) -> Response {
    let request = match read::<reservation::Commit>(&headers, &body) {
        Ok(request) => request.into(),
        Err(refusal) => return *refusal,
    };
    match service.commit(&request).await {
        Ok(response) => json(Code::Ok, &reservation::committed(response)),
        Err(error) => failed(&error),
    }
}

/// Reads a call. The error is the answer to one that is none.
fn read<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Box<Response>> {
    if let Some(refusal) = refusal(headers) {
        return Err(Box::new(refusal.into_response()));
    }
    let invalid = |error| Box::new((StatusCode::BAD_REQUEST, format!("{error}\n")).into_response());
    serde_json::from_slice(body).map_err(invalid)
}

fn json(code: Code, body: &Value) -> Response {
    let status = match code {
        Code::Ok => StatusCode::OK,
        Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn failed(error: &CallError) -> Response {
    let status = match error {
        CallError::UnknownReservation => StatusCode::NOT_FOUND,
        error if error.is_invalid_argument() => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, format!("{error}\n")).into_response()
}

/// The answer to a request that a web page may have made, or that is not of JSON. A page of another site can send neither this content type
/// without a preflight, nor a request without these headers.
///
/// Source: Fetch, "CORS protocol"; W3C, "Fetch Metadata Request Headers".
fn refusal(headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
    let is_own = |site: &HeaderValue| [&b"same-origin"[..], b"none"].contains(&site.as_bytes());
    if headers.contains_key(header::ORIGIN) || !headers.get_all("sec-fetch-site").iter().all(is_own) {
        return Some((StatusCode::FORBIDDEN, "requests of web pages are refused\n"));
    }
    let content_type = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let is_json = essence.eq_ignore_ascii_case(b"application/json");
    (!is_json)
        .then_some((StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type has to be application/json\n"))
}
