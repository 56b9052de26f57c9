//! curl.

use axum::{Router, routing::get};
use portcullis::{ClientIp, Limiter, Policy, RateLimitHeaders};
use tokio::process::Command;

use crate::server::{Server, printed};

/// One request per three seconds, and each of them is told so in every dialect.
async fn server() -> Server {
    let policy = Policy::gcra("all", "1/3s".parse().unwrap());
    let all = RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF | RateLimitHeaders::IETF_DRAFT_6;
    let limit = Limiter::memory().layer(policy).by(ClientIp::peer()).headers(all);
    Server::start(Router::new().route("/", get(async || "found\n")).layer(limit)).await
}

fn curl(arguments: &[&str]) -> Command {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "60"]).args(arguments);
    curl
}

/// By itself curl waits one second, then two: it would be refused twice.
#[tokio::test]
async fn curl_waits_as_told() {
    let server = server().await;
    let url = format!("http://{}/", server.address);
    let both = printed(&mut curl(&["--retry", "3", &url, &url])).await;
    assert!(both.ends_with("found\n"), "{both}");
    assert_eq!(server.answers.all(), ["200", "429", "200"]);
}

#[tokio::test]
async fn curl_shows_what_was_answered() {
    for (version, status) in
        [("--http1.1", "HTTP/1.1 429 Too Many Requests"), ("--http2-prior-knowledge", "HTTP/2 429 ")]
    {
        let server = server().await;
        let url = format!("http://{}/", server.address);
        printed(&mut curl(&[version, &url])).await;
        let head = printed(&mut curl(&[version, "--head", &url])).await;
        let refused =
            printed(&mut curl(&[version, "--include", "--header", "accept: application/json", &url])).await;
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
