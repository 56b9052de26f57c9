//! What metrics add to a request: `cargo xtask bench metrics`.
//!
//! Each case is an Axum router with one route that is called in process, without a socket; the state is in memory. The same router is measured with
//! metrics, without them, and without them once more, in turns: two routers without metrics differ by what the machine adds.

use std::thread;
use std::time::Instant;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::post;
use clap::Parser as _;
use metrics_exporter_prometheus::PrometheusBuilder;
use portcullis::headers::RateLimitHeaders;
use portcullis::key::Header;
use portcullis::metrics::Metrics;
use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
use portcullis_bench::{BenchOptions, Round, Spread, digits, interleaved, machine, markdown};
use tower::ServiceExt as _;

/// What is sent to a router: its name, the router, the status of the responses, and the threads that send.
struct Work(&'static str, fn(&Limiter) -> Router, u16, u32);

const WORK: [Work; 5] = [
    Work("admitted, no headers", |limiter| plenty(limiter, NONE), 200, 1),
    Work("admitted, X-RateLimit headers", |limiter| plenty(limiter, X), 200, 1),
    Work("admitted by two policies, no headers", two_policies, 200, 1),
    Work("rejected, X-RateLimit headers", nothing, 429, 1),
    Work("admitted, no headers, 2 threads", |limiter| plenty(limiter, NONE), 200, 2),
];

const NONE: RateLimitHeaders = RateLimitHeaders::NONE;
const X: RateLimitHeaders = RateLimitHeaders::X_RATELIMIT;

fn plenty(limiter: &Limiter, headers: RateLimitHeaders) -> Router {
    let layer = limiter.layer(of_plenty("plenty").by(Header::named("x-user"))).headers(headers);
    Router::new().route("/", post(async || "found")).layer(layer)
}

fn two_policies(limiter: &Limiter) -> Router {
    let layer = limiter.layer(of_plenty("plenty").by(Header::named("x-user")));
    let layer = layer.and(of_plenty("more")).headers(NONE);
    Router::new().route("/", post(async || "found")).layer(layer)
}

fn nothing(limiter: &Limiter) -> Router {
    let layer = limiter.layer(Policy::gcra("nothing", Quota::per_week(1)).by(Header::named("x-user")));
    Router::new().route("/", post(async || "found")).layer(layer.headers(X))
}

fn of_plenty(name: &'static str) -> Policy {
    Policy::gcra(name, Quota::per_second(1_000_000_000).burst(1_000_000))
}

fn main() -> Result<()> {
    let options = BenchOptions::parse();
    let (rounds, requests) = if options.quick { (3, 200) } else { (51, 4_000) };
    let mut rows = Vec::new();
    for work in &WORK {
        rows.push(work.measure(rounds, requests)?);
    }
    println!(
        "{}\n## Time of a request with metrics, with the router\n\n\
         Medians of {rounds} interleaved rounds. A ratio is that of the two cases in the same round. The last two columns compare two \
         routers without metrics, which shows how exact the others are.\n\n{}",
        options.heading("metrics", &format!("{}.", machine()?)),
        markdown(&HEADER, &rows)
    );
    Ok(())
}

impl Work {
    fn measure(&self, rounds: usize, requests: u32) -> Result<Vec<String>> {
        let Self(name, app, status, threads) = *self;
        let recorder = PrometheusBuilder::new().build_recorder();
        let exporter = recorder.handle();
        let with = Limiter::memory().metrics_with(&Metrics::with_recorder(recorder));
        let apps = [with, Limiter::memory(), Limiter::memory()].map(|limiter| app(&limiter));
        for app in &apps {
            // The first one uses up what is not plenty.
            send(app, 1, None)?;
            send(app, 1, Some(status))?;
        }
        let mut cases = apps
            .each_ref()
            .map(|app| -> Round<'_, f64, anyhow::Error> { Box::new(move || self.round(app, requests)) });
        let figures = interleaved(rounds, &mut cases)?;
        drop(cases);
        let counted = u64::from(threads) * u64::from(requests) * (u64::try_from(rounds)? + 1) + 2;
        let shown: u64 = exporter.render().lines().filter_map(requests_of).sum();
        anyhow::ensure!(shown == counted, "the metrics show {shown} of {counted} requests");

        let [with, without, again] = figures.as_slice() else { anyhow::bail!("three cases") };
        let median = |figures: &[f64]| Spread::of(figures.to_vec()).median;
        let added = with.iter().zip(without).map(|(with, without)| with - without).collect();
        let (ratio, noise) = (Spread::of_ratio(with, without), Spread::of_ratio(again, without));
        let range = |spread: Spread| format!("{} to {}", digits(spread.low), digits(spread.high));
        Ok(vec![
            name.to_owned(),
            format!("{} ns", digits(median(with))),
            format!("{} ns", digits(median(without))),
            format!("{:+.0} ns", Spread::of(added).median),
            digits(ratio.median),
            range(ratio),
            digits(noise.median),
            range(noise),
        ])
    }

    /// Nanoseconds of a request, on each of the threads.
    fn round(&self, app: &Router, requests: u32) -> Result<f64> {
        let Self(_, _, status, threads) = *self;
        let start = Instant::now();
        thread::scope(|scope| {
            let others: Vec<_> =
                (1..threads).map(|_| scope.spawn(|| send(app, requests, Some(status)))).collect();
            send(app, requests, Some(status))?;
            for other in others {
                other.join().map_err(|_| anyhow::anyhow!("a thread has panicked"))??;
            }
            anyhow::Ok(())
        })?;
        Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(requests))
    }
}

/// Sends requests one after the other. Fails if one of them is answered with another status.
fn send(app: &Router, requests: u32, status: Option<u16>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        for _ in 0..requests {
            let request = Request::post("/").header("x-user", "ada").body(Body::empty())?;
            let response = app.clone().oneshot(request).await?;
            anyhow::ensure!(
                status.is_none_or(|status| response.status() == status),
                "answered with {}",
                response.status()
            );
        }
        Ok(())
    })
}

/// The value of a series of requests.
fn requests_of(line: &str) -> Option<u64> {
    line.strip_prefix("portcullis_requests_total{")?.rsplit_once(' ')?.1.parse().ok()
}

const HEADER: [&str; 8] =
    ["", "with", "without", "added", "ratio", "of 8 in 10 rounds", "without by without", "of 8 in 10 rounds"];
