//! Log lines for the operator: throttled, and without values from requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, Request};
use portcullis_core::{FailureMode, Policy, Quota};
use portcullis_tower::{
    Bearer, ClientIp, Global, Header, KeyExtractor, OnMissing, PolicyExt as _, RateLimitLayer, Trust,
};
use tower::{Layer as _, ServiceExt as _};

use crate::log::log;
use crate::probe::{Probe, probed, request, send};
use crate::support::{Mode, TestStore, registry, registry_of};

fn limit(key: impl KeyExtractor) -> RateLimitLayer {
    RateLimitLayer::new(registry(), policy("all").by(key))
}

fn policy(name: &'static str) -> Policy {
    Policy::gcra(name, Quota::per_second(100).burst(1_000))
}

fn from(peer: &str, headers: &[(&str, &str)]) -> Request<String> {
    let mut request = request(headers);
    request.extensions_mut().insert(peer.parse::<SocketAddr>().unwrap());
    request
}

/// The log lines of three equal requests.
async fn lines(key: impl KeyExtractor, peer: &str, headers: &[(&str, &str)]) -> Vec<String> {
    let (log, _guard) = log();
    let (service, _) = probed(&limit(key));
    for _ in 0..3 {
        send(&service, from(peer, headers)).await;
    }
    log.lines()
}

const PROXY: &str = "10.0.0.1:80";
const UNTRUSTED: &str = "198.51.100.1:80";

#[tokio::test]
async fn an_ignored_forwarding_header_is_logged() {
    for header in ["x-forwarded-for", "forwarded", "x-real-ip"] {
        let lines = lines(ClientIp::peer(), PROXY, &[(header, "192.0.2.77")]).await;
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].starts_with("WARN a forwarding header is present, and ClientIp::peer()"),
            "{lines:?}"
        );
        assert!(lines[0].contains(header) && !lines[0].contains("192.0.2.77"), "{lines:?}");
    }
    assert!(lines(ClientIp::peer(), PROXY, &[]).await.is_empty());
}

#[tokio::test]
async fn a_forwarding_header_from_an_untrusted_peer_is_logged() {
    let behind = || ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
    let logged = lines(behind(), UNTRUSTED, &[("x-forwarded-for", "192.0.2.77")]).await;
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(
        logged[0].starts_with("WARN a forwarding header came from a peer that is not trusted"),
        "{logged:?}"
    );
    assert!(!logged[0].contains("192.0.2.77") && !logged[0].contains("198.51.100.1"), "{logged:?}");
    assert!(lines(behind(), UNTRUSTED, &[]).await.is_empty());
    assert!(lines(behind(), PROXY, &[("x-forwarded-for", "192.0.2.77")]).await.is_empty());
}

#[tokio::test]
async fn trust_of_every_address_is_logged() {
    let everything = || Trust::networks(["0.0.0.0/1", "128.0.0.0/1"]);
    let lines =
        lines(ClientIp::behind(everything()).forwarded(), UNTRUSTED, &[("forwarded", "for=192.0.2.77")])
            .await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("WARN ClientIp trusts every address"), "{lines:?}");
}

#[tokio::test]
async fn a_proxy_that_does_not_overwrite_is_logged() {
    let real_ip = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).header("x-real-ip");
    let lines = lines(real_ip, PROXY, &[("x-real-ip", "192.0.2.77"), ("x-real-ip", "192.0.2.78")]).await;
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("WARN a trusted proxy passed on more than one line"), "{lines:?}");
    assert!(lines[1].starts_with("WARN requests have a malformed identity"), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("192.0.2.7")), "{lines:?}");
}

/// A client that causes a line early cannot suppress it for more than an hour.
#[tokio::test(start_paused = true)]
async fn misconfiguration_is_logged_hourly_with_a_count() {
    let behind = |network: &str| ClientIp::behind(Trust::networks([network]));
    let forged = ("x-forwarded-for", "192.0.2.77");
    let twice = [("x-real-ip", "192.0.2.77"), ("x-real-ip", "192.0.2.78")];
    for (key, peer, headers, line) in [
        (ClientIp::peer(), Some(UNTRUSTED), &[forged][..], "WARN a forwarding header is present"),
        (behind("10.0.0.0/8").x_forwarded_for(), Some(UNTRUSTED), &[forged], "WARN a forwarding header came"),
        (behind("0.0.0.0/0").forwarded(), Some(UNTRUSTED), &[], "WARN ClientIp trusts every address"),
        (behind("10.0.0.0/8").header("x-real-ip"), Some(PROXY), &twice, "WARN a trusted proxy passed on"),
        (ClientIp::peer(), None, &[], "ERROR the rate limiter cannot decide requests, and rejects them"),
    ] {
        let (log, _guard) = log();
        let (service, _) = probed(&limit(key));
        let lines = || log.lines().into_iter().filter(|logged| logged.starts_with(line)).collect::<Vec<_>>();
        for (minutes, logged) in [(0, 1), (0, 1), (59, 1), (1, 2), (59, 2), (1, 3)] {
            tokio::time::advance(Duration::from_mins(minutes)).await;
            let mut request = request(headers);
            request.extensions_mut().extend(peer.map(connected_from).unwrap_or_default());
            send(&service, request).await;
            assert_eq!(lines().len(), logged, "{line}: {:?}", lines());
        }
        let count = |line: &String| line.rsplit_once('=').unwrap().1.parse::<u32>().unwrap();
        // The last line is written when its hour is over, by a timer, so that the counts are those of all events. A request in which a
        // header is repeated is seen twice.
        advance(60).await;
        assert_eq!(lines().len(), 4, "{:?}", lines());
        let each = if headers.len() == 2 { 2 } else { 1 };
        assert_eq!(lines().iter().map(count).sum::<u32>(), 6 * each, "{:?}", lines());
    }
}

async fn advance(minutes: u64) {
    for _ in 0..minutes {
        tokio::time::advance(Duration::from_secs(60)).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_charged_twice_is_logged_hourly() {
    let (log, _guard) = log();
    let registry = registry();
    let layer = || RateLimitLayer::new(registry.clone(), policy("all").by(Global)).with_charge();
    let twice = layer().layer(layer().layer(Probe::default()));
    for (minutes, logged) in [(0, 1), (59, 1), (1, 2), (59, 2), (1, 3)] {
        tokio::time::advance(Duration::from_mins(minutes)).await;
        for _ in 0..100 {
            boxed(twice.clone()).oneshot(request(&[])).await.unwrap();
        }
        assert_eq!(log.lines().len(), logged, "{:?}", log.lines());
    }
}

fn connected_from(peer: &str) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(peer.parse::<SocketAddr>().unwrap());
    extensions
}

#[tokio::test]
async fn missing_and_malformed_identities_are_throttled_in_the_log() {
    let (log, _guard) = log();
    let (service, _) = probed(&limit(Header::named("x-api-key")));
    for _ in 0..50 {
        send(&service, request(&[])).await;
        send(&service, request(&[("x-api-key", "s3cret"), ("x-api-key", "s3cret")])).await;
    }
    let expected = [
        "WARN requests have no identity; counted since the last such line code=PC201 policy=all on_missing=Reject requests=1",
        "WARN requests have a malformed identity, one of them with this error; counted since the last such line code=PC202 policy=all \
         error=header x-api-key was sent more than once requests=1",
    ];
    assert_eq!(log.lines(), expected);

    for on_missing in [OnMissing::Shared, OnMissing::Exempt] {
        let (log, _guard) = self::log();
        let limit = policy("all").by(Bearer).on_missing(on_missing);
        let (service, _) = probed(&RateLimitLayer::new(registry(), limit));
        assert_eq!(send(&service, request(&[])).await.status, 200);
        let lines = log.lines();
        assert!(lines.len() == 1 && lines[0].contains(&format!("on_missing={on_missing:?}")), "{lines:?}");
    }
}

#[tokio::test]
async fn nested_layers_with_one_policy_are_logged() {
    let (log, _guard) = log();
    let registry = registry();
    let layer = |name| RateLimitLayer::new(registry.clone(), policy(name).by(Global));
    let send =
        async |service: tower::util::BoxCloneService<Request<String>, (), std::convert::Infallible>| {
            let () = service.oneshot(request(&[])).await.unwrap();
        };

    // Nested in a layer with another policy, or with the same name in another limiter: not logged.
    let elsewhere = limit(Global).layer(layer("all").layer(layer("other").layer(Probe::default())));
    for _ in 0..100 {
        let inner = elsewhere.clone();
        send(boxed(inner)).await;
    }
    assert!(log.lines().is_empty(), "{:?}", log.lines());

    // With another layer in between, and after other requests.
    let twice = layer("all").layer(layer("third").layer(layer("all").layer(Probe::default())));
    for _ in 0..5 {
        send(boxed(twice.clone())).await;
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].starts_with("WARN one request is charged twice") && lines[0].ends_with(" policy=all seen=1"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn nesting_is_logged_without_a_charge() {
    let identity = |_: &http::request::Parts, _: &mut portcullis_tower::KeyWriter<'_>| {
        Ok(portcullis_tower::Identity::Exempt)
    };
    let store = Arc::<TestStore>::default();
    let registry = registry_of(Arc::clone(&store));
    let open = || policy("all").on_store_failure(FailureMode::Open);
    let layer = || RateLimitLayer::new(registry.clone(), open().by(Global));
    let shadow = || RateLimitLayer::new(registry.clone(), open().by(Global).shadow());
    let exempt = || RateLimitLayer::new(registry.clone(), open().by(identity));
    let between = || RateLimitLayer::new(registry.clone(), policy("other").by(Global).shadow());
    for (outer, inner, mode, logged) in [
        (shadow(), shadow(), Mode::Ready, 1),
        (shadow(), shadow(), Mode::Later, 1),
        (shadow(), layer(), Mode::Ready, 1),
        (layer(), shadow(), Mode::Ready, 1),
        // Requests are admitted uncounted.
        (layer(), layer(), Mode::Down, 1),
        (shadow(), layer(), Mode::Down, 1),
        // A request that one of them exempts is charged once.
        (exempt(), layer(), Mode::Ready, 0),
        (layer(), exempt(), Mode::Ready, 0),
        (exempt(), exempt(), Mode::Ready, 0),
    ] {
        let (log, _guard) = log();
        store.set(mode);
        let service = boxed(outer.layer(between().layer(inner.layer(Probe::default()))));
        for _ in 0..3 {
            service.clone().oneshot(request(&[])).await.unwrap();
        }
        let lines: Vec<_> = log.lines().into_iter().filter(|line| line.contains("charged twice")).collect();
        assert_eq!(lines.len(), logged, "{outer:?} {inner:?} {mode:?}: {lines:?}");
    }
}

fn boxed<S, B>(service: S) -> tower::util::BoxCloneService<Request<String>, (), std::convert::Infallible>
where
    S: tower::Service<Request<String>, Response = http::Response<B>, Error = std::convert::Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
    B: 'static,
{
    tower::util::BoxCloneService::new(service.map_response(drop))
}
