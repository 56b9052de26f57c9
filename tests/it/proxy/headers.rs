//! What the upstream sees of the client.

use axum::http::{Request, header};
use portcullis::key::Trust;
use portcullis::{ClientIp, Limiter};
use portcullis_proxy::{ReverseProxy, Upstream};
use portcullis_tests::HttpClient;

use super::TWO;
use super::start::{echo, exchange, limits, start, start_to, text, unlimited};

fn lines<'t>(response: &'t str, name: &str) -> Vec<&'t str> {
    response.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": ")).collect()
}

#[tokio::test]
async fn forged_fields_do_not_reach_the_upstream() {
    let proxy = start(unlimited(), &echo().await, |proxy| proxy).await;
    let request = "GET /x HTTP/1.1\r\nHost: shop.example\r\nConnection: close, x-secret\r\nX-Secret: 1\r\n\
        X-Forwarded-For: 6.6.6.6\r\nX_Forwarded_For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\n\
        X-Forwarded-Proto: https\r\nKeep-Alive: 1\r\nProxy-Authorization: x\r\nTE: trailers\r\n\r\n";
    let response = exchange(proxy.addr, request).await;
    let (head, seen) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\nvia: 1.1 portcullis-"), "{head}");
    assert!(!seen.contains("6.6.6.6") && !seen.contains("secret"), "{seen}");
    assert_eq!(lines(seen, "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(lines(seen, "x-forwarded-proto"), ["http"]);
    assert_eq!(lines(seen, "forwarded"), ["for=127.0.0.1;host=\"shop.example\";proto=http"]);
    assert_eq!(lines(seen, "host"), ["shop.example"]);
    assert_eq!((lines(seen, "te"), lines(seen, "connection")), (vec!["trailers"], vec!["te"]));
    assert_eq!((lines(seen, "keep-alive").len(), lines(seen, "proxy-authorization").len()), (0, 0));
    assert!(lines(seen, "via")[0].starts_with("1.1 portcullis-"), "{seen}");
}

/// `Connection` cannot remove what tells the upstream who the client is.
#[tokio::test]
async fn connection_does_not_hide_the_client() {
    let proxy = start(unlimited(), &echo().await, |proxy| proxy).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: me\r\n\
        Connection: close, X-Forwarded-For, Forwarded, Host, Authorization, Via\r\n\r\n";
    let seen = exchange(proxy.addr, request).await;
    assert_eq!(lines(&seen, "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!((lines(&seen, "authorization"), lines(&seen, "host")), (vec!["me"], vec!["a"]));
}

/// One setting: the client that is charged is the client that the headers name to the upstream.
#[tokio::test]
async fn charged_client_is_the_forwarded_one() {
    let upstream = echo().await;
    let table = "[client_ip]\nheader = 'x-forwarded-for'\ntrusted_proxies = ['127.0.0.0/8']\n";
    let from_program = ClientIp::behind(Trust::networks(["127.0.0.0/8"])).x_forwarded_for();
    for rules in [limits(&format!("{TWO}{table}"), None), limits(TWO, Some(from_program))] {
        let proxy = start(Limiter::memory().with_rules(rules).unwrap(), &upstream, |proxy| proxy).await;
        let send = async |chain: &str| {
            let request = Request::get(format!("{proxy}/")).header("x-forwarded-for", chain);
            let request = request.header("forwarded", "for=6.6.6.6").header("x-forwarded-proto", "https");
            HttpClient::http_1().send(request, ()).await
        };
        for remaining in ["1", "0"] {
            let response = send("6.6.6.6, 192.0.2.1").await;
            assert_eq!(response.headers()["x-ratelimit-remaining"], remaining);
            let seen = text(response.body());
            assert_eq!(lines(seen, "x-forwarded-for"), ["6.6.6.6, 192.0.2.1, 127.0.0.1"]);
            assert_eq!(lines(seen, "forwarded")[0].split(';').next(), Some("for=192.0.2.1"));
            assert_eq!(lines(seen, "x-forwarded-proto"), ["https"]);
        }
        assert_eq!(send("7.7.7.7, 192.0.2.1").await.status(), 429);
        assert_eq!(send("192.0.2.1, 192.0.2.2").await.status(), 200);
        assert_eq!(send("192.0.2.1, nobody").await.status(), 400);
    }
}

#[tokio::test]
async fn host_is_kept_or_set_for_both_protocols() {
    let upstream = echo().await;
    let authority = upstream.strip_prefix("http://").unwrap();
    for is_http2 in [false, true] {
        let to = || {
            let upstream = Upstream::new(&upstream).unwrap();
            if is_http2 { upstream.http2() } else { upstream }
        };
        let kept = start_to(unlimited(), to(), |proxy| proxy).await;
        let replaced = start_to(unlimited(), to(), ReverseProxy::upstream_host).await;
        let fixed = start_to(unlimited(), to(), |proxy| proxy.host("app.internal:81").unwrap()).await;
        for (proxy, expected) in
            [(&kept, "shop.example"), (&replaced, authority), (&fixed, "app.internal:81")]
        {
            let request = Request::get(format!("{proxy}/")).header(header::HOST, "shop.example");
            let response = HttpClient::http_1().send(request, ()).await;
            let seen = text(response.body());
            if is_http2 {
                assert!(seen.starts_with(&format!("GET http://{expected}/ HTTP/2.0\n")), "{seen}");
            } else {
                assert_eq!(lines(seen, "host"), [expected], "{seen}");
            }
            assert_eq!(lines(seen, "x-forwarded-host"), ["shop.example"]);
        }
    }
}

#[tokio::test]
async fn cookies_of_http_2_are_one_line() {
    let proxy = start(unlimited(), &echo().await, |proxy| proxy).await;
    let request = Request::get(format!("{proxy}/")).header("cookie", "a=1").header("cookie", "b=2");
    let response = HttpClient::http_2().send(request, ()).await;
    assert_eq!(lines(text(response.body()), "cookie"), ["a=1; b=2"]);
}

/// The proxy sends 100 for any line that asks for it, so the upstream is asked by none.
#[tokio::test]
async fn expectations_of_100_are_not_sent_on() {
    let proxy = start(unlimited(), &echo().await, |proxy| proxy).await;
    for expectations in ["Expect: 100-continue\r\n", "Expect: more\r\nExpect: 100-Continue\r\n"] {
        let request = format!(
            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n{expectations}\r\nx"
        );
        let seen = exchange(proxy.addr, &request).await;
        assert!(seen.starts_with("HTTP/1.1 100 "), "{seen}");
        let seen = lines(&seen, "expect").join(", ");
        assert_eq!(seen, if expectations.contains("more") { "more" } else { "" });
    }
}
