//! What a limiter sets for all of its layers.

use std::sync::Arc;

use http::{HeaderName, Response};
use portcullis_core::{Gcra, Policy, PolicySettings, Quota};
use portcullis_tower::headers::{X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET};
use portcullis_tower::{
    CheckBuilder, Global, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Registry, Rejection,
};

use crate::probe::{Probe, grpc, probed, request, send};
use crate::support::registry;
use tower::{Layer as _, ServiceExt as _};

fn layer(registry: &Arc<Registry>, name: &str) -> RateLimitLayer {
    let policy = Policy::try_new(name, Gcra::new(Quota::per_minute(1)), PolicySettings::default()).unwrap();
    RateLimitLayer::new(Arc::clone(registry), policy.by(Global))
}

fn rejection(
    text: &'static str,
) -> impl Fn(&Rejection<'_>) -> Response<bytes::Bytes> + Send + Sync + 'static {
    move |rejection| {
        let mut response = Response::new(text.into());
        *response.status_mut() = rejection.status();
        response
    }
}

#[tokio::test]
async fn renamed_headers_are_those_of_layers_and_checks() {
    let registry = registry();
    let own = |name: &'static str| HeaderName::from_static(name);
    registry.rename_header(&X_RATELIMIT_LIMIT, own("acme-limit")).unwrap();
    registry.rename_header(&X_RATELIMIT_REMAINING, own("acme-remaining")).unwrap();
    assert!(registry.rename_header(&X_RATELIMIT_RESET, own("acme-limit")).is_err());
    let default = layer(&registry, "default");
    assert_eq!(default.exposed_headers()[..3], ["acme-limit", "acme-remaining", "x-ratelimit-reset"]);
    let (service, _) = probed(&default);
    for status in [200, 429] {
        let answer = send(&service, request(&[])).await;
        assert_eq!(answer.status, status);
        assert_eq!((answer.header("acme-limit"), answer.header("acme-remaining")), (Some("1"), Some("0")));
        assert_eq!(
            (answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining")),
            (None, None)
        );
    }

    // An outer layer keeps its figures out, as of headers that are not renamed.
    let ten = Policy::fixed_window("outer", Quota::per_minute(10));
    let outer = RateLimitLayer::new(Arc::clone(&registry), ten.by(Global));
    let nested = outer.layer(layer(&registry, "inner").layer(Probe::default()));
    for status in [200, 429] {
        let response = nested.clone().oneshot(request(&[])).await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["acme-limit"], "1");
        assert!(!response.headers().contains_key("x-ratelimit-limit"));
    }

    // A layer with a name of its own has no other.
    let layer = layer(&registry, "own").rename_header(&X_RATELIMIT_RESET, own("acme-limit")).unwrap();
    assert_eq!(layer.exposed_headers()[..3], ["x-ratelimit-limit", "x-ratelimit-remaining", "acme-limit"]);

    let exports = Policy::fixed_window("exports", Quota::per_day(1));
    let check = || CheckBuilder::new(&registry, &exports).by(|key| key.part("user", b"ada"));
    assert!(check().await.is_ok());
    let response = check().await.unwrap_err().into_http();
    assert_eq!(response.headers()["acme-remaining"], "0");
    assert!(!response.headers().contains_key("x-ratelimit-remaining"));
}

#[tokio::test]
async fn a_layer_has_the_defaults_of_its_limiter() {
    let registry = registry();
    registry.headers(RateLimitHeaders::IETF);
    registry.reject_with(rejection("the limiter's"));
    registry.decision_in_response();
    let (service, _) = probed(&layer(&registry, "one"));

    let admitted = send(&service, request(&[])).await;
    assert_eq!(admitted.header("ratelimit"), Some(r#""one";r=0;t=60"#));
    assert_eq!(admitted.header("x-ratelimit-limit"), None);
    assert_eq!(admitted.in_response.unwrap().policy().as_str(), "one");
    let rejected = send(&service, request(&[])).await;
    assert_eq!((rejected.status, rejected.text.as_str()), (429, "the limiter's"));
    assert_eq!(rejected.header("ratelimit-policy"), Some(r#""one";q=1;w=60"#));
    assert!(rejected.in_response.is_some());
    assert_eq!(send(&service, grpc(&[])).await.header("grpc-status"), Some("8"));
}

#[tokio::test]
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method is of a rejection with one lifetime"
)]
async fn a_layer_overrides_the_defaults() {
    let registry = registry();
    registry.headers(RateLimitHeaders::IETF);
    registry.reject_with(rejection("the limiter's"));
    let own =
        layer(&registry, "own").headers(RateLimitHeaders::X_RATELIMIT).reject_with(rejection("its own"));
    let default = layer(&registry, "default").reject_with(|rejection| rejection.response());
    for (layer, header, text) in [
        (own, "x-ratelimit-limit", "its own"),
        (default, "ratelimit", "rate limit exceeded: retry after 60 s\n"),
    ] {
        let (service, _) = probed(&layer);
        assert!(send(&service, request(&[])).await.header(header).is_some());
        assert_eq!(send(&service, request(&[])).await.text, text);
    }
}

#[tokio::test]
async fn layers_made_earlier_keep_their_responses() {
    let registry = registry();
    let earlier = layer(&registry, "earlier");
    registry.headers(RateLimitHeaders::NONE);
    registry.decision_in_response();
    let answer = send(&probed(&earlier).0, request(&[])).await;
    assert_eq!(answer.header("x-ratelimit-limit"), Some("1"));
    assert!(answer.in_response.is_none());
    let answer = send(&probed(&layer(&registry, "later")).0, request(&[])).await;
    assert_eq!(answer.header("x-ratelimit-limit"), None);
    assert!(answer.in_response.is_some());
}
