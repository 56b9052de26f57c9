//! Exemptions and lists.

#[cfg(feature = "axum")]
mod nested;
mod paths;

use std::net::SocketAddr;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use http::request::Parts;
use http::{Method, Request, Response};
use portcullis_core::{Policy, Quota};
use portcullis_tower::matching::{
    ExtensionValue, GrpcMethod, Network, RequestMatcher, RequestPath, Undecided,
};
use portcullis_tower::{
    Bearer, ClientIp, Event, Global, Header, KeyError, LayerBuilder, Lookup, RateLimitHeaders,
    RateLimitLayer, Reason, Trust,
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
    LayerBuilder::new(registry(), policy("all")).by(Global)
}

fn get(path: &str) -> Request<String> {
    Request::get(path).body(String::new()).unwrap()
}

fn from(peer: &str, headers: &[(&str, &str)]) -> Request<String> {
    let mut request = request(headers);
    request.extensions_mut().insert(SocketAddr::new(peer.parse().unwrap(), 1));
    request
}

/// A request that the layer has neither charged nor marked.
fn is_untouched(answer: &Answer) -> bool {
    answer.status == 200 && answer.headers.is_empty() && answer.seen.is_none()
}

#[tokio::test]
async fn an_exempt_request_carries_nothing() {
    let store = Arc::<TestStore>::default();
    let layer = LayerBuilder::new(registry_of(Arc::clone(&store)), policy("all"))
        .by(Bearer)
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
    let layer = LayerBuilder::new(registry_of(Arc::clone(&store)), policy("all"))
        .by(Global)
        .counts_rejections()
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
        .and_policy(policy("second"))
        .by(Global);
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
    let layer = LayerBuilder::new(registry(), policy("tenant"))
        .by_async(never)
        .except(RequestPath::exact("/health"))
        .deny(RequestPath::exact("/secret"));
    let (service, _) = probed(&layer);
    assert!(is_untouched(&send(&service, get("/health")).await));
    assert_eq!(send(&service, get("/secret")).await.status, 403);
}

#[tokio::test]
async fn a_look_up_exempts_by_its_own_result() {
    let layer = LayerBuilder::new(registry(), policy("tenant")).by_async(|parts: &Parts| {
        let token = parts.headers.get("authorization").cloned();
        async move {
            Ok(if token.is_some_and(|token| token == "Bearer ours") {
                Lookup::exempt()
            } else {
                Lookup::found("tenant", "acme")
            })
        }
    });
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
async fn forged_addresses_are_in_no_list() {
    let clients = ClientIp::behind(Trust::networks(["10.0.0.0/24"])).x_forwarded_for();
    let layer = LayerBuilder::new(registry(), policy("address"))
        .by(clients.clone())
        .except(Network::of(&clients, ["203.0.113.0/24", "2001:db8:7::/48"]))
        .deny(Network::of(&clients, ["198.51.100.0/24"]));
    let (service, _) = probed(&layer);
    for (peer, forwarded, status, is_exempt) in [
        // Through the proxy.
        ("10.0.0.9", "203.0.113.7", 200, true),
        ("::ffff:10.0.0.9", "::ffff:203.0.113.7", 200, true),
        ("10.0.0.9", "2001:db8:7::1", 200, true),
        ("10.0.0.9", "6.6.6.6, 203.0.113.7, 10.0.0.8", 200, true),
        ("10.0.0.9", "198.51.100.7", 403, false),
        ("10.0.0.9", "[::ffff:198.51.100.7]:80", 403, false),
        // Around the proxy, and with forged entries.
        ("192.0.2.1", "203.0.113.7", 200, false),
        ("10.0.1.9", "203.0.113.7", 200, false),
        ("10.0.0.9", "203.0.113.7, 192.0.2.2", 200, false),
        ("10.0.0.9", "203.0.113.7, 10.0.0.8, 192.0.2.3", 200, false),
        ("10.0.0.9", "203.0.113.7, 198.51.100.7", 403, false),
        ("198.51.100.7", "203.0.113.7", 403, false),
        ("::ffff:198.51.100.7", "203.0.113.7", 403, false),
        // The error of the address.
        ("10.0.0.9", "203.0.113.7, unknown", 400, false),
        ("10.0.0.9", "203.0.113.7,", 400, false),
        ("10.0.0.9", "203.0.113.7, ::", 400, false),
    ] {
        let answer = send(&service, from(peer, &[("x-forwarded-for", forwarded)])).await;
        assert_eq!((answer.status, is_untouched(&answer)), (status, is_exempt), "{peer} {forwarded}");
    }
    for header in ["x-real-ip", "forwarded", "x-client-ip", "cf-connecting-ip", "true-client-ip"] {
        let answer = send(&service, from("192.0.2.9", &[(header, "203.0.113.7")])).await;
        assert!(!is_untouched(&answer), "{header}");
    }
}

#[tokio::test]
async fn without_an_address_a_request_is_limited_or_rejected() {
    let clients = || ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
    let network = || Network::of(&clients(), ["0.0.0.0/0", "::/0"]);
    let limited = [200, 429];
    for (request, except, only, deny) in [
        (from("10.0.0.9", &[("x-forwarded-for", "unknown")]), limited, limited, [400, 400]),
        (request(&[]), limited, limited, [500, 500]),
    ] {
        for (layer, expected) in [
            (limit().except(network()), except),
            (limit().only(network()), only),
            (limit().except(network().not()), except),
            (limit().deny(network()), deny),
            (limit().deny(network().not()), deny),
            (limit().deny(network()).except(RequestPath::exact("/")), deny),
        ] {
            let (service, _) = probed(&layer);
            let first = send(&service, request.clone()).await.status;
            assert_eq!([first, send(&service, request.clone()).await.status], expected);
        }
    }
}

#[tokio::test]
async fn an_unknown_address_that_is_denied_is_charged_as_malformed() {
    let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
    let peer = LayerBuilder::new(registry(), policy("peer")).by(ClientIp::peer());
    let (service, probe) = probed(&peer.deny(Network::of(&clients, ["198.51.100.0/24"])));
    let request = || from("10.0.0.9", &[("x-forwarded-for", "unknown")]);
    assert_eq!(send(&service, request()).await.status, 400);
    assert_eq!(send(&service, request()).await.status, 429);
    assert_eq!(probe.calls(), 0);
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
    let layer = LayerBuilder::new(registry_of(Arc::clone(&store)), policy("all")).by(Global);
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
    let outer =
        LayerBuilder::new(registry.clone(), Policy::gcra("outer", Quota::per_minute(60).burst(9))).by(Global);
    let inner = LayerBuilder::new(registry, policy("inner"))
        .by(Header::named("x-user"))
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
    registry.add_observer(Arc::new(move |event: &Event<'_>| {
        seen.lock().unwrap().push(format!("{:?}", event.kind));
    }));
    let layer = LayerBuilder::new(registry, policy("all"))
        .by(Global)
        .except(RequestPath::exact("/health"))
        .deny(|parts: &Parts| parts.uri.path().starts_with("/s3cret"));
    let (service, _) = probed(&layer);
    send(&service, get("/health")).await;
    for _ in 0..3 {
        send(&service, get("/s3cret/ada")).await;
    }
    let denied = "Rejected { reason: Denied, decisions: [] }";
    assert_eq!(*events.lock().unwrap(), ["Skipped", "Admitted { decisions: [] }", denied, denied, denied]);
    let expected = "WARN requests are rejected with 403, because a list of the rate limiter denies them; counted since the \
                    last such line requests=1";
    assert_eq!(log.lines(), [expected]);
}

#[tokio::test]
async fn an_error_of_a_denied_network_is_logged_and_counted() {
    let (log, _guard) = log();
    let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
    let (service, _) = probed(&limit().deny(Network::of(&clients, ["198.51.100.0/24"])));
    send(&service, from("10.0.0.9", &[("x-forwarded-for", "s3cret")])).await;
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("WARN requests have a malformed identity"), "{lines:?}");
    assert!(!lines[0].contains("s3cret"));
}

#[tokio::test]
async fn a_network_without_addresses_is_reported_once() {
    let (log, _guard) = log();
    let (service, _) = probed(&limit().except(Network::of(&ClientIp::peer(), ["10.0.0.0/8"])));
    for _ in 0..3 {
        send(&service, request(&[])).await;
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("a list by network of the rate limiter has no address to compare"),
        "{lines:?}"
    );
    assert!(lines[0].contains("into_make_service_with_connect_info"), "{lines:?}");
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
