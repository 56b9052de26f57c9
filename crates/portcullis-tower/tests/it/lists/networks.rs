//! Lists by network: the address is the one that `ClientIp` determines.

use std::net::SocketAddr;

use http::Request;
use portcullis_tower::matching::{Network, RequestMatcher as _, RequestPath};
use portcullis_tower::{ClientIp, PolicyExt as _, RateLimitLayer, Trust};

use super::{is_untouched, limit, policy};
use crate::log::log;
use crate::probe::{probed, request, send};
use crate::support::registry;

fn from(peer: &str, headers: &[(&str, &str)]) -> Request<String> {
    let mut request = request(headers);
    request.extensions_mut().insert(SocketAddr::new(peer.parse().unwrap(), 1));
    request
}

#[tokio::test]
async fn forged_addresses_are_in_no_list() {
    let clients = ClientIp::behind(Trust::networks(["10.0.0.0/24"])).x_forwarded_for();
    let layer = RateLimitLayer::new(registry(), policy("address").by(clients.clone()))
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
    let peer = RateLimitLayer::new(registry(), policy("peer").by(ClientIp::peer()));
    let (service, probe) = probed(&peer.deny(Network::of(&clients, ["198.51.100.0/24"])));
    let request = || from("10.0.0.9", &[("x-forwarded-for", "unknown")]);
    assert_eq!(send(&service, request()).await.status, 400);
    assert_eq!(send(&service, request()).await.status, 429);
    assert_eq!(probe.calls(), 0);
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
