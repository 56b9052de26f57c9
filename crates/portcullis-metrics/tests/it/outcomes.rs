//! What happens to requests beside decisions: each counter that a client can cause, exactly, with threads at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use http::request::Parts;
use http::{Method, Request};
use portcullis_core::{Policy, Quota};
use portcullis_tower::matching::RequestPath;
use portcullis_tower::{
    Bearer, Global, Header, Identity, KeyError, KeyWriter, Lookup, PolicyExt as _, RateLimitLayer,
};

use crate::support::{Recorded, from_user, send};

const THREADS: u64 = 4;
const REQUESTS: u64 = 50;

fn plenty(name: &'static str) -> Policy {
    Policy::fixed_window(name, Quota::per_week(1_000_000))
}

#[expect(clippy::unnecessary_wraps, reason = "it is an extractor")]
fn exempt(_: &Parts, _: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
    Ok(Identity::Exempt)
}

fn at(path: &str) -> Request<String> {
    Request::builder().uri(path).body(String::new()).unwrap()
}

fn with_header(name: &str, value: &str) -> Request<String> {
    Request::builder().header(name, value).body(String::new()).unwrap()
}

fn preflight() -> Request<String> {
    let request = Request::builder().method(Method::OPTIONS).header("origin", "https://a.example");
    request.header("access-control-request-method", "GET").body(String::new()).unwrap()
}

/// A layer, a request that is sent to it, and the series that each of them adds one to.
type Case = (RateLimitLayer, fn() -> Request<String>, &'static [&'static str]);

#[test]
fn each_outcome_is_counted_exactly() {
    let (registry, recorded) = Recorded::registry(1_000);
    let layer = |limit| RateLimitLayer::new(Arc::clone(&registry), limit);
    let cases: [Case; 7] = [
        (
            layer(plenty("listed").by(Global)).except(RequestPath::exact("/health")),
            || at("/health"),
            &["portcullis_skipped_total", "portcullis_requests_total{outcome=\"admitted\"}"],
        ),
        (
            layer(plenty("exempting").by(exempt)),
            || at("/"),
            &[
                "portcullis_exempt_total{policy=\"exempting\"}",
                "portcullis_requests_total{outcome=\"admitted\"}",
            ],
        ),
        (
            layer(plenty("preflighted").by(Bearer)),
            preflight,
            &["portcullis_preflights_total", "portcullis_requests_total{outcome=\"admitted\"}"],
        ),
        (
            layer(plenty("by header").by(Header::named("x-user"))),
            || at("/"),
            &[
                "portcullis_identity_errors_total{policy=\"by header\",error=\"missing\"}",
                "portcullis_requests_total{outcome=\"bad_identity\"}",
            ],
        ),
        (
            layer(plenty("by token").by(Bearer)),
            || with_header("authorization", "Bearer a b"),
            &[
                "portcullis_identity_errors_total{policy=\"by token\",error=\"missing\"}",
                "portcullis_requests_total{outcome=\"unauthenticated\"}",
            ],
        ),
        (
            layer(
                plenty("by look-up").by_async(|_: &Parts| async { Err::<Lookup, _>(KeyError::server("no")) }),
            ),
            || at("/"),
            &[
                "portcullis_identity_errors_total{policy=\"by look-up\",error=\"lookup_failed\"}",
                "portcullis_requests_total{outcome=\"lookup_failed\"}",
            ],
        ),
        (
            RateLimitLayer::new(
                Arc::clone(&registry),
                Policy::fixed_window("warned", Quota::per_week(1)).by(Header::named("x-user")).shadow(),
            ),
            || from_user("ada"),
            &["portcullis_requests_total{outcome=\"admitted\"}"],
        ),
    ];
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for series in cases.iter().flat_map(|(.., series)| *series) {
        *expected.entry((*series).to_owned()).or_default() += THREADS * REQUESTS;
    }
    let trial = "portcullis_would_reject_total{policy=\"warned\",cause=\"limited\"}";
    expected.insert(trial.to_owned(), THREADS * REQUESTS - 1);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(async {
                    for _ in 0..REQUESTS {
                        for (layer, request, _) in &cases {
                            send(layer, request()).await;
                        }
                    }
                });
            });
        }
    });
    let names = ["skipped", "exempt", "preflights", "identity_errors", "requests", "would_reject"];
    let names = names.map(|name| format!("portcullis_{name}_total"));
    assert_eq!(recorded.nonzero(&names.each_ref().map(String::as_str)), expected);
}
