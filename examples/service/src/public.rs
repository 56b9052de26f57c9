//! What everybody reaches: pages, log-ins, the API and gRPC on one port.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{ConnectInfo, Form, Request, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response, Result};
use axum::routing::{get, post};
use portcullis::Limiter;
use serde::Deserialize;
use tonic::service::Routes;
use tower::Layer as _;
use tower_http::cors::CorsLayer;

use crate::api;
use crate::limits::{LOG_IN_ACCOUNT, Limits, User, clients};

/// The address is limited outside of authentication, so that guesses are, and the user inside of it. The CORS layer is outside of both, so
/// that pages of other origins can read rejections.
///
/// # Errors
///
/// If the limiter has no rules.
pub fn router(limits: &Limits) -> anyhow::Result<Router> {
    let limiter = limits.limiter();
    let everything = limits.everything();
    let api = api::router(limits).layer(limits.users()).layer(middleware::from_fn(authenticate));
    let origin = HeaderValue::from_static("https://shop.example.com");
    let cors = CorsLayer::new().allow_origin(origin).expose_headers(everything.exposed_headers());
    let pages = Router::new()
        .route("/health", get(async || "fine"))
        .route("/products", get(async || "products").layer(limits.products()))
        .route("/search", get(async || "found").layer(limiter.rules()?.layer()))
        .route("/log-in", post(log_in).layer(limits.log_ins()))
        .nest("/api", api)
        .with_state(limiter.clone());
    // In place of a service of your own.
    let (_, health) = tonic_health::server::health_reporter();
    let services = Routes::from(pages).add_service(limits.calls().layer(health));
    Ok(services.into_axum_router().layer(everything).layer(cors))
}

#[derive(Deserialize)]
struct LogIn {
    email: String,
    password: String,
}

/// Holds a unit of the account and the client while the password is checked, and gives it back after a success. By the account alone a
/// stranger could lock its owner out.
async fn log_in(
    limiter: State<Limiter>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    Form(form): Form<LogIn>,
) -> Result<&'static str> {
    let account = form.email.trim().to_lowercase();
    let client = clients().find(peer.ip(), &headers).map_err(|_| StatusCode::BAD_REQUEST)?;
    let check = limiter.check(&LOG_IN_ACCOUNT).by(|key| {
        key.part("account", account.as_bytes());
        clients().prefix(client).write(key);
    });
    let charge = check.accept(&headers).await?;
    if form.password != "correct horse" {
        return Err(StatusCode::UNAUTHORIZED.into());
    }
    // A refund that fails is logged.
    let _ = charge.refund().await;
    Ok("welcome")
}

/// In place of a session: `Bearer token-ada` is ada.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some(name) = token.and_then(|token| token.strip_prefix("Bearer token-")) else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    let user = User(name.to_owned());
    request.extensions_mut().insert(user);
    next.run(request).await
}
