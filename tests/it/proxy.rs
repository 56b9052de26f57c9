//! A reverse proxy with limits, between real clients and real upstreams.

mod attacks;
mod broken;
mod grpc;
mod headers;
mod http2_upstream;
mod start;
mod stray_bodies;
mod streams;
mod targets;
mod tls;
mod usage;
mod web_sockets;

use axum::http::Request;
use portcullis_tests::HttpClient;

use crate::handler_checks::limiters;
use start::{echo, limits, start};

/// Two requests for each client, wherever it is. The window ends in 2069, and so in no test.
const TWO: &str = "[policy.all]\nstrategy = 'fixed_window'\nquota = '2/18250d'\nkey = 'client_ip'\n";

#[tokio::test(flavor = "multi_thread")]
async fn the_proxy_limits_its_upstream() {
    let upstream = echo().await;
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let proxy = start(limiter.with_rules(limits(TWO, None)).unwrap(), &upstream, |proxy| proxy).await;
        for client in [HttpClient::http_1(), HttpClient::http_2()] {
            let response = client.send(Request::get(format!("{proxy}/a")), ()).await;
            assert_eq!(response.status(), 200);
            assert!(response.body().starts_with(b"GET /a HTTP/1.1\n"), "{response:?}");
            assert!(response.headers().contains_key("x-ratelimit-remaining"));
        }
        let response = HttpClient::http_1().send(Request::get(format!("{proxy}/a")), ()).await;
        assert_eq!(response.status(), 429);
        assert!(!response.headers().contains_key("via"), "the upstream was not asked");
        assert_eq!(proxy.stop().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_by_outcome_sees_the_response_of_the_upstream() {
    let upstream = start::raw(|mut stream| async move {
        start::read_head(&mut stream).await;
        start::write(
            &mut stream,
            "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        )
        .await;
    })
    .await;
    let text = format!("{TWO}charge_when = {{ status = [401, 502] }}\n");
    let limiter = portcullis::Limiter::memory().with_rules(limits(&text, None)).unwrap();
    let proxy = start(limiter, &upstream, |proxy| proxy).await;
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(portcullis_tests::get(&format!("{proxy}/")).await.status().as_u16());
    }
    assert_eq!(statuses, [401, 401, 429]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_keeps_rules_that_proxy_can_apply() {
    let limiter = portcullis::Limiter::memory().with_rules(limits(TWO, None)).unwrap();
    let live = limiter.rules().unwrap().clone();
    let proxy = start(limiter, &echo().await, |proxy| proxy).await;
    let by_route = limits(&TWO.replace("'client_ip'", "{ all = ['client_ip', 'route'] }"), None);
    let refused = live.swap(by_route.clone()).unwrap_err().to_string();
    assert!(refused.contains("policy.all.key: `key` needs the route"), "{refused}");
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(portcullis_tests::get(&format!("{proxy}/")).await.status().as_u16());
    }
    assert_eq!(statuses, [200, 200, 429]);
    assert_eq!(proxy.stop().await, 0);
    assert!(live.swap(by_route).is_ok(), "the proxy has ended");
}
