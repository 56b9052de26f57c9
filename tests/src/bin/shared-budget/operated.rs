//! Routes with limits on requests in flight, and with grants, blocks and resets by operators.
//!
//! A request names its user in `x-user`. All windows begin with the first request and last a week, and all policies are closed.
//!
//! | route | limits | `x-then` |
//! |---|---|---|
//! | `/operated/hold` | three in flight, and units that keys are blocked under | `end`, `fail`, `task`: it takes the permit; `hang`: the body has no end; `wait`: no response |
//! | `/operated/grant` | BURST units, or those that are granted; costs `x-cost` | `keep`, `more`, `settle` and `refund`, with `x-units` |
//! | `/operated/restart` | units that are reset; costs `x-cost` | |
//!
//! They report in `x-charged` the units that the request is charged in the end, and in `x-limit` the limit of its decision.
//! `POST /operated/operate` makes the change that is named in `x-change`, with the numbers in `x-limit`. `GET /operated/arrived`
//! tells whether a request with the same `x-id` waits.

use std::collections::{HashMap, HashSet};
use std::future::{pending, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use axum::Router;
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use portcullis::key::{Header, Key};
use portcullis::layer::Concurrency;
use portcullis::{Charge, FailureMode, Limiter, Policy, PolicyExt as _, Quota};

use crate::reported::{correct, number, policy, text};
use crate::stream::{Stop, Stream};

/// Shorter than a test runs, and longer than a process is stopped by a busy machine.
const HELD: Concurrency =
    Concurrency::new("held", 3).lease(Duration::from_secs(5)).on_store_failure(FailureMode::Closed);
/// Permits that are reset.
const UPLOADS: Concurrency =
    Concurrency::new("uploads", 2).lease(Duration::from_secs(60)).on_store_failure(FailureMode::Closed);
const DAY: Duration = Duration::from_secs(86_400);

#[derive(Clone)]
struct Shared {
    limiter: Limiter,
    guarded: Policy,
    granted: Policy,
    restarted: Policy,
    running: Running,
    /// The ids of the requests that wait.
    arrived: Arc<Mutex<HashSet<String>>>,
    stop: Stop,
}

/// The requests that run, by user.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<HashMap<String, u64>>>);

/// A request that runs until this is dropped.
struct Guard(Running, String);

impl Running {
    /// Counts a request.
    ///
    /// # Errors
    ///
    /// If more run than the limit allows.
    fn start(&self, user: &str) -> anyhow::Result<Guard> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_user = running.entry(user.to_owned()).or_default();
        *of_user += 1;
        let (guard, now) = (Guard(self.clone(), user.to_owned()), *of_user);
        drop(running);
        if now > HELD.policy().strategy().limit() {
            bail!("{now} requests of a user run");
        }
        Ok(guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut running = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.entry(self.1.clone()).and_modify(|of_user| *of_user -= 1);
    }
}

pub(crate) fn routes(limiter: &Limiter, burst: u64, stop: &Stop) -> anyhow::Result<Router> {
    let shared = Shared {
        limiter: limiter.clone(),
        guarded: policy("guarded", 1_000_000)?.allow_overrides(),
        granted: policy("granted", burst)?.allow_overrides(),
        restarted: policy("restarted", 1_000_000)?,
        running: Running::default(),
        arrived: Arc::default(),
        stop: stop.clone(),
    };
    let cost = |parts: &Parts| number(&parts.headers, "x-cost").unwrap_or(1);
    let limit = |policy: &Policy| policy.clone().by(by_user());
    let routes = Router::new()
        .route("/hold", get(hold).layer(limiter.layer(limit(&shared.guarded)).and(HELD)))
        .route("/grant", get(charge).layer(limiter.layer(limit(&shared.granted).cost_by(cost)).with_charge()))
        .route(
            "/restart",
            get(charge).layer(limiter.layer(limit(&shared.restarted).cost_by(cost)).with_charge()),
        )
        .route("/operate", post(operate))
        .route("/arrived", get(arrived))
        .with_state(shared);
    Ok(Router::new().nest("/operated", routes))
}

fn by_user() -> Header {
    Header::named("x-user")
}

async fn charge(charge: Charge, headers: HeaderMap) -> Response {
    let limit = charge.decision().limit();
    report(correct(&charge, &headers).await.map(|units| (units, limit)))
}

async fn hold(State(shared): State<Shared>, charge: Charge, headers: HeaderMap) -> Response {
    let guard = match shared.running.start(text(&headers, "x-user")) {
        Ok(guard) => guard,
        Err(error) => return report(Err(error)),
    };
    let charged = [("x-charged", "1")];
    match text(&headers, "x-then") {
        "fail" => (StatusCode::UNAUTHORIZED, charged).into_response(),
        "task" => {
            let permit = charge.take_permit();
            tokio::spawn(async move {
                run(guard, tokio::task::yield_now()).await;
                drop(permit);
            });
            charged.into_response()
        }
        "wait" => {
            let id = text(&headers, "x-id").to_owned();
            shared.arrived.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
            run(guard, pending()).await;
            charged.into_response()
        }
        "hang" => (charged, Stream::empty_until(run(guard, shared.stop.stopped()))).into_response(),
        _ => (charged, Stream::empty_until(run(guard, ready(())))).into_response(),
    }
}

/// Runs until `end`, or until it is dropped.
async fn run(guard: Guard, end: impl Future<Output = ()>) {
    end.await;
    drop(guard);
}

async fn operate(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let changed = change(&shared, &headers).await;
    report(changed.map(|()| (0, 0)))
}

async fn change(shared: &Shared, headers: &HeaderMap) -> anyhow::Result<()> {
    let Shared { limiter, guarded, granted, restarted, .. } = shared;
    let request = Request::builder().header("x-user", text(headers, "x-user")).body(())?;
    let key = limiter.key_of(&by_user(), request)?;
    match text(headers, "x-change") {
        "grant" => {
            let quota = Quota::per_week(number(headers, "x-limit")?);
            limiter.grant(granted, key, quota).for_duration(DAY).await?;
        }
        "revoke" => limiter.revoke_grant(granted, key).await?,
        "block" => limiter.block(guarded, key, DAY).await?,
        "unblock" => limiter.unblock(guarded, key).await?,
        "reset" => limiter.reset(restarted, key).await?,
        "uploads" => reset_in_a_row(limiter, key).await?,
        other => bail!("there is no change {other:?}"),
    }
    Ok(())
}

/// Resets permits three times in a row, and takes all of them after each. Each time the same serial numbers are given out, which are
/// then released: those from before a reset free none that was taken after it.
///
/// # Errors
///
/// If more uploads run than the limit allows.
async fn reset_in_a_row(limiter: &Limiter, key: Key) -> anyhow::Result<()> {
    let policy = UPLOADS.policy();
    let take = async || {
        let taken = limiter.check(&policy).by_key(key).await.ok();
        taken.and_then(|charge| charge.take_permit())
    };
    let mut before = Vec::new();
    let mut running = Vec::new();
    for _ in 0..3 {
        before.append(&mut running);
        limiter.reset(&policy, key).await?;
        while let Some(permit) = take().await {
            running.push(permit);
        }
    }
    for permit in before {
        drop(permit);
        for _ in 0..3 {
            running.extend(take().await);
        }
    }
    let (limit, running) = (policy.strategy().limit(), running.len() as u64);
    if running != limit {
        bail!("{running} uploads run under a limit of {limit}");
    }
    Ok(())
}

async fn arrived(State(shared): State<Shared>, headers: HeaderMap) -> String {
    let arrived = shared.arrived.lock().unwrap_or_else(PoisonError::into_inner);
    arrived.contains(text(&headers, "x-id")).to_string()
}

fn report(charged: anyhow::Result<(u64, u64)>) -> Response {
    match charged.context("the request cannot be served") {
        Ok((units, limit)) => {
            [("x-charged", units.to_string()), ("x-limit", limit.to_string())].into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")).into_response(),
    }
}
