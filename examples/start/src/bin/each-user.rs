//! The service with API keys: a limit for each user, and one for each address in front of authentication.

use std::env;
use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use portcullis::key::Extension;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
use tokio::net::TcpListener;

const SEARCH: Policy = Policy::token_bucket("search", Quota::per_minute(6).burst(3));
const ADDRESS: Policy = Policy::token_bucket("address", Quota::per_minute(60).burst(20));

/// The user that authentication has found.
#[derive(Clone)]
struct User(&'static str);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt::init();
    let limiter = Limiter::memory();
    let user = Extension::<User>::with(|user, key| key.part("user", user.0.as_bytes()));
    let searches = limiter.layer(SEARCH.by(user));
    let addresses = limiter.layer(ADDRESS.by(ClientIp::peer()).hide());

    // The layer that is added last runs first.
    let app: Router = Router::new()
        .route("/search", get(search).layer(searches))
        .layer(middleware::from_fn(authenticate))
        .layer(addresses)
        .route("/health", get(async || "fine\n"));

    let port = env::var("PORT").unwrap_or_else(|_| "3000".to_owned());
    let listener = TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
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
