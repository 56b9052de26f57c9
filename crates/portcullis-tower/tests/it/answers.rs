//! The headers and bodies that clients read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{Method, Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use portcullis_core::{Policy, Quota};
use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer};
use tower::{Layer as _, ServiceExt as _};

use crate::probe::{grpc, probed, request, send};
use crate::support::{TestStore, registry, registry_of};

fn limit(policy: Policy) -> RateLimitLayer {
    RateLimitLayer::new(registry(), policy.by(Global))
}

#[tokio::test]
async fn a_default_rejection_has_these_headers_and_this_text() {
    let (service, _) = probed(&limit(Policy::gcra("all", Quota::per_minute(2))));
    let allowed = send(&service, request(&[])).await;
    assert_eq!(
        allowed.all_headers(),
        ["x-ratelimit-limit: 1", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 30"]
    );
    assert_eq!(allowed.text, "inner");

    let denied = send(&service, request(&[])).await;
    assert_eq!(denied.status, 429);
    assert_eq!(denied.text, "rate limit exceeded: retry after 30 s\n");
    assert_eq!(
        denied.all_headers(),
        [
            "cache-control: no-store",
            "content-type: text/plain; charset=utf-8",
            "retry-after: 30",
            "x-ratelimit-limit: 1",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 30",
        ]
    );
}

#[tokio::test]
async fn waits_are_rounded_up_and_never_zero() {
    let year = 365 * 86_400;
    for (quota, waited_micros, retry, pushback) in [
        (Quota::per_second(1_000_000), 0, "1", "1"),
        (Quota::per_second(2), 0, "1", "500"),
        (Quota::per_second(1), 0, "1", "1000"),
        (Quota::per_minute(1), 58_999_999, "2", "1001"),
        (Quota::per_minute(1), 59_000_000, "1", "1000"),
        (Quota::per_minute(1), 59_999_999, "1", "1"),
        (Quota::new(1, std::time::Duration::from_secs(70 * year), None).unwrap(), 0, "2207520000", "-1"),
    ] {
        let store = Arc::<TestStore>::default();
        let registry = registry_of(Arc::clone(&store));
        let (service, _) = probed(&RateLimitLayer::new(registry, Policy::gcra("all", quota).by(Global)));
        assert_eq!(send(&service, request(&[])).await.status, 200);
        store.micros.store(waited_micros, Ordering::Relaxed);
        let denied = send(&service, request(&[])).await;
        assert_eq!((denied.status, denied.header("retry-after")), (429, Some(retry)), "{quota}");
        assert_eq!(denied.header("x-ratelimit-reset"), Some(retry), "{quota}");
        let denied = send(&service, grpc(&[])).await;
        assert_eq!(denied.header("grpc-retry-pushback-ms"), Some(pushback), "{quota}");
    }
}

#[tokio::test]
async fn a_cost_that_can_never_fit_is_a_bad_request() {
    let all = Policy::gcra("all", Quota::per_second(1).burst(5));
    let (service, _) = probed(&RateLimitLayer::new(registry(), all.by(Global).cost(6)));
    let denied = send(&service, request(&[])).await;
    assert_eq!((denied.status, denied.header("retry-after")), (400, None));
    assert_eq!(denied.header("x-ratelimit-remaining"), Some("5"));

    let denied = send(&service, grpc(&[])).await;
    assert_eq!((denied.status, denied.header("grpc-status")), (200, Some("3")));
    assert_eq!((denied.header("retry-after"), denied.header("grpc-retry-pushback-ms")), (None, None));
}

#[tokio::test]
async fn a_grpc_rejection_is_trailers_only() {
    let (service, _) = probed(&limit(Policy::gcra("all", Quota::per_second(2))));
    assert_eq!(send(&service, grpc(&[])).await.status, 200);
    let denied = service.clone().oneshot(grpc(&[])).await.unwrap();
    assert!(denied.body().is_end_stream());
    assert_eq!(denied.body().size_hint().exact(), Some(0));

    let denied = send(&service, grpc(&[])).await;
    assert_eq!(denied.status, 200);
    assert_eq!(
        denied.all_headers(),
        [
            "cache-control: no-store",
            "content-type: application/grpc",
            "grpc-message: rate limit exceeded: retry after 1 s",
            "grpc-retry-pushback-ms: 500",
            concat!(
                "grpc-status-details-bin: CAgSJHJhdGUgbGltaXQgZXhjZWVkZWQ6IHJldHJ5IGFmdGVyIDEgcxo0Cih0eXBlLmdvb2dsZWFw",
                "aXMuY29tL2dvb2dsZS5ycGMuUmV0cnlJbmZvEggKBhCAyrXuARpLCit0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUXVv",
                "dGFGYWlsdXJlEhwKGgoDYWxsEhMwIG9mIDEgdW5pdHMgcmVtYWlu"
            ),
            "grpc-status: 8",
            "retry-after: 1",
            "x-ratelimit-limit: 1",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 1",
        ]
    );
}

#[tokio::test]
async fn a_rejection_of_head_has_the_content_length() {
    let policy = || Policy::gcra("all", Quota::per_second(1));
    let with = |method, accept| {
        let mut request = request(&[("accept", accept)]);
        *request.method_mut() = method;
        request
    };
    let custom = |rejection: &portcullis_tower::Rejection<'_>| {
        if rejection.parts().method == Method::HEAD && rejection.parts().headers["accept"] == "handles-head" {
            return Response::builder().header("content-length", "17").body(bytes::Bytes::new()).unwrap();
        }
        Response::new("too many".into())
    };
    for layer in [limit(policy()), limit(policy()).reject_with(custom)] {
        let (service, _) = probed(&layer);
        send(&service, request(&[])).await;
        for accept in ["text/plain", "application/problem+json"] {
            let full = send(&service, with(Method::GET, accept)).await;
            assert_eq!(full.header("content-length"), None, "the server sets it");
            let head = service.clone().oneshot(with(Method::HEAD, accept)).await.unwrap();
            assert!(head.body().is_end_stream());
            let head = send(&service, with(Method::HEAD, accept)).await;
            assert_eq!((head.status, head.text.as_str()), (full.status, ""));
            assert_eq!(head.header("content-length"), Some(full.text.len().to_string().as_str()));
            assert_eq!(head.header("content-type"), full.header("content-type"));
        }
    }
    let (service, _) = probed(&limit(policy()).reject_with(custom));
    send(&service, request(&[])).await;
    assert_eq!(send(&service, with(Method::HEAD, "handles-head")).await.header("content-length"), Some("17"));
}

#[tokio::test]
async fn a_content_type_alone_is_not_grpc() {
    let (service, _) = probed(&limit(Policy::gcra("all", Quota::per_second(1))));
    send(&service, request(&[])).await;
    for (method, content_type, status) in [
        (Method::GET, "application/grpc", 429),
        (Method::PUT, "application/grpc", 429),
        (Method::CONNECT, "application/grpc", 429),
        (Method::POST, "application/grpc-webinar", 429),
        (Method::POST, "application/grpc", 200),
    ] {
        let mut request = request(&[("content-type", content_type)]);
        *request.method_mut() = method.clone();
        let answer = send(&service, request).await;
        assert_eq!(
            (answer.status, answer.header("grpc-status").is_some()),
            (status, status == 200),
            "{method} {content_type}"
        );
    }
}

#[tokio::test]
async fn headers_of_an_inner_layer_win() {
    let store = Arc::<TestStore>::default();
    let registry = registry_of(store);
    let outer = RateLimitLayer::new(
        Arc::clone(&registry),
        Policy::gcra("outer", Quota::per_second(9).burst(9)).by(Global),
    )
    .with_charge();
    let inner =
        RateLimitLayer::new(registry, Policy::gcra("inner", Quota::per_second(1).burst(2)).by(Global));
    let service = (outer.decision_in_response(), inner.decision_in_response()).layer(tower::service_fn(
        |_: Request<String>| async move {
            Ok::<_, std::convert::Infallible>(Response::new(Full::<bytes::Bytes>::default()))
        },
    ));
    for remaining in ["1", "0", "0"] {
        let response = service.clone().oneshot(request(&[])).await.unwrap();
        assert_eq!(response.headers()["x-ratelimit-limit"], "2");
        assert_eq!(response.headers()["x-ratelimit-remaining"], remaining);
        let decision = response.extensions().get::<portcullis_core::Decision>().unwrap();
        assert_eq!(decision.policy().as_str(), "inner");
    }
}

#[tokio::test]
async fn the_decision_is_in_the_request_and_optionally_the_response() {
    let policy = || Policy::gcra("all", Quota::per_minute(1));
    let (service, _) = probed(&limit(policy()));
    let allowed = send(&service, request(&[])).await;
    assert_eq!(allowed.seen.unwrap().policy().as_str(), "all");
    assert_eq!(allowed.in_response, None);
    assert_eq!(send(&service, request(&[])).await.in_response, None);

    let (service, _) = probed(&limit(policy()).decision_in_response());
    let allowed = send(&service, request(&[])).await;
    assert_eq!(allowed.seen, allowed.in_response);
    assert!(!send(&service, request(&[])).await.in_response.unwrap().is_allowed());
}
