//! The endpoint for JSON, as that of Envoy's service.

mod message;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;

use crate::messages::rate_limit_response::Code;
use crate::{MAX_MESSAGE_BYTES, RateLimitService};

impl RateLimitService {
    /// Returns a router with `POST /json`, which takes a call as JSON, in the form that protobuf defines, and answers in the same form: with 200,
    /// or with 429 if the call is over a limit.
    ///
    /// A call that is not valid is answered with 400, and one that the store cannot answer with 500. Envoy's service has 400 for both. The
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
            .layer(DefaultBodyLimit::max(MAX_MESSAGE_BYTES))
            .with_state(self.clone())
    }
}

async fn answer(State(service): State<RateLimitService>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(refusal) = refusal(&headers) {
        return refusal.into_response();
    }
    let request = match serde_json::from_slice::<message::Request>(&body) {
        Ok(request) => request.into(),
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let response = match service.decide(&request).await {
        Ok(response) => response,
        Err(error) if error.is_invalid_argument() => {
            return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response();
        }
        Err(error) => {
            let status = tonic::Status::from(error);
            return (StatusCode::INTERNAL_SERVER_ERROR, format!("{}\n", status.message())).into_response();
        }
    };
    let status = match response.overall_code() {
        Code::Ok => StatusCode::OK,
        Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let json = message::to_json(&response).to_string();
    (status, [(header::CONTENT_TYPE, "application/json")], json).into_response()
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
