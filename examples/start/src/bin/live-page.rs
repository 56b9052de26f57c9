//! The service with metrics and the live page, on an address of their own for operators.

use std::env;
use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use portcullis::admin::{Actor, Refused, has_bearer_token};
use portcullis::rules::{Loader, Rules, Watch, WatchOptions};
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
use tokio::net::TcpListener;

const ADDRESS: Policy = Policy::token_bucket("address", Quota::per_minute(60).burst(20));

/// The user that authentication has found.
#[derive(Clone)]
struct User(&'static str);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt::init();
    // Before the limiter: it takes the recorder that is installed.
    let exporter = PrometheusBuilder::new().install_recorder()?;
    let redis_url = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let file = Loader::file("limits.toml")
        .extension::<User>("user", |user, key| key.part("user", user.0.as_bytes()));
    let limiter = Limiter::redis(redis_url).with_rules(Rules::load(&file)?).await?.metrics();
    let rules = limiter.rules()?;
    // Reads the file again when it changes, for as long as the handle exists.
    let _watch = Watch::start(rules, WatchOptions::default())?;
    let addresses = limiter.layer(ADDRESS.by(ClientIp::peer()).hide());

    // The layer that is added last runs first.
    let app: Router = Router::new()
        .route("/search", get(search))
        .layer(rules.layer())
        .layer(middleware::from_fn(authenticate))
        .layer(addresses)
        .route("/health", get(async || "fine\n"));

    let token = env::var("PORTCULLIS_ADMIN_TOKEN").map_err(|_| "set PORTCULLIS_ADMIN_TOKEN to a secret")?;
    let port = env::var("ADMIN_PORT").unwrap_or_else(|_| "9000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("operators look at http://{}/limits", listener.local_addr()?);
    tokio::spawn(axum::serve(listener, operators(limiter, exporter, token)).into_future());

    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

/// The live page with its API, and the metrics.
fn operators(limiter: Limiter, exporter: PrometheusHandle, token: String) -> Router {
    let admin = limiter.admin(move |parts: &Parts| {
        if has_bearer_token(parts, &token) {
            Ok(Actor::new("operator"))
        } else {
            Err(Refused::Unauthenticated)
        }
    });
    let scrape = async move || {
        limiter.refresh_metrics();
        exporter.render()
    };
    Router::new().nest("/limits", admin.into_router()).route("/metrics", get(scrape))
}

async fn authenticate(mut request: Request, next: Next) -> Response {
    let api_key = request.headers().get("x-api-key").and_then(|key| key.to_str().ok());
    let Some(user) = api_key.and_then(find_user) else {
        return StatusCode::UNAUTHORIZED.into_response();
    };
    request.extensions_mut().insert(user);
    next.run(request).await
}

/// In place of a look-up in a database.
fn find_user(api_key: &str) -> Option<User> {
    match api_key {
        "key-of-ada" => Some(User("ada")),
        "key-of-grace" => Some(User("grace")),
        _ => None,
    }
}

/// In place of a search in a database.
async fn search() -> &'static str {
    "oil the chain of the gate\n"
}
