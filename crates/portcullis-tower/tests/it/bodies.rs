//! The bodies of rejections, and closures that make them.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use portcullis_core::{FailureMode, Policy, Quota};
use portcullis_tower::{
    Bearer, CachedLookup, CheckBuilder, Cookie, Global, Header, Lookup, PolicyExt as _, RateLimitLayer,
    Reason, RejectionFormat,
};

use crate::probe::{Answer, grpc, probed, request, send};
use crate::support::{Mode, TestStore, registry, registry_of};

fn layer() -> RateLimitLayer {
    let tight = Policy::gcra(r#"ti"ght"#, Quota::per_minute(1));
    let wide = Policy::gcra("wide", Quota::per_minute(1).burst(9));
    let never = Policy::fixed_window("slow", Quota::per_hour(1));
    RateLimitLayer::new(registry(), tight.by(Global)).and(wide).and(never)
}

async fn second(layer: &RateLimitLayer, accept: &str) -> Answer {
    let (service, _) = probed(layer);
    send(&service, request(&[])).await;
    send(&service, request(&[("accept", accept)])).await
}

#[tokio::test]
async fn a_rejection_has_the_format_that_accept_prefers() {
    let text = second(&layer(), "text/html, */*;q=0.1").await;
    assert_eq!((text.header("content-type"), text.status), (Some("text/plain; charset=utf-8"), 429));
    assert_eq!(text.text, "rate limit exceeded: retry after 3600 s\n");

    let expected = concat!(
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
        r#""title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"#,
        r#""detail":"rate limit exceeded: retry after 3600 s","violated-policies":["ti\"ght","slow"],"#,
        r#""retry-after":3600}"#,
        "\n"
    );
    for (accept, content_type) in [
        ("application/json", "application/json"),
        ("application/json;q=0.5, application/problem+json", "application/problem+json"),
    ] {
        let answer = second(&layer(), accept).await;
        assert_eq!((answer.header("content-type"), answer.text.as_str()), (Some(content_type), expected));
        assert_eq!(
            (answer.header("retry-after"), answer.header("cache-control")),
            (Some("3600"), Some("no-store"))
        );
    }
}

#[tokio::test]
async fn default_format_is_that_of_the_limiter() {
    let registry = registry();
    registry.reject_as(RejectionFormat::Problem);
    let policy = Policy::gcra("all", Quota::per_minute(1));
    let layer = RateLimitLayer::new(std::sync::Arc::clone(&registry), policy.clone().by(Global));
    let changed = layer.clone().reject_as(RejectionFormat::Json).reject_with(|rejection| {
        assert_eq!(rejection.reason(), Reason::Limited);
        rejection.response()
    });
    let (text, json, problem) = ("text/plain; charset=utf-8", "application/json", "application/problem+json");
    for (accept, of_limiter, of_layer) in
        [("*/*", problem, json), ("text/html", problem, json), ("text/plain", text, text)]
    {
        assert_eq!(second(&layer, accept).await.header("content-type"), Some(of_limiter), "{accept}");
        assert_eq!(second(&changed, accept).await.header("content-type"), Some(of_layer), "{accept}");
    }
    let check = CheckBuilder::new(&registry, &policy).by(|key| key.part("user", b"ada")).cost(2);
    let limited = check.await.unwrap_err();
    assert_eq!(limited.rejection().response().headers()["content-type"], problem);
    assert_eq!(limited.into_http().headers()["content-type"], problem);
}

#[tokio::test]
async fn every_rejection_has_problem_details() {
    let store = Arc::<TestStore>::default();
    store.set(Mode::Down);
    let one = || Policy::gcra("all", Quota::per_minute(1));
    let closed = one().on_store_failure(FailureMode::Closed);
    let look_up = |_: &http::request::Parts| async { Ok(Lookup::found("account", "acme")) };
    let accounts = CachedLookup::new(Cookie::named("session"), look_up);
    let misconfigured = |_: &http::request::Parts, _: &mut portcullis_tower::KeyWriter<'_>| {
        Err(portcullis_tower::KeyError::server("the secret of the server"))
    };
    for (layer, status, r#type, title, rest) in [
        (
            RateLimitLayer::new(registry_of(store), closed.by(Global)),
            503,
            "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
            "Request cannot be satisfied due to temporary server capacity constraints",
            r#""detail":"the rate limiter cannot answer at the moment"}"#,
        ),
        (
            RateLimitLayer::new(registry(), one().by(Global).cost(2)),
            400,
            "about:blank",
            "Bad Request",
            concat!(
                r#""detail":"the cost of this request exceeds what the rate limit can ever admit","#,
                r#""violated-policies":["all"]}"#,
            ),
        ),
        (
            RateLimitLayer::new(registry(), one().by(Header::named("x-user"))),
            400,
            "about:blank",
            "Bad Request",
            r#""detail":"the request has no identity: it needs the header x-user"}"#,
        ),
        (
            RateLimitLayer::new(registry(), one().by(Header::named("x-user")).hide_key()),
            400,
            "about:blank",
            "Bad Request",
            r#""detail":"the request has no identity"}"#,
        ),
        (
            RateLimitLayer::new(registry(), one().by_async(accounts)),
            400,
            "about:blank",
            "Bad Request",
            r#""detail":"the request has no identity: it needs the cookie session"}"#,
        ),
        (
            RateLimitLayer::new(registry(), one().by(Bearer)),
            401,
            "about:blank",
            "Unauthorized",
            r#""detail":"the request has no identity: it needs a bearer token"}"#,
        ),
        (
            RateLimitLayer::new(registry(), one().by(misconfigured)),
            500,
            "about:blank",
            "Internal Server Error",
            r#""detail":"the server cannot tell who is calling"}"#,
        ),
    ] {
        let answer = send(&probed(&layer).0, request(&[("accept", "application/problem+json")])).await;
        let expected = format!(r#"{{"type":"{type}","title":"{title}","status":{status},{rest}"#);
        assert_eq!((answer.status, &answer.text), (status, &(expected + "\n")));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("retry-after"), None, "no known wait helps");
        assert_eq!(answer.header("www-authenticate").is_some(), status == 401);
    }
}

#[tokio::test]
async fn a_closure_cannot_remove_the_required_headers() {
    let layer = layer().reject_with(|rejection| {
        let names: Vec<_> = rejection.violated_policies().map(ToString::to_string).collect();
        let decision = rejection.decision().unwrap();
        let page = format!(
            "{} {:?} {} {} of {}, {names:?} of {}, {}",
            rejection.parts().uri.path(),
            rejection.reason(),
            rejection.status().as_u16(),
            decision.remaining(),
            decision.limit(),
            rejection.decisions().len(),
            rejection.message(),
        );
        Response::builder()
            .status(StatusCode::SERVICE_UNAVAILABLE)
            .header(header::CACHE_CONTROL, "max-age=3600")
            .header(header::RETRY_AFTER, "0")
            .header("x-ratelimit-remaining", "9999")
            .header("x-own", "kept")
            .body(Bytes::from(page))
            .unwrap()
    });
    let answer = second(&layer, "application/json").await;
    assert_eq!(
        answer.text,
        r#"/ Limited 429 0 of 1, ["ti\"ght", "slow"] of 3, rate limit exceeded: retry after 3600 s"#
    );
    assert_eq!(answer.status, 503);
    assert_eq!(
        answer.all_headers(),
        [
            "cache-control: no-store",
            "retry-after: 3600",
            "x-own: kept",
            "x-ratelimit-limit: 1",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 3600",
        ]
    );

    let (service, _) = probed(&layer);
    send(&service, grpc(&[])).await;
    let answer = send(&service, grpc(&[])).await;
    assert_eq!(
        (answer.header("grpc-status"), answer.header("x-own")),
        (Some("8"), None),
        "gRPC has its own format"
    );
}

#[tokio::test]
async fn a_closure_may_return_the_default_response() {
    let policy = || Policy::gcra("all", Quota::per_minute(1));
    let standard = RateLimitLayer::new(registry(), policy().by(Bearer));
    let custom = standard.clone().reject_with(|rejection| {
        assert_eq!(
            (rejection.reason(), rejection.decision(), rejection.retry_after()),
            (Reason::Unauthenticated, None, None)
        );
        rejection.response()
    });
    let challenging = standard.clone().reject_with(|_| {
        let mut response = Response::new(Bytes::new());
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        response
    });
    let [standard, custom, challenging] = [standard, custom, challenging].map(|layer| probed(&layer).0);
    let (standard, custom) = (send(&standard, request(&[])).await, send(&custom, request(&[])).await);
    assert_eq!((standard.all_headers(), standard.text), (custom.all_headers(), custom.text));
    let challenging = send(&challenging, request(&[])).await;
    assert_eq!(
        challenging.header("www-authenticate"),
        Some("Basic"),
        "the closure may set another challenge"
    );
    assert_eq!(challenging.header("retry-after"), Some("5"), "unrelated headers are kept");
}

#[tokio::test]
async fn a_hostile_accept_is_answered_with_bounded_work() {
    let (service, _) = probed(&layer());
    send(&service, request(&[])).await;
    let long = "application/json;q=0.1,".repeat(20_000);
    for accept in [long.as_str(), &"\"".repeat(60_000), &"a/b;".repeat(10_000), ",", "*/*;q=99999999999"] {
        let answer = send(&service, request(&[("accept", accept)])).await;
        assert!(matches!(
            answer.header("content-type"),
            Some("text/plain; charset=utf-8" | "application/json")
        ));
    }
}
