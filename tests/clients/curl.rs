//! Tests with curl.

use axum::{Router, routing::get};
use portcullis::headers::RateLimitHeaders;
use portcullis::testing::{self, ManualClock};
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _};
use tokio::process::Command;

use crate::server::{Server, output_of};

/// Starts a server that allows one request per three seconds and sends all kinds of rate limit headers.
async fn server(limiter: &Limiter) -> Server {
    let policy = Policy::gcra("all", "1/3s".parse().unwrap());
    let all = RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF | RateLimitHeaders::IETF_DRAFT_6;
    let limit = limiter.layer(policy.by(ClientIp::peer())).headers(all);
    Server::start(Router::new().route("/", get(async || "found\n")).layer(limit)).await
}

pub(crate) fn curl(arguments: &[&str]) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "60"]).args(arguments);
    curl
}

/// Without `Retry-After` curl waits one second, then two: it would be rejected twice.
#[tokio::test]
async fn curl_waits_for_retry_after() {
    let server = server(&Limiter::memory()).await;
    let url = format!("http://{}/", server.address);
    let both = output_of(&mut curl(&["--retry", "3", &url, &url])).await;
    assert!(both.ends_with("found\n"), "{both}");
    assert_eq!(server.answers.all(), ["200", "429", "200"]);
}

#[tokio::test]
async fn curl_shows_the_headers_and_the_body() {
    for (version, status) in
        [("--http1.1", "HTTP/1.1 429 Too Many Requests"), ("--http2-prior-knowledge", "HTTP/2 429 ")]
    {
        // The clock stands still, so that every wait is the whole three seconds.
        let server = server(&testing::limiter(&ManualClock::default())).await;
        let url = format!("http://{}/", server.address);
        output_of(&mut curl(&[version, &url])).await;
        let head = output_of(&mut curl(&[version, "--head", &url])).await;
        let refused =
            output_of(&mut curl(&[version, "--include", "--header", "accept: application/json", &url])).await;
        let (headers, body) = refused.split_once("\r\n\r\n").unwrap();
        assert_eq!(headers.lines().next(), Some(status));
        assert!(head.starts_with(status) && head.ends_with("\r\n\r\n"), "{head}");
        for line in [
            "cache-control: no-store",
            "content-type: application/json",
            "retry-after: 3",
            "x-ratelimit-remaining: 0",
            "ratelimit-remaining: 0",
            "ratelimit-policy: \"all\";q=1;w=3",
            "ratelimit: \"all\";r=0;t=3",
        ] {
            assert!(headers.lines().any(|header| header == line), "{line} is not in {headers}");
        }
        assert!(body.contains(r#""violated-policies":["all"],"retry-after":3}"#), "{body}");
    }
}
