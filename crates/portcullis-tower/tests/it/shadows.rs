//! Shadow policies, which decide and report, and never reject.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{Request, Response};
use http_body_util::Full;
use portcullis_core::{Policy, Quota};
use portcullis_tower::{
    Bearer, ClientIp, Global, Header, Limit, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Shadow,
};
use tower::{Layer as _, ServiceExt as _};

use crate::log::log;
use crate::probe::{grpc, probed, request, send};
use crate::support::{Mode, TestStore, registry, registry_of};

fn policy(name: &'static str, burst: u64) -> Policy {
    Policy::gcra(name, Quota::per_minute(1).burst(burst))
}

/// The decisions that the inner service sees: per shadow policy whether it denies and what remains.
async fn seen(
    layer: &RateLimitLayer,
    request: Request<String>,
) -> (u16, Vec<(String, bool, u64)>, Option<String>) {
    let service = layer.layer(tower::service_fn(async |mut request: Request<String>| {
        let mut response = Response::new(Full::<bytes::Bytes>::default());
        response.extensions_mut().insert(request.extensions_mut().remove::<Shadow>());
        Ok::<_, std::convert::Infallible>(response)
    }));
    let response = service.oneshot(request).await.unwrap();
    let shadow = response.extensions().get::<Option<Shadow>>().cloned().flatten().unwrap_or_default();
    let decisions = shadow.decisions().iter();
    let header = response.headers().get("x-ratelimit-shadow").map(|value| value.to_str().unwrap().to_owned());
    let seen = decisions.map(|seen| (seen.policy().to_string(), !seen.is_allowed(), seen.remaining()));
    (response.status().as_u16(), seen.collect(), header)
}

fn entry(policy: &str, denies: bool, remaining: u64) -> (String, bool, u64) {
    (policy.to_owned(), denies, remaining)
}

#[tokio::test]
async fn a_shadow_denial_affects_neither_the_request_nor_others() {
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let layer =
            RateLimitLayer::new(registry_of(Arc::clone(&store)), policy("narrow", 1).by(Global).shadow())
                .and(policy("enforced", 3))
                .and(Limit::new(policy("wide", 9)).shadow())
                .headers(RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::SHADOW);
        let expected = [
            (200, vec![entry("narrow", false, 0), entry("wide", false, 8)], None),
            (200, vec![entry("narrow", true, 0), entry("wide", false, 7)], Some(r#""narrow""#.to_owned())),
            (200, vec![entry("narrow", true, 0), entry("wide", false, 6)], Some(r#""narrow""#.to_owned())),
            // A rejected request reaches no shadow policy.
            (429, vec![], None),
            (429, vec![], None),
        ];
        for expected in expected {
            assert_eq!(seen(&layer, request(&[])).await, expected, "{mode:?}");
        }
        assert_eq!(store.asked.load(Ordering::Relaxed), 5 + 3 * 2);
    }
}

#[tokio::test]
async fn a_layer_of_shadows_writes_no_headers_by_default() {
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let layer = RateLimitLayer::new(registry_of(store), policy("all", 1).by(Global).shadow());
        let (service, probe) = probed(&layer);
        for request in [request(&[]), request(&[]), grpc(&[])] {
            let answer = send(&service, request).await;
            assert_eq!((answer.status, answer.all_headers(), answer.seen), (200, vec![], None));
        }
        assert_eq!(probe.calls(), 3);
    }
}

#[tokio::test]
async fn shadow_policies_never_reject_for_the_identity() {
    let shadow = RateLimitLayer::new(registry(), policy("shadow", 1).by(Bearer).shadow());
    let (log, _guard) = log();
    for broken in [&[][..], &[("authorization", "Bearer a b")]] {
        assert_eq!(seen(&shadow, request(broken)).await, (200, vec![], None));
        let both = shadow.clone().and(policy("enforced", 1));
        assert_eq!(seen(&both, request(broken)).await.0, 401);
    }
    // A server that cannot determine the identity does not answer 500 for a shadow policy.
    let blind = RateLimitLayer::new(registry(), policy("shadow", 1).by(ClientIp::peer()).shadow());
    assert_eq!(seen(&blind, request(&[])).await.0, 200);
    let lines = log.lines().join("\n");
    assert!(lines.contains("a shadow policy would have rejected requests whose identity"), "{lines}");
    assert!(!lines.contains("cannot decide requests"), "{lines}");
}

#[tokio::test]
async fn a_failing_store_rejects_nothing_in_shadow_mode() {
    let store = Arc::<TestStore>::default();
    let closed = policy("closed", 1).on_store_failure(portcullis_core::FailureMode::Closed);
    let layer = RateLimitLayer::new(registry_of(Arc::clone(&store)), closed.by(Global).shadow());
    for mode in [Mode::Down, Mode::DownLater] {
        store.set(mode);
        assert_eq!(seen(&layer, request(&[])).await, (200, vec![entry("closed", false, 1)], None));
    }
}

#[tokio::test]
async fn shadows_of_nested_layers_are_combined() {
    let registry = registry();
    let outer = RateLimitLayer::new(Arc::clone(&registry), policy("out\"er", 1).by(Global).shadow());
    let inner = RateLimitLayer::new(registry, policy("inner", 1).by(Header::named("x-user")).shadow());
    let headers = RateLimitHeaders::SHADOW;
    let service = (outer.headers(headers), inner.headers(headers)).layer(tower::service_fn(
        async |request: Request<String>| {
            let shadow = request.extensions().get::<Shadow>().unwrap();
            let denial = shadow.denial().map(|decision| decision.policy().to_string());
            Ok::<_, std::convert::Infallible>(Response::new((shadow.decisions().len(), denial)))
        },
    ));
    let request = || Request::builder().header("x-user", "ada").body(String::new()).unwrap();
    assert_eq!(service.clone().oneshot(request()).await.unwrap().headers().len(), 0);
    let response = service.oneshot(request()).await.unwrap();
    let names: Vec<_> = response.headers().get_all("x-ratelimit-shadow").iter().collect();
    assert_eq!(names, [r#""inner""#, r#""out\"er""#]);
}

#[tokio::test]
async fn shadow_rejections_are_counted_in_the_log() {
    let (log, _guard) = log();
    let layer = RateLimitLayer::new(registry(), policy("planned", 1).by(Global).shadow());
    for _ in 0..50 {
        assert_eq!(seen(&layer, request(&[])).await.0, 200);
    }
    assert_eq!(
        log.lines(),
        [
            "INFO shadow policies would have rejected requests, this one some of them; counted since the last such line \
          policy=planned requests=1"
        ]
    );
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn a_layer_of_shadows_leaves_no_charge() {
    use portcullis_tower::Charge;

    let layer = RateLimitLayer::new(registry(), policy("planned", 1).by(Global).shadow());
    let handler = async |charge: Option<Charge>, shadow: Shadow| {
        format!("{} {}", charge.is_some(), shadow.decisions().len())
    };
    let app = axum::Router::new().route("/", axum::routing::get(handler)).layer(layer);
    for _ in 0..2 {
        let request = Request::get("/").body(axum::body::Body::empty()).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = axum::body::to_bytes(response.into_body(), 100).await.unwrap();
        assert_eq!(body, "false 1");
    }
}
