//! Checks of all dialects, on a memory whose time is set by the test.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use portcullis::rules::{Format, Loader, NoRules, Rules};
use portcullis::testing::{self, ManualClock};
use portcullis::{LayerError, Limiter};
use tower::ServiceExt as _;

use super::dialect::Dialect;
use super::{CheckEndpoint, CheckEndpointError};

/// Two requests per minute and address.
const TWO: &str = "[policy.two]\nstrategy = \"gcra\"\nquota = \"2/min burst 2\"\nkey = \"client_ip\"\n";

fn rules(text: &str) -> Rules {
    let loader = Loader::text("limits.toml", Format::Toml, text).without_environment();
    let loader = loader
        .extension::<u8>("account", |id, key| key.part("id", &[*id]))
        .rejection("welcome", |_| Response::new(Bytes::from_static(b"welcome")));
    Rules::load(&loader).unwrap_or_else(|findings| panic!("{findings}"))
}

fn limiter(text: &str) -> (Limiter, ManualClock) {
    let clock = ManualClock::default();
    (testing::limiter(&clock).with_rules(rules(text)).unwrap(), clock)
}

fn router(text: &str) -> Router {
    CheckEndpoint::new(&limiter(text).0).unwrap().router()
}

/// A check of a GET of `/` by 192.0.2.1, with more headers, which replace those of the same name.
fn check(dialect: Dialect, peer: &str, more: &[(&str, &str)]) -> Request<Body> {
    let names = dialect.names();
    let mut request = Request::get(dialect.path())
        .extension(ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 41_000)))
        .header(&names.method, "GET")
        .header(&names.uri, "/")
        .header(&names.host, "example.com")
        .header(&names.address, "192.0.2.1")
        .body(Body::empty())
        .unwrap();
    for (name, value) in more {
        let name: http::HeaderName = name.parse().unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

async fn send(router: &Router, request: Request<Body>) -> Response<Bytes> {
    let (parts, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

/// The status, the status for the client of nginx, and what remains.
async fn seen(router: &Router, request: Request<Body>) -> (u16, Option<String>, Option<String>) {
    let response = send(router, request).await;
    let value = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    (response.status().as_u16(), value("x-check-status"), value("x-ratelimit-remaining"))
}

#[tokio::test]
async fn each_dialect_has_the_figures_and_its_own_rejection() {
    for dialect in Dialect::ALL {
        let router = router(TWO);
        let ask = || check(dialect, "127.0.0.1", &[]);
        assert_eq!(seen(&router, ask()).await, (200, None, Some("1".to_owned())), "{dialect:?}");
        assert_eq!(seen(&router, ask()).await, (200, None, Some("0".to_owned())));
        let rejected = if dialect == Dialect::Nginx {
            (403, Some("429".to_owned()), Some("0".to_owned()))
        } else {
            (429, None, Some("0".to_owned()))
        };
        assert_eq!(seen(&router, ask()).await, rejected, "{dialect:?}");
        let response = send(&router, ask()).await;
        assert_eq!(response.headers()["retry-after"], "30");
        assert_eq!(response.headers()["x-ratelimit-limit"], "2");
        assert_eq!(response.headers()["cache-control"], "no-store");
        // nginx would close the connection because of a body.
        assert_eq!(response.body().is_empty(), dialect == Dialect::Nginx);
        assert_eq!(response.headers().contains_key("content-type"), dialect != Dialect::Nginx);
        // Another client.
        let other = check(dialect, "127.0.0.1", &[(dialect.names().address.as_str(), "192.0.2.2")]);
        assert_eq!(seen(&router, other).await, (200, None, Some("1".to_owned())));
    }
}

#[tokio::test]
async fn time_brings_units_back() {
    let (limiter, clock) = limiter(TWO);
    let router = CheckEndpoint::new(&limiter).unwrap().router();
    for status in [200, 200, 429] {
        assert_eq!(seen(&router, check(Dialect::Caddy, "::1", &[])).await.0, status);
    }
    clock.advance(Duration::from_secs(30));
    for status in [200, 429] {
        assert_eq!(seen(&router, check(Dialect::Caddy, "::1", &[])).await.0, status);
    }
}

#[tokio::test]
async fn method_path_host_and_headers_choose_rules_and_keys() {
    let router = router(
        "[policy.posts]\nstrategy = \"gcra\"\nquota = \"1/min\"\nkey = { header = \"x-api-key\" }\n\
         match = { path = \"/posts\", methods = [\"POST\"], hosts = [\"api.example.com\"] }\n\
         [policy.all]\nstrategy = \"gcra\"\nquota = \"50/min burst 50\"\nkey = \"client_ip\"\nhide = true\n",
    );
    let ask = async |method: &str, uri: &str, host: &str, key: &str| {
        let more = [
            ("x-original-method", method),
            ("x-original-uri", uri),
            ("x-original-host", host),
            ("x-api-key", key),
        ];
        seen(&router, check(Dialect::HaProxy, "127.0.0.1", &more)).await.0
    };
    assert_eq!(ask("POST", "/posts?x=1", "api.example.com:8080", "a").await, 200);
    assert_eq!(ask("POST", "/posts", "API.example.com", "a").await, 429);
    assert_eq!(ask("POST", "/%70osts/", "api.example.com", "a").await, 429);
    assert_eq!(ask("POST", "/posts", "api.example.com", "b").await, 200);
    for (method, uri, host) in [
        ("GET", "/posts", "api.example.com"),
        ("POST", "/", "api.example.com"),
        ("POST", "/posts", "example.com"),
    ] {
        assert_eq!(ask(method, uri, host, "a").await, 200, "{method} {uri} {host}");
    }
}

#[tokio::test]
async fn peers_outside_of_the_networks_get_403_and_charge_nobody() {
    let (limiter, _) = limiter(TWO);
    let endpoint = CheckEndpoint::new(&limiter).unwrap();
    let loopback = endpoint.clone().router();
    let named = endpoint.trust(["10.0.0.0/8".parse().unwrap()]).router();
    for (router, peer) in
        [(&loopback, "10.0.0.1"), (&named, "127.0.0.1"), (&named, "11.0.0.1"), (&named, "::1")]
    {
        for dialect in Dialect::ALL {
            assert_eq!(seen(router, check(dialect, peer, &[])).await, (403, None, None), "{peer}");
        }
    }
    for (router, peer, remaining) in [(&loopback, "::ffff:127.0.0.1", "1"), (&named, "10.0.0.1", "0")] {
        assert_eq!(
            seen(router, check(Dialect::Nginx, peer, &[])).await,
            (200, None, Some(remaining.to_owned()))
        );
    }
}

#[tokio::test]
async fn malformed_heads_are_400_and_charge_nobody() {
    let router = router(TWO);
    for (dialect, name, value, expected) in [
        (Dialect::Nginx, "x-original-address", "unknown", (400, None)),
        // What a client can cause gets another status than what a wrong configuration causes.
        (Dialect::Nginx, "x-original-uri", "/#", (403, Some("400".to_owned()))),
        (Dialect::HaProxy, "x-original-uri", "/#", (400, None)),
        (Dialect::Caddy, "x-forwarded-for", "192.0.2.1, x", (400, None)),
        (Dialect::Traefik, "x-forwarded-method", "(", (400, None)),
    ] {
        let (status, check_status, remaining) =
            seen(&router, check(dialect, "127.0.0.1", &[(name, value)])).await;
        assert_eq!(((status, check_status), remaining), (expected, None), "{name}");
    }
    let mut repeated = check(Dialect::Caddy, "127.0.0.1", &[]);
    repeated.headers_mut().append("x-forwarded-for", "192.0.2.1".parse().unwrap());
    let response = send(&router, repeated).await;
    let body = "the forwarded request is malformed: X-Forwarded-For: more than one line\n";
    assert_eq!((response.status().as_u16(), response.body()), (400, &Bytes::from_static(body.as_bytes())));
    assert_eq!(seen(&router, check(Dialect::Nginx, "127.0.0.1", &[])).await.2, Some("1".to_owned()));
}

#[tokio::test]
async fn headers_of_another_dialect_change_nothing() {
    let router = router(TWO);
    let forged = [("x-forwarded-for", "6.6.6.6"), ("x-real-ip", "6.6.6.6"), ("x-forwarded-method", "HEAD")];
    for status in [200, 200, 403] {
        assert_eq!(seen(&router, check(Dialect::Nginx, "127.0.0.1", &forged)).await.0, status);
    }
}

#[tokio::test]
async fn proxies_in_front_of_the_asking_one_are_named_in_the_rules() {
    let text = "[client_ip]\nheader = \"x-forwarded-for\"\ntrusted_proxies = [\"203.0.113.0/24\"]\n"
        .to_owned()
        + TWO;
    let router = router(&text);
    let ask = async |list: &str| {
        seen(&router, check(Dialect::Caddy, "127.0.0.1", &[("x-forwarded-for", list)])).await.0
    };
    // 203.0.113.9 is a content delivery network; another peer is the client, whatever it sends.
    assert_eq!(ask("6.6.6.6, 192.0.2.1, 203.0.113.9").await, 200);
    assert_eq!(ask("7.7.7.7, 192.0.2.1, 203.0.113.9").await, 200);
    assert_eq!(ask("192.0.2.1").await, 429);
    assert_eq!(ask("192.0.2.1, 192.0.2.2").await, 200);
}

#[tokio::test]
async fn no_rejection_passes_as_an_admission() {
    let deny = "[layer]\ndeny = { path = \"/denied\" }\n".to_owned() + TWO;
    let key = TWO.replace("\"client_ip\"", "{ header = \"x-key\", challenge = \"ApiKey\" }")
        + "[policy.all]\nstrategy = \"gcra\"\nquota = \"50/s\"\nkey = \"client_ip\"\n";
    let custom = TWO.replace("2/min burst 2", "1/d") + "reject_with = { function = \"welcome\" }\n";
    let grpc = [("x-original-method", "POST"), ("content-type", "application/grpc")];
    for (text, more, statuses) in [
        (&deny, &[("x-original-uri", "/denied")][..], &[403][..]),
        (&key, &[], &[401]),
        (&custom, &[], &[200, 429]),
        (&TWO.to_owned(), &grpc, &[200, 200, 429]),
    ] {
        let (direct, few) = (router(text), router(text));
        for status in statuses {
            let answer = seen(&direct, check(Dialect::HaProxy, "127.0.0.1", more)).await;
            assert_eq!((answer.0, answer.1), (*status, None), "{text}");
            let answer = seen(&few, check(Dialect::Nginx, "127.0.0.1", more)).await;
            let expected = match status {
                200 => (200, None),
                401 => (401, Some(401.to_string())),
                _ => (403, Some(status.to_string())),
            };
            assert_eq!((answer.0, answer.1), expected, "{text}");
        }
    }
    let response = send(&router(&key), check(Dialect::Nginx, "127.0.0.1", &[])).await;
    assert_eq!(response.headers()["www-authenticate"], "ApiKey");
}

#[tokio::test]
async fn rules_that_need_more_than_a_head_are_refused() {
    let without = testing::limiter(&ManualClock::default());
    assert_eq!(CheckEndpoint::new(&without).unwrap_err(), CheckEndpointError::NoRules(NoRules));
    for (more, field, needs) in [
        ("in_flight = { limit = 2 }", "in_flight", "the end of each request"),
        ("charge_when = { status = 401 }", "charge_when", "the response to each request"),
        ("reserve = \"used\"", "reserve", "a handler that counts what its response uses"),
        ("refund_unanswered = true", "refund_unanswered", "the response to each request"),
        ("tiers = { pro = \"9/min burst 9\" }", "tiers", "the tier that a program adds to the request"),
    ] {
        let (limiter, _) = limiter(&(TWO.to_owned() + more));
        let error = CheckEndpoint::new(&limiter).unwrap_err().to_string();
        let expected = format!(
            "error: policy.two.{field}: `{field}` needs {needs}, and a proxy that asks for a check shows only the head of the request"
        );
        assert!(error.starts_with("the rules cannot be used here: ") && error.contains(&expected), "{error}");
    }
    for text in [
        TWO.replace("\"client_ip\"", "\"route\""),
        TWO.replace("\"client_ip\"", "{ extension = \"account\" }"),
        "[policy.two]\nstrategy = \"in_flight\"\nlimit = 2\nkey = \"client_ip\"\n".to_owned(),
    ] {
        let error = CheckEndpoint::new(&limiter(&text).0).unwrap_err();
        let CheckEndpointError::Rules(LayerError::Unusable { reason }) = error else { panic!("{error}") };
        assert!(reason.contains("error: policy.two."), "{reason}");
    }
}

#[tokio::test]
async fn reload_keeps_the_rules_if_a_check_cannot_apply_others() {
    let (limiter, _) = limiter(TWO);
    let router = CheckEndpoint::new(&limiter).unwrap().router();
    let live = limiter.rules().unwrap();
    let more = rules(&(TWO.to_owned() + "refund_unanswered = true\n"));
    assert!(matches!(live.swap(more.clone()), Err(LayerError::Unusable { .. })));
    assert_eq!(seen(&router, check(Dialect::Caddy, "::1", &[])).await.2, Some("1".to_owned()));
    // A rate keeps its level, here one half.
    live.swap(rules(&TWO.replace("quota = \"2/min burst 2\"", "quota = \"9/min burst 9\""))).unwrap();
    assert_eq!(seen(&router, check(Dialect::Caddy, "::1", &[])).await.2, Some("3".to_owned()));
    drop(router);
    assert!(live.swap(more).is_ok());
}

#[tokio::test]
async fn a_server_without_addresses_of_peers_is_misconfigured() {
    let mut request = check(Dialect::Nginx, "127.0.0.1", &[]);
    request.extensions_mut().clear();
    assert_eq!(seen(&router(TWO), request).await, (500, None, None));
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_waits_lets_the_proxy_wait() {
    let router = router(&(TWO.to_owned() + "wait = \"1m\"\n"));
    for remaining in ["1", "0", "0"] {
        assert_eq!(
            seen(&router, check(Dialect::Caddy, "::1", &[])).await,
            (200, None, Some(remaining.to_owned()))
        );
    }
}
