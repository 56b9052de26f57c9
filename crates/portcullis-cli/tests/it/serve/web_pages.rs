//! What pages of web sites can send to a service on the machine of a browser.

use std::io::Write as _;

use super::process::{Service, rest};
use super::{ADA, SHOP, post};

/// A call for the same limit as [`ADA`], in the frame of gRPC.
const CALL: &str = "\0\0\0\0\x15\x0a\x04shop\x12\x0d\x0a\x0b\x0a\x04user\x12\x03ada";

fn ask(service: &Service, place: &str, text: &str) -> String {
    let mut stream = service.connect(place);
    // The server may refuse what it has not read.
    let _ = stream.write_all(text.as_bytes());
    rest(&mut stream)
}

#[test]
fn page_spends_no_budget_over_grpc() {
    let service = Service::start("shop.yaml", SHOP, &[]);
    for content_type in ["text/plain", "application/grpc"] {
        let page = format!(
            "POST /envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit HTTP/1.1\r\nhost: localhost\r\n\
             origin: https://evil.example\r\nsec-fetch-site: cross-site\r\nconnection: close\r\n\
             content-type: {content_type}\r\ncontent-length: {}\r\n\r\n{CALL}",
            CALL.len()
        );
        let answer = ask(&service, "grpc", &page);
        assert!(answer.starts_with("HTTP/1.1 505"), "{answer}");
    }
    assert!(service.ask(&format!("{}{ADA}", post(ADA.len()))).starts_with("HTTP/1.1 200"), "it is not spent");
}

#[test]
fn rebound_name_reads_no_page() {
    let arguments = ["--status", "127.0.0.1:0", "--http-host", "limits.internal"];
    let service = Service::start("shop.yaml", SHOP, &arguments);
    let get = |place: &str, path: &str, host: &str| {
        ask(&service, place, &format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"))
    };
    for place in ["http", "status"] {
        for path in ["/metrics", "/healthz", "/healthcheck", "/readyz"] {
            for host in [service.addr(place), "localhost", "limits.internal:8080"] {
                let answer = get(place, path, host);
                assert!(answer.starts_with("HTTP/1.1 200"), "{host}{path}: {answer}");
            }
            let answer = get(place, path, "evil.example:8080");
            assert!(answer.starts_with("HTTP/1.1 421") && answer.contains("--http-host"), "{path}: {answer}");
        }
        assert!(ask(&service, place, "GET /healthz HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 200"));
    }
    let rebound = post(ADA.len()).replace("host: localhost", "host: evil.example");
    assert!(service.ask(&format!("{rebound}{ADA}")).starts_with("HTTP/1.1 421"));
}
