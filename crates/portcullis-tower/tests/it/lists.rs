//! Exemptions and lists.

#[cfg(feature = "axum")]
mod nested;
mod networks;
mod paths;

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use http::request::Parts;
use http::{Method, Request, Response};
use portcullis_core::{Policy, Quota};
use portcullis_tower::matching::{ExtensionValue, GrpcMethod, RequestMatcher, RequestPath, Undecided};
use portcullis_tower::{
    Bearer, Event, Global, Header, KeyError, Lookup, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Reason,
};
use tower::{Layer as _, ServiceExt as _};

use crate::log::log;
use crate::probe::{Answer, Probe, grpc, probed, request, send};
use crate::support::{TestStore, registry, registry_of};

pub(crate) fn policy(name: &'static str) -> Policy {
    Policy::gcra(name, Quota::per_minute(1))
}

/// One request per minute for all clients together.
fn limit() -> RateLimitLayer {
    RateLimitLayer::new(registry(), policy("all").by(Global))
}

fn get(path: &str) -> Request<String> {
    Request::get(path).body(String::new()).unwrap()
}

/// A request that the layer has neither charged nor marked.
fn is_untouched(answer: &Answer) -> bool {
    answer.status == 200 && answer.headers.is_empty() && answer.seen.is_none()
}

#[tokio::test]
async fn an_exempt_request_carries_nothing() {
    let store = Arc::<TestStore>::default();
    let layer = RateLimitLayer::new(registry_of(Arc::clone(&store)), policy("all").by(Bearer))
        .and(policy("shadow").by(Global).shadow())
        .except(RequestPath::exact("/health"))
        .headers(RateLimitHeaders::IETF | RateLimitHeaders::X_RATELIMIT)
        .decision_in_response();
    let (service, probe) = probed(&layer);
    for _ in 0..3 {
        let answer = send(&service, get("/health")).await;
        assert!(is_untouched(&answer) && answer.in_response.is_none(), "{answer:?}");
    }
    assert_eq!((probe.calls(), store.asked.load(Ordering::Relaxed)), (3, 0));
    assert_eq!(send(&service, get("/other")).await.status, 401);
}

#[tokio::test]
async fn a_denied_request_is_rejected_and_not_charged() {
    let store = Arc::<TestStore>::default();
    let layer =
        RateLimitLayer::new(registry_of(Arc::clone(&store)), policy("all").by(Global).count_rejections())
            .deny(RequestPath::prefix("/admin"));
    let (service, probe) = probed(&layer);
    let denied = send(&service, get("/admin/users")).await;
    assert_eq!((denied.status, denied.text.as_str()), (403, "this server does not allow the request\n"));
    assert_eq!(denied.all_headers(), ["cache-control: no-store", "content-type: text/plain; charset=utf-8"]);
    let mut json = get("/admin");
    json.headers_mut().insert("accept", "application/problem+json".parse().unwrap());
    let expected = r#"{"type":"about:blank","title":"Forbidden","status":403,"detail":"this server does not allow the request"}"#;
    assert_eq!(send(&service, json).await.text.trim_end(), expected);
    let mut call = grpc(&[]);
    *call.uri_mut() = "/admin".parse().unwrap();
    let refused = send(&service, call).await;
    assert_eq!((refused.status, refused.header("grpc-status")), (200, Some("7")));
    assert_eq!(refused.header("grpc-status-details-bin"), None);
    assert_eq!((probe.calls(), store.asked.load(Ordering::Relaxed)), (0, 0));
    assert_eq!(send(&service, get("/")).await.status, 200);
}

#[tokio::test]
async fn a_closure_makes_the_response_to_a_denied_request() {
    let layer = limit().deny(Method::TRACE).reject_with(|rejection| {
        assert_eq!((rejection.reason(), rejection.decisions().len()), (Reason::Denied, 0));
        assert_eq!((rejection.retry_after(), rejection.status().as_u16()), (None, 403));
        let mut response = Response::new("no".into());
        *response.status_mut() = http::StatusCode::NOT_FOUND;
        response
    });
    let (service, _) = probed(&layer);
    let trace = Request::builder().method(Method::TRACE).body(String::new()).unwrap();
    let denied = send(&service, trace).await;
    assert_eq!((denied.status, denied.text.as_str()), (404, "no"));
    assert_eq!(denied.header("cache-control"), Some("no-store"));
}

#[tokio::test]
async fn only_the_requests_that_are_named_are_limited() {
    let (service, _) = probed(&limit().only([Method::POST, Method::PUT]).only(RequestPath::exact("/login")));
    for _ in 0..2 {
        assert!(is_untouched(&send(&service, get("/")).await));
    }
    assert_eq!(send(&service, get("/login")).await.status, 200);
    assert_eq!(send(&service, get("/login")).await.status, 429);
    for method in [Method::POST, Method::PUT] {
        let request = Request::builder().method(method).body(String::new()).unwrap();
        assert_eq!(send(&service, request).await.status, 429);
    }
}

#[tokio::test]
async fn lists_apply_to_all_policies_and_keep_their_order() {
    let layer = limit()
        .deny(RequestPath::prefix("/api/admin"))
        .only(RequestPath::prefix("/api"))
        .except(RequestPath::prefix("/api/public"))
        .except(RequestPath::prefix("/api/admin"))
        .and(policy("second").by(Global));
    let (service, _) = probed(&layer);
    assert_eq!(send(&service, get("/api/admin")).await.status, 403);
    for path in ["/", "/api/public", "/apis"] {
        assert!(is_untouched(&send(&service, get(path)).await), "{path}");
    }
    assert_eq!(send(&service, get("/api")).await.status, 200);
    assert_eq!(send(&service, get("/api/x")).await.status, 429);
}

#[tokio::test]
async fn lists_are_decided_before_look_ups() {
    let never = |_: &Parts| async { unreachable!("a listed request is looked up") };
    let layer = RateLimitLayer::new(registry(), policy("tenant").by_async(never))
        .except(RequestPath::exact("/health"))
        .deny(RequestPath::exact("/secret"));
    let (service, _) = probed(&layer);
    assert!(is_untouched(&send(&service, get("/health")).await));
    assert_eq!(send(&service, get("/secret")).await.status, 403);
}

#[tokio::test]
async fn a_look_up_exempts_by_its_own_result() {
    let layer = RateLimitLayer::new(
        registry(),
        policy("tenant").by_async(|parts: &Parts| {
            let token = parts.headers.get("authorization").cloned();
            async move {
                Ok(if token.is_some_and(|token| token == "Bearer ours") {
                    Lookup::exempt()
                } else {
                    Lookup::found("tenant", "acme")
                })
            }
        }),
    );
    let (service, _) = probed(&layer);
    for _ in 0..2 {
        assert!(is_untouched(&send(&service, request(&[("authorization", "Bearer ours")])).await));
    }
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(send(&service, request(&[])).await.status, 429);
}

#[tokio::test]
async fn an_account_found_by_authentication_is_exempt() {
    #[derive(Clone)]
    struct Account(bool);

    let (service, _) = probed(&limit().except(ExtensionValue::is(|account: &Account| account.0)));
    let of = |account: Option<Account>| {
        let mut request = request(&[("account", "internal"), ("x-internal", "true")]);
        request.extensions_mut().extend(
            account
                .map(|account| {
                    let mut extensions = http::Extensions::new();
                    extensions.insert(account);
                    extensions
                })
                .unwrap_or_default(),
        );
        request
    };
    for _ in 0..2 {
        assert!(is_untouched(&send(&service, of(Some(Account(true)))).await));
    }
    assert_eq!(send(&service, of(Some(Account(false)))).await.status, 200);
    assert_eq!(send(&service, of(None)).await.status, 429);
}

#[tokio::test]
async fn grpc_methods_are_exempt_as_calls_only() {
    let layer =
        limit().except(GrpcMethod::service("grpc.health.v1.Health")).deny(GrpcMethod::named("a.Admin/Stop"));
    let (service, _) = probed(&layer);
    let call = |path: &str| {
        let mut request = grpc(&[]);
        *request.uri_mut() = path.parse().unwrap();
        request
    };
    for _ in 0..2 {
        assert!(is_untouched(&send(&service, call("/grpc.health.v1.Health/Check")).await));
    }
    for path in
        ["/a.Admin/Stop", "//a.Admin/Stop", "/a.Admin/%53top", "/grpc.health.v1.Health/../a.Admin/Stop"]
    {
        assert_eq!(send(&service, call(path)).await.header("grpc-status"), Some("7"), "{path}");
    }
    // Tonic would run it.
    assert_eq!(send(&service, get("/a.Admin/Stop")).await.status, 403);
    assert_eq!(send(&service, get("/grpc.health.v1.Health/Check")).await.status, 200);
    for path in ["/grpc.health.v1.Healthy/Check", "/grpc.health.v1.Health", "/a.B/Check"] {
        assert_eq!(send(&service, call(path)).await.header("grpc-status"), Some("8"), "{path}");
    }
}

#[tokio::test]
async fn a_closure_that_panics_exempts_no_request() {
    let store = Arc::<TestStore>::default();
    let broken = |parts: &Parts| parts.headers["x-absent"] == "1";
    let layer = RateLimitLayer::new(registry_of(Arc::clone(&store)), policy("all").by(Global));
    for layer in [layer.clone().except(broken), layer.clone().only(broken), layer.deny(broken)] {
        let (service, probe) = probed(&layer);
        let mut ready = service.clone();
        let ready = ready.ready().await.unwrap();
        let call = panic::catch_unwind(AssertUnwindSafe(|| tower::Service::call(ready, get("/"))));
        assert!(call.is_err());
        assert_eq!((probe.calls(), store.asked.load(Ordering::Relaxed)), (0, 0));
    }
}

#[tokio::test]
async fn preflights_are_listed_as_they_are_sent() {
    let preflight = |path: &str| {
        let request = Request::options(path).header("origin", "https://a.example");
        request.header("access-control-request-method", "POST").body(String::new()).unwrap()
    };
    let (service, _) =
        probed(&limit().deny(RequestPath::prefix("/admin")).except(RequestPath::exact("/health")));
    assert_eq!(send(&service, preflight("/admin")).await.status, 403);
    for _ in 0..2 {
        assert!(is_untouched(&send(&service, preflight("/health")).await));
    }
    assert_eq!(send(&service, preflight("/")).await.status, 200);
    assert_eq!(send(&service, preflight("/")).await.status, 429);
    assert_eq!(send(&service, get("/")).await.status, 200);
    let (service, _) = probed(&limit().only(Method::POST));
    for _ in 0..2 {
        assert!(is_untouched(&send(&service, preflight("/")).await));
    }
}

#[tokio::test]
async fn the_layer_around_still_shows_its_budget() {
    let registry = registry();
    let outer = RateLimitLayer::new(
        registry.clone(),
        Policy::gcra("outer", Quota::per_minute(60).burst(9)).by(Global),
    )
    .with_charge();
    let inner = RateLimitLayer::new(registry, policy("inner").by(Header::named("x-user")))
        .except(RequestPath::exact("/health"))
        .deny(RequestPath::exact("/secret"));
    let service = outer.layer(inner.layer(Probe::default()));
    let answer = service.clone().oneshot(get("/health")).await.unwrap();
    assert_eq!(answer.headers()["x-ratelimit-remaining"], "8");
    // A rejection by the inner layer shows no budget of the outer one.
    let denied = service.oneshot(get("/secret")).await.unwrap();
    assert_eq!(
        (denied.status().as_u16(), denied.headers().contains_key("x-ratelimit-remaining")),
        (403, false)
    );
}

#[tokio::test]
async fn lists_have_events_and_one_throttled_line() {
    let (log, _guard) = log();
    let events = Arc::<Mutex<Vec<String>>>::default();
    let registry = registry();
    let seen = Arc::clone(&events);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        seen.lock().unwrap().push(format!("{:?}", event.kind));
    }));
    let layer = RateLimitLayer::new(registry, policy("all").by(Global))
        .except(RequestPath::exact("/health"))
        .deny(|parts: &Parts| parts.uri.path().starts_with("/s3cret"));
    let (service, _) = probed(&layer);
    send(&service, get("/health")).await;
    for _ in 0..3 {
        send(&service, get("/s3cret/ada")).await;
    }
    let denied = "Rejected { reason: Denied, decisions: [] }";
    assert_eq!(*events.lock().unwrap(), ["Skipped", "Admitted { decisions: [] }", denied, denied, denied]);
    let expected = "INFO requests are rejected with 403, because a list of the rate limiter denies them; counted since the \
                    last such line requests=1";
    assert_eq!(log.lines(), [expected]);
}

/// A matcher of a user, which may fail like those of the crate.
struct Directory;

impl RequestMatcher for Directory {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        match parts.uri.path() {
            "/found" => Ok(true),
            "/other" => Ok(false),
            _ => Err(KeyError::client("the directory does not know it").into()),
        }
    }
}

#[tokio::test]
async fn matchers_are_chosen_at_run_time() {
    for (path, is_exempt) in [("/found", true), ("/other", false), ("/unknown", false)] {
        let chosen: Vec<Box<dyn RequestMatcher>> = vec![Box::new(Method::POST), Box::new(Directory)];
        let (service, _) = probed(&limit().except(chosen));
        assert_eq!(is_untouched(&send(&service, get(path)).await), is_exempt, "{path}");
    }
}
