//! Conditions on what a client writes, and headers that only a gateway writes.

use std::net::SocketAddr;

use axum::Router;
use axum::http::HeaderMap;
use portcullis::Limiter;
use portcullis::rules::{Format, Loader, Rules};

use crate::raw::{exchange, proxy, serve};

/// An application with rules, which answers with the `x-consumer-id` that it sees, in any spelling.
async fn limited(rules: &str) -> SocketAddr {
    let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, rules)).unwrap();
    let limiter = Limiter::memory().with_rules(rules).unwrap();
    serve(application().layer(limiter.rules().unwrap().layer())).await
}

fn application() -> Router {
    Router::new().fallback(async |headers: HeaderMap| {
        let names = headers.iter().filter(|(name, _)| name.as_str().replace('_', "-") == "x-consumer-id");
        format!("{:?}", names.map(|(_, value)| value.clone()).collect::<Vec<_>>())
    })
}

/// Anonymous requests and those of free plans have small limits, by what the client writes, beside one by address.
fn rules(condition: &str) -> String {
    format!(
        "[policy.small]\nstrategy = \"fixed_window\"\nquota = \"1/2000w\"\nkey = \"client_ip\"\nmatch = {{ {condition} }}\n\
         [policy.address]\nstrategy = \"fixed_window\"\nquota = \"6/2000w\"\nkey = \"client_ip\"\n"
    )
}

fn request(target: &str, headers: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: a\r\n{headers}\r\n")
}

/// The statuses of one request after the other, from one address.
async fn statuses(to: SocketAddr, requests: &[(&str, &str)]) -> Vec<u16> {
    let mut statuses = Vec::new();
    for (target, headers) in requests {
        let response = exchange(2, to, &request(target, headers)).await;
        statuses.push(response.split(' ').nth(1).unwrap().parse().unwrap());
    }
    statuses
}

/// The first request uses the small limit up. No other form of it escapes, the last request is none of them, and no client gets beyond the
/// limit of its address.
async fn assert_no_escape(condition: &str, forms: &[(&str, &str)], other: (&str, &str)) {
    let to = limited(&rules(condition)).await;
    let mut expected = vec![429; forms.len()];
    expected[0] = 200;
    assert_eq!(statuses(to, forms).await, expected, "{condition}");
    assert_eq!(statuses(to, &[other; 6]).await, [200, 200, 200, 200, 200, 429], "{condition}");
}

#[tokio::test]
async fn odd_header_does_not_escape_presence() {
    let long = format!("x-debug: {}\r\n", "a".repeat(1_025));
    let forms = [
        ("/", "x-debug: 1\r\n"),
        ("/", "x-debug: 1\r\nx-debug: 1\r\n"),
        ("/", "x-debug:\r\n"),
        ("/", "X_Debug: 1\r\n"),
        ("/", "x-debug: \u{e9}\r\n"),
        ("/", &long),
    ];
    assert_no_escape("headers = { x-debug = \"present\" }", &forms, ("/", "")).await;
}

#[tokio::test]
async fn odd_header_does_not_escape_absence() {
    let forms = [("/", ""), ("/", "authorization:\r\n"), ("/", "authorization: a\r\nauthorization: b\r\n")];
    assert_no_escape(
        "headers = { authorization = \"absent\" }",
        &forms,
        ("/", "authorization: Bearer t\r\n"),
    )
    .await;
}

#[tokio::test]
async fn odd_header_does_not_escape_equality() {
    let forms = [
        ("/", "x-plan: free\r\n"),
        ("/", "x-plan: FREE\r\n"),
        ("/", "x-plan: \t free \r\n"),
        ("/", "x-plan: pro\r\nx-plan: free\r\n"),
        ("/", "x-plan: pro\r\nx_plan: free\r\n"),
    ];
    assert_no_escape("headers = { x-plan = { equals = \"free\" } }", &forms, ("/", "x-plan: pro\r\n")).await;
}

#[tokio::test]
async fn odd_header_does_not_escape_beginning() {
    let forms = [
        ("/", "x-client: bot/1\r\n"),
        ("/", "x-client: Bot/2\r\n"),
        ("/", "x-client: a\r\nx-client: bot/3\r\n"),
    ];
    assert_no_escape("headers = { x-client = { prefix = \"bot/\" } }", &forms, ("/", "x-client: app/1\r\n"))
        .await;
}

#[tokio::test]
async fn odd_query_escapes_no_condition() {
    let present = [
        ("/?expand=1", ""),
        ("/?%65xpand=1", ""),
        ("/?Expand=1", ""),
        ("/?expand", ""),
        ("/?a=1;expand=1", ""),
    ];
    assert_no_escape("query = { expand = \"present\" }", &present, ("/?a=1", "")).await;
    let absent = [("/", ""), ("/?token", ""), ("/?token=a&token=b", ""), ("/?token=%ff", "")];
    assert_no_escape("query = { token = \"absent\" }", &absent, ("/?token=a", "")).await;
    let equal = [("/?format=csv", ""), ("/?format=CS%56", ""), ("/?format=a&format=csv", "")];
    assert_no_escape("query = { format = { equals = \"csv\" } }", &equal, ("/?format=json", "")).await;
    let begins = [("/?q=site%3Aa", ""), ("/?q=Site:a", ""), ("/?Q=site:a", "")];
    assert_no_escape("query = { q = { prefix = \"site:\" } }", &begins, ("/?q=a", "")).await;
}

/// One request per consumer, which proxies at 127.0.0.9 have verified, and two per address without one.
const CONSUMERS: &str = r#"
[client_ip]
header = "x-forwarded-for"
trusted_proxies = ["127.0.0.9"]

[policy.consumer]
strategy = "fixed_window"
quota = "1/2000w"
key = { header = "x-consumer-id", trusted = true }
on_missing = "exempt"

[policy.anonymous]
strategy = "fixed_window"
quota = "2/2000w"
key = "client_ip"
match = { headers = { x-consumer-id = { present = false, trusted = true } } }
"#;

async fn consumer(from: u8, to: SocketAddr, headers: &str) -> (u16, String) {
    let response = exchange(from, to, &request("/", headers)).await;
    let status = response.split(' ').nth(1).unwrap().parse().unwrap();
    (status, response.rsplit("\r\n").next().unwrap().to_owned())
}

#[tokio::test]
async fn forged_consumer_is_anonymous() {
    let app = serve(application()).await;
    for (to, is_proxy) in [(limited(CONSUMERS).await, false), (proxy(CONSUMERS, app).await, true)] {
        // Directly, with a name of its own for each request: the limit of its address holds, and a proxy removes what it has forged.
        let forged = [
            "x-consumer-id: a\r\n",
            "X_Consumer_Id: b\r\n",
            "x-consumer-id: c\r\nx-consumer-id: d\r\n",
            "x-consumer-id: e\r\n",
        ];
        for (index, forged) in forged.into_iter().enumerate() {
            let (status, seen) = consumer(2, to, forged).await;
            assert_eq!(status, if index < 2 { 200 } else { 429 }, "{forged}");
            assert!(!is_proxy || index >= 2 || seen == "[]", "{forged}: {seen}");
        }
        // Through the gateway, which overwrites the header: one request for each consumer, whatever else the client sends.
        let verified = "x-consumer-id: acme\r\nX_Consumer_Id: forged\r\nx-forwarded-for: 192.0.2.1\r\n";
        let (status, seen) = consumer(9, to, verified).await;
        assert_eq!(status, 200);
        assert!(!is_proxy || seen == "[\"acme\"]", "{seen}");
        assert_eq!(consumer(9, to, verified).await.0, 429);
        // Through a gateway that adds the header in place of overwriting it.
        let twice = "x-consumer-id: forged\r\nx-consumer-id: acme\r\nx-forwarded-for: 192.0.2.2\r\n";
        assert_eq!(consumer(9, to, twice).await.0, 400);
        // Through one that has verified nothing, and passes on what servers may take for the header.
        let spelled = "X_Consumer_Id: forged\r\nx-forwarded-for: 192.0.2.3\r\n";
        let passed = [(); 3].map(|()| consumer(9, to, spelled));
        let mut statuses = Vec::new();
        for request in passed {
            let (status, seen) = request.await;
            assert!(!is_proxy || status != 200 || seen == "[]", "{seen}");
            statuses.push(status);
        }
        assert_eq!(statuses, [200, 200, 429]);
    }
}
