//! Headers of each policy, side by side.

use super::*;

fn tokens() -> Policy {
    Policy::token_bucket("tokens", Quota::per_minute(10))
}

fn requests() -> Policy {
    Policy::gcra("requests", Quota::per_second(50).burst(3))
}

/// Answers with a header.
fn answering(
    name: &'static str,
) -> impl tower::Service<Request<String>, Response = Response<()>, Error = http::Error, Future: Send> + Clone
{
    tower::service_fn(move |_: Request<String>| {
        std::future::ready(Response::builder().header(name, "99").body(()))
    })
}

#[tokio::test]
async fn policies_are_shown_side_by_side() {
    let layer = RateLimitLayer::new(registry(), tokens().by(Global).cost(4)).and(requests());
    let layer = layer.and(Policy::fixed_window("hidden", Quota::per_day(9)).by(Global).hide());
    let layer =
        layer.and(Policy::fixed_window("free", Quota::UNLIMITED)).headers(RateLimitHeaders::BY_POLICY);
    let exposed: Vec<_> = layer.exposed_headers().iter().map(ToString::to_string).collect();
    let (service, _) = probed(&layer);
    let first = send(&service, request(&[])).await;
    assert_eq!(
        budget_lines(&first),
        [
            "x-ratelimit-limit-requests: 3",
            "x-ratelimit-limit-tokens: 10",
            "x-ratelimit-remaining-requests: 2",
            "x-ratelimit-remaining-tokens: 6",
            "x-ratelimit-reset-requests: 20ms",
            "x-ratelimit-reset-tokens: 24s",
        ]
    );
    let names = budget_lines(&first).into_iter().map(|line| line.split(':').next().unwrap().to_owned());
    assert!(names.into_iter().all(|name| exposed.contains(&name)), "{exposed:?}");
    assert_eq!(exposed.len(), 8, "{exposed:?}");
    send(&service, request(&[])).await;
    let denied = send(&service, request(&[])).await;
    assert_eq!(denied.status, 429);
    assert_eq!(
        budget_lines(&denied),
        [
            "retry-after: 12",
            "x-ratelimit-limit-tokens: 10",
            "x-ratelimit-remaining-tokens: 2",
            "x-ratelimit-reset-tokens: 48s",
        ]
    );
}

#[tokio::test]
async fn headers_of_a_model_are_replaced() {
    let layer = RateLimitLayer::new(registry(), tokens().by(Global)).headers(RateLimitHeaders::BY_POLICY);
    for (theirs, expected) in [
        ("x-ratelimit-remaining-tokens", None),
        ("x-ratelimit-remaining-requests", Some("99")),
        ("x-ratelimit-remaining", Some("99")),
    ] {
        let response = layer.layer(answering(theirs)).oneshot(Request::new(String::new())).await.unwrap();
        let shown = |name| response.headers().get(name).map(|value| value.to_str().unwrap());
        assert!(shown("x-ratelimit-remaining-tokens").unwrap().parse::<u64>().unwrap() < 10);
        assert_eq!(shown(theirs).filter(|shown| expected.is_some() && Some(*shown) == expected), expected);
    }
}

#[tokio::test]
async fn nested_layers_are_shown_side_by_side() {
    let registry = registry();
    let own = |policy: Policy| {
        RateLimitLayer::new(Arc::clone(&registry), policy.by(Global)).headers(RateLimitHeaders::BY_POLICY)
    };
    let layers = (own(requests()), own(tokens()).headers(RateLimitHeaders::BY_POLICY | ALL));
    let response = layers.layer(answering("x-own")).oneshot(Request::new(String::new())).await.unwrap();
    let mut names: Vec<_> = response.headers().keys().map(http::HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "x-own",
            "x-ratelimit-limit",
            "x-ratelimit-limit-requests",
            "x-ratelimit-limit-tokens",
            "x-ratelimit-remaining",
            "x-ratelimit-remaining-requests",
            "x-ratelimit-remaining-tokens",
            "x-ratelimit-reset",
            "x-ratelimit-reset-requests",
            "x-ratelimit-reset-tokens",
        ]
    );
    assert_eq!(
        format!("{:?}", RateLimitHeaders::BY_POLICY),
        r#"{"x-ratelimit-degraded", "x-ratelimit-* of each policy"}"#
    );
}

#[tokio::test]
async fn requests_in_flight_have_no_reset() {
    let calls = portcullis_core::Concurrency::new("calls", 4);
    let layer =
        RateLimitLayer::new(registry(), tokens().by(Global)).and(calls).headers(RateLimitHeaders::BY_POLICY);
    let response =
        layer.layer(answering("x-ratelimit-reset-calls")).oneshot(Request::new(String::new())).await.unwrap();
    let shown = |name| response.headers().get(name).map(|value| value.to_str().unwrap());
    assert_eq!([shown("x-ratelimit-remaining-calls"), shown("x-ratelimit-reset-calls")], [Some("3"), None]);
}
