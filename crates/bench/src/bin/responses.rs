//! The time that the layer adds to a request, by the form of its response: `cargo xtask bench responses`.
//!
//! Each case is an Axum router with one route that is called in process, on one thread, without a socket; the state is in
//! memory. It prints the medians of interleaved rounds, less that of the router without a layer.

use anyhow::Result;
use axum::body::Body;
use axum::http::Request;
use axum::http::request::Parts;
use axum::routing::post;
use axum::{Router, response::Response};
use clap::Parser as _;
use portcullis::headers::RateLimitHeaders;
use portcullis::key::{Header, Identity, KeyError, KeyWriter};
use portcullis::{Limit, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer};
use portcullis_bench::{BenchOptions, Case, digits, machine, markdown, medians};
use tower::ServiceExt as _;

fn plenty() -> RateLimitLayer {
    layer(Policy::gcra("plenty", Quota::per_second(1_000_000_000).burst(1_000_000)))
}

fn nothing() -> RateLimitLayer {
    layer(NOTHING)
}

const NOTHING: Policy = Policy::gcra("nothing", Quota::per_week(1));

fn layer(policy: Policy) -> RateLimitLayer {
    Limiter::memory().layer(policy.by(Header::named("x-user")))
}

fn app(layer: Option<RateLimitLayer>) -> Router {
    let app = Router::new().route("/", post(async || "found"));
    let app = match layer {
        Some(layer) => app.layer(layer),
        None => app,
    };
    // As a server does, so that layers are not applied to each request.
    app.with_state(())
}

fn request(headers: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::post("/").header("x-user", "ada");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).expect("a request")
}

/// A name, the layer, the headers of the request, the status of the response.
type RequestCase = (&'static str, Option<RateLimitLayer>, &'static [(&'static str, &'static str)], u16);

fn main() -> Result<()> {
    let options = BenchOptions::parse();
    let (rounds, requests) = if options.quick { (3, 100) } else { (51, 4_000) };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let send = |app: &Router, headers: &[(&str, &str)]| -> Response {
        runtime.block_on(app.clone().oneshot(request(headers))).unwrap_or_else(|never| match never {})
    };
    let all = RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF | RateLimitHeaders::IETF_DRAFT_6;
    let unix = RateLimitHeaders::X_RATELIMIT.reset_as_unix_time();
    let cases: [RequestCase; 15] = [
        ("no layer", None, &[], 200),
        ("exempt", Some(Limiter::memory().layer(NOTHING.by(exempt))), &[], 200),
        ("allowed, no headers", Some(plenty().headers(RateLimitHeaders::NONE)), &[], 200),
        ("allowed, `X-RateLimit`", Some(plenty()), &[], 200),
        ("allowed, `X-RateLimit` in Unix time", Some(plenty().headers(unix)), &[], 200),
        ("allowed, `RateLimit`", Some(plenty().headers(RateLimitHeaders::IETF)), &[], 200),
        ("allowed, `RateLimit` of draft 6", Some(plenty().headers(RateLimitHeaders::IETF_DRAFT_6)), &[], 200),
        ("allowed, all three formats", Some(plenty().headers(all)), &[], 200),
        (
            "allowed, `X-RateLimit`, a policy in shadow mode beside it",
            Some(plenty().and(Limit::new(shadow()).shadow())),
            &[],
            200,
        ),
        ("rejected, no headers", Some(nothing().headers(RateLimitHeaders::NONE)), &[], 429),
        ("rejected, text", Some(nothing()), &[], 429),
        ("rejected, JSON", Some(nothing()), &[("accept", "application/json")], 429),
        ("rejected, problem details", Some(nothing()), &[("accept", "application/problem+json")], 429),
        ("rejected, by a closure", Some(nothing().reject_with(|_| Response::new("no".into()))), &[], 200),
        ("rejected, gRPC with details", Some(nothing()), &[("content-type", "application/grpc")], 200),
    ];
    let mut measured: Vec<Case<'_>> = Vec::new();
    for (name, layer, headers, status) in &cases {
        let app = app(layer.clone());
        send(&app, headers);
        assert_eq!(send(&app, headers).status(), *status, "{name}");
        measured.push((name, Box::new(move |times| (0..times).for_each(|_| drop(send(&app, headers))))));
    }
    let medians = medians(&mut measured, rounds, requests);
    let rows = cases.iter().zip(&medians).skip(1).map(|((name, ..), median)| {
        // A median of a smoke run may be below that of the router.
        vec![(*name).to_owned(), format!("{} ns", digits((median - medians[0]).max(0.0)))]
    });
    println!(
        "{}\n{}",
        options.heading("responses", &format!("{}. Medians of {rounds} interleaved rounds.", machine()?)),
        markdown(
            &["request", &format!("added to the {} ns of the router", digits(medians[0]))],
            &rows.collect::<Vec<_>>()
        )
    );
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "it is an extractor")]
fn exempt(_: &Parts, _: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
    Ok(Identity::Exempt)
}

fn shadow() -> Policy {
    Policy::fixed_window("shadow", Quota::per_week(Quota::MAX_UNITS))
}
