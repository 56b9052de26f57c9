//! Real servers on the loopback interface, under `wrk`.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context as _, Error, Result, ensure};
use axum::Router;
use axum::http::StatusCode;
use portcullis_bench::{Comparison, Round, Target, interleaved};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use super::apps::{Headers, Limits, bare, ours, tower_governor, within};
use crate::scale::Scale;

/// Requests per second that each server answers, or the reason why nothing was measured.
pub(crate) fn rates(scale: &Scale) -> Result<String> {
    if Command::new("wrk").arg("--version").output().is_err() {
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
        let case: Round<'_, f64, Error> =
            Box::new(move || load(address, seconds, status).with_context(|| name.to_owned()));
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

/// Requests per second, as `wrk` reports them.
fn load(address: SocketAddr, seconds: u32, status: StatusCode) -> Result<f64> {
    let mut wrk = Command::new("wrk");
    wrk.args(["--threads", "1", "--connections", "32", "--header", "x-user: ada", "--duration"]);
    wrk.arg(format!("{seconds}s")).arg(format!("http://{address}/"));
    let output = wrk.output()?;
    let report = String::from_utf8_lossy(&output.stdout);
    let rejected = report.contains("Non-2xx or 3xx responses:");
    ensure!(rejected != status.is_success(), "expected responses with {status}:\n{report}");
    let rate = report.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    let rate = rate.with_context(|| format!("wrk reported no rate:\n{report}"))?;
    Ok(rate.trim().parse()?)
}
