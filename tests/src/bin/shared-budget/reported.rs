//! Routes whose responses report, in `x-charged`, the units that the request is charged in the end.
//!
//! A request names its user in `x-user`, who has BURST units, and in `x-cost` what it costs; all users together have more units
//! than they use. All windows begin with the first request and last a week. What happens next is in `x-then`, with a number
//! of units in `x-units`:
//!
//! | route | the units are charged by | `x-then` |
//! |---|---|---|
//! | `/charge` | the layer | `more`, `settle`, `refund`, or nothing |
//! | `/check` | a check in the handler | `more`, `settle`, `refund`, or nothing |
//! | `/hold` | the layer, if the response is a 401 | `fail`, `succeed`, or `hang`: no response |
//! | `/use` | the layer, which settles what the body has used: `x-units` | `end`, or `hang`: the body has no end |
//!
//! `GET /arrived` tells whether a request with the same `x-id` hangs.

use std::collections::HashSet;
use std::future::{pending, ready};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use portcullis::charge::{ResponseOutcome, Usage};
use portcullis::check::Limited;
use portcullis::key::{Global, Header};
use portcullis::store::{FixedWindow, Strategy};
use portcullis::{Anchor, Charge, FailureMode, Limiter, Policy, PolicyExt as _, Quota};

use crate::stream::{Stop, Stream};

#[derive(Clone)]
struct Shared {
    limiter: Limiter,
    user: Policy,
    all: Policy,
    /// The ids of the requests that hang.
    arrived: Arc<Mutex<HashSet<String>>>,
    stop: Stop,
}

pub(crate) fn routes(limiter: &Limiter, burst: u64, stop: &Stop) -> anyhow::Result<Router> {
    let shared = Shared {
        limiter: limiter.clone(),
        user: policy("user", burst)?,
        all: policy("all", 1_000_000)?,
        arrived: Arc::default(),
        stop: stop.clone(),
    };
    let cost = |parts: &Parts| number(&parts.headers, "x-cost").unwrap_or(1);
    let is_unauthorized = |outcome: &ResponseOutcome<'_>| outcome.status() == StatusCode::UNAUTHORIZED;
    let user = || shared.user.clone().by(Header::named("x-user"));
    let all = || shared.all.clone().by(Global);
    let charge_layer = limiter.layer(user().cost_by(cost)).with_charge().and(all().cost_by(cost));
    let hold_layer = limiter
        .layer(user().cost_by(cost).charge_when(is_unauthorized))
        .and(all().cost_by(cost).charge_when(is_unauthorized));
    let use_layer = limiter.layer(user().reserve_by(cost)).and(all().reserve_by(cost));
    Ok(Router::new()
        .route("/charge", get(charge).layer(charge_layer))
        .route("/check", get(check))
        .route("/hold", get(hold).layer(hold_layer))
        .route("/use", get(stream).layer(use_layer))
        .route("/arrived", get(arrived))
        .with_state(shared))
}

/// A window that does not end during a test, at midnight or at any other time.
pub(crate) fn policy(name: &'static str, limit: u64) -> anyhow::Result<Policy> {
    let window = FixedWindow::new(Quota::per_week(limit))?.anchored(Anchor::FirstRequest);
    Ok(Policy::literal(name, Strategy::FixedWindow(window)).on_store_failure(FailureMode::Closed))
}

async fn charge(charge: Charge, headers: HeaderMap) -> Response {
    report(correct(&charge, &headers).await)
}

async fn check(State(shared): State<Shared>, headers: HeaderMap) -> Result<Response, Limited> {
    let Shared { limiter, user, all, .. } = &shared;
    let cost = number(&headers, "x-cost").unwrap_or(1);
    // The keys are those of the layers.
    let charge = limiter
        .check(user)
        .by(|key| {
            key.part("header", text(&headers, "x-user").as_bytes());
            key.part("header name", b"x-user");
        })
        .cost(cost)
        .and(all)
        .by(|key| key.shared_part("global", b""))
        .cost(cost)
        .await?;
    Ok(report(correct(&charge, &headers).await))
}

/// Changes a charge as its request wants it. Returns the units that are charged in the end.
pub(crate) async fn correct(charge: &Charge, headers: &HeaderMap) -> anyhow::Result<u64> {
    let (cost, units) = (number(headers, "x-cost")?, number(headers, "x-units")?);
    Ok(match text(headers, "x-then") {
        "more" if charge.charge_more(units).await?.is_allowed() => cost + units,
        "settle" => {
            let uncharged = charge.settle(units).await?.uncharged;
            ensure!(uncharged == 0, "{uncharged} units are uncharged");
            units
        }
        "refund" => {
            charge.refund().await?;
            0
        }
        _ => cost,
    })
}

async fn hold(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    match text(&headers, "x-then") {
        "hang" => {
            let id = text(&headers, "x-id").to_owned();
            shared.arrived.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
            pending::<Response>().await
        }
        "fail" => (StatusCode::UNAUTHORIZED, report(number(&headers, "x-cost"))).into_response(),
        _ => report(Ok(0)),
    }
}

async fn arrived(State(shared): State<Shared>, headers: HeaderMap) -> String {
    let arrived = shared.arrived.lock().unwrap_or_else(PoisonError::into_inner);
    arrived.contains(text(&headers, "x-id")).to_string()
}

async fn stream(State(shared): State<Shared>, usage: Usage, headers: HeaderMap) -> Response {
    let units = match number(&headers, "x-units") {
        Ok(units) => units,
        error => return report(error),
    };
    let body = match text(&headers, "x-then") {
        "hang" => Stream::until(shared.stop.stopped(), usage, units),
        _ => Stream::until(ready(()), usage, units),
    };
    ([("x-charged", units.to_string())], body).into_response()
}

fn report(charged: anyhow::Result<u64>) -> Response {
    match charged {
        Ok(units) => [("x-charged", units.to_string())].into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

pub(crate) fn number(headers: &HeaderMap, name: &str) -> anyhow::Result<u64> {
    text(headers, name).parse().with_context(|| format!("{name} is not a number"))
}

pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
