//! Real servers on the loopback interface, under `wrk`.

use std::net::SocketAddr;

use anyhow::{Context as _, Error, Result};
use axum::Router;
use axum::http::StatusCode;
use portcullis_bench::{Comparison, Round, Target, interleaved, wrk};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use super::apps::{Headers, Limits, bare, ours, tower_governor, within};
use crate::scale::Scale;

/// Requests per second that each server answers, or the reason why nothing was measured.
pub(crate) fn rates(scale: &Scale) -> Result<String> {
    if !wrk::is_installed() {
        return Ok("**NOT MEASURED: servers under `wrk`, which is not installed.**\n".to_owned());
    }
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let (plenty, one) = (Limits::OneClientOfThreads, Limits::OneRequest);
    let apps = [
        ("the router alone", bare(), StatusCode::OK),
        ("ours", within(ours(plenty, Headers::XRateLimit)), StatusCode::OK),
        ("tower_governor", within(tower_governor(plenty)), StatusCode::OK),
        ("ours", within(ours(one, Headers::XRateLimit)), StatusCode::TOO_MANY_REQUESTS),
        ("tower_governor", within(tower_governor(one)), StatusCode::TOO_MANY_REQUESTS),
    ];
    let (rounds, seconds) = scale.wrk;
    let mut cases = Vec::with_capacity(apps.len());
    for (name, app, status) in apps {
        let address = serve(&runtime, app)?;
        let rate = move || wrk::rate(address, "x-user: ada", seconds, status.is_success());
        let case: Round<'_, f64, Error> = Box::new(move || rate().with_context(|| name.to_owned()));
        cases.push(case);
    }
    let figures = interleaved(rounds, &mut cases)?;
    let mut table = Comparison::new("Requests per second of servers under wrk: 32 connections of one client");
    for (work, beside, ours, theirs) in [
        ("admitted", "the router alone", 1, 0),
        ("admitted", "tower_governor with headers", 1, 2),
        ("rejected", "tower_governor with headers", 3, 4),
    ] {
        table.push(work, beside, "requests/s", &figures[ours], &figures[theirs], Target::None);
    }
    Ok(table.to_string())
}

/// Serves until the runtime ends.
fn serve(runtime: &Runtime, app: Router) -> Result<SocketAddr> {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    runtime.spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}
