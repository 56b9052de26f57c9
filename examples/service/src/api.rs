//! What users reach that have logged in.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::routing::{get, post};
use portcullis::Limiter;
use portcullis::charge::Usage;
use portcullis::check::Limited;
use tokio_stream::StreamExt as _;

use crate::limits::{EXPORTS, Limits};

/// The routes, without authentication and the limits of all of them.
pub fn router(limits: &Limits) -> Router<Limiter> {
    Router::new()
        .route("/report", get(async || "a report").layer(limits.daily(1)))
        .route("/analysis", get(async || "an analysis").layer(limits.daily(10)))
        .route("/complete", post(complete).layer(limits.tokens()))
        .route("/export", get(export))
        .layer(limits.trial())
}

/// In place of a model: 250 tokens. Only those are charged that the client has waited for.
async fn complete(usage: Usage) -> Body {
    usage.add(0);
    let tokens = std::iter::repeat_n("token ", 250);
    Body::from_stream(tokio_stream::iter(tokens).map(move |token| {
        usage.add(1);
        Ok::<_, Infallible>(token)
    }))
}

/// Holds the permit until the client has got everything.
async fn export(State(limiter): State<Limiter>) -> Result<Body, Limited> {
    let permit = limiter.check(&EXPORTS).by(|key| key.shared_part("exports", b"")).await?;
    let rows = tokio_stream::iter(1..=3).map(move |row: u32| {
        let _held = &permit;
        Ok::<_, Infallible>(format!("row {row}\n"))
    });
    Ok(Body::from_stream(rows))
}
