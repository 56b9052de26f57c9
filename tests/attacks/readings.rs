//! One path in many spellings, behind a reverse proxy whose upstream reads paths leniently.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::Router;
use axum::http::Request;

use crate::raw::{self, exchange, status};

const RULES: &str = r#"
    [policy.search]
    strategy = "fixed_window"
    quota = "2/18250d"
    key = "global"
    match = { path = "/search", methods = ["GET"] }

    [policy.all]
    strategy = "fixed_window"
    quota = "500/18250d"
    key = "global"
    cost = { path = { "/export" = 100 } }
    match = [{ path = "/export" }, { path = "/items" }]
"#;

/// Reads a path as a server that has no regard to case.
fn route(path: &str) -> String {
    let mut text = path.as_bytes().to_vec();
    for _ in 0..2 {
        text = decoded(&text);
    }
    let text = String::from_utf8_lossy(&text).to_lowercase().replace('\\', "/");
    let mut segments = Vec::new();
    for segment in text.split(['?', '#', '\0']).next().unwrap_or_default().split('/') {
        match segment.split(';').next().unwrap_or_default().trim_end_matches(' ') {
            "" | "." => {}
            ".." => drop(segments.pop()),
            name => segments.push(name.trim_end_matches(['.', ' ']).to_owned()),
        }
    }
    format!("/{}", segments.join("/"))
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let (mut decoded, mut at) = (Vec::new(), 0);
    while let Some(byte) = text.get(at) {
        let digits = text.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.filter(|_| *byte == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(escaped.unwrap_or(*byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    decoded
}

/// The proxy in front of the lenient server, and the numbers of searches and exports that were run.
async fn serve() -> (SocketAddr, [Arc<AtomicUsize>; 2]) {
    let runs = [Arc::default(), Arc::default()];
    let [searches, exports]: [Arc<AtomicUsize>; 2] = runs.clone();
    let app = Router::new().fallback(move |request: Request<axum::body::Body>| async move {
        match route(request.uri().path()).as_str() {
            "/search" if request.method().as_str().eq_ignore_ascii_case("GET") => {
                searches.fetch_add(1, Relaxed)
            }
            "/export" => exports.fetch_add(1, Relaxed),
            _ => 0,
        };
    });
    (raw::proxy(RULES, raw::serve(app).await).await, runs)
}

/// Forms that the server takes for a path of one segment.
fn spellings(name: &str) -> Vec<String> {
    let cases = (0..1_u32 << name.len()).map(|upper| {
        let byte =
            |(at, byte): (usize, u8)| if upper >> at & 1 == 1 { byte.to_ascii_uppercase() } else { byte };
        format!("/{}", name.bytes().enumerate().map(byte).map(char::from).collect::<String>())
    });
    let first = name.as_bytes()[0];
    let rest = &name[1..];
    let others = [
        format!("/{name}/"),
        format!("//{name}"),
        format!("/./{name}"),
        format!("/x/../{name}"),
        format!("/x/%2e%2e/{name}"),
        format!("/x/%252e%252e/{name}"),
        format!("/x%2f..%2f{name}"),
        format!("/%{first:02x}{rest}"),
        format!("/%25{first:02x}{rest}"),
        format!("/%25{:02X}{rest}", first.to_ascii_uppercase()),
        format!("/%2f{name}"),
        format!("/%252f{name}"),
        format!("/%5c{name}"),
        format!("/{name}."),
        format!("/{name}..."),
        format!("/{name}%20"),
        format!("/{name}%2520"),
        format!("/{name}%2e%20."),
        format!("/{name};v=1"),
        format!("/{name}%3bv=1"),
        format!("/;/{name}"),
        format!("/x/..;/{name}"),
        format!("/{name}%3fx"),
        format!("/{name}%23x"),
        format!("/{name}%00"),
        format!("/{name}/%20"),
        format!("/{}%20./", name.to_uppercase()),
    ];
    cases.chain(others).collect()
}

#[tokio::test]
async fn no_spelling_of_a_path_avoids_a_limit_or_a_cost() {
    let (proxy, [searches, exports]) = serve().await;
    for spelling in spellings("search") {
        assert_eq!(route(&spelling), "/search");
        for method in ["GET", "get", "Get"] {
            let request = format!("{method} {spelling} HTTP/1.1\r\nhost: a\r\n\r\n");
            let status = status(&exchange(1, proxy, &request).await);
            assert!(matches!(status, 200 | 429), "{status} {method} {spelling}");
        }
    }
    assert_eq!(searches.load(Relaxed), 2);
    for spelling in spellings("export") {
        assert_eq!(route(&spelling), "/export");
        exchange(1, proxy, &format!("POST {spelling} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
    }
    assert_eq!(exports.load(Relaxed), 5);
}
