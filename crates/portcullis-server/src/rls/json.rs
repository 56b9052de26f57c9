//! The endpoint for JSON, as that of Envoy's service.

mod message;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;

use super::{MAX_MESSAGE_BYTES, RateLimitService};

impl RateLimitService {
    /// Returns a router with `POST /json`, which takes a call as JSON, in the form that protobuf defines, and answers in the same form: with 200,
    /// or with 429 if the call is over a limit.
    ///
    /// A call that is not valid is answered with 400, and one that the store cannot answer with 500. Envoy's service has 400 for both.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use axum::{body::Body, http::Request};
    /// use portcullis::Limiter;
    /// use portcullis::rules::envoy::Descriptors;
    /// use portcullis_server::rls::RateLimitService;
    /// use tower::ServiceExt as _;
    ///
    /// let file = "{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}";
    /// let service = RateLimitService::envoy(Limiter::memory(), Descriptors::parse(&[("shop.yaml", file)])?);
    /// let call = r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ada"}]}]}"#;
    /// for status in [200, 429] {
    ///     let request = Request::post("/json").body(Body::from(call))?;
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

async fn answer(State(service): State<RateLimitService>, body: Bytes) -> Response {
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
