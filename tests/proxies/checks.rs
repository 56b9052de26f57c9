//! The check endpoint on a real server, an application behind a proxy that asks it, and what holds behind each proxy.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ConnectInfo;
use axum::http::{Method, Request, Response};
use axum::middleware::{Next, from_fn};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use portcullis::rules::{Format, Loader, Rules};
use portcullis::{ClientIp, Limiter};
use portcullis_server::CheckEndpoint;
use portcullis_tests::HttpClient;

use crate::app::{Answer, send_target};
use crate::process::{Proxy, free_address};

/// The number of requests that an address may send per day.
pub(crate) const BUDGET: u64 = 6;

const RULES: &str = r#"
[layer]
except = { path = "/free" }
deny = { path = "/denied" }

[policy.address]
strategy = "gcra"
quota = "6/day burst 6"
key = "client_ip"

[policy.keyed]
strategy = "gcra"
quota = "2/day burst 2"
key = { header = "x-api-key" }
match = { path = "/keyed", methods = ["POST"], hosts = ["localhost", "127.0.0.1"] }

[policy.private]
strategy = "gcra"
quota = "2/day burst 2"
key = { header = "x-token", challenge = "ApiKey" }
match = { path = "/private" }
"#;

/// The limiter that is asked, and the application.
pub(crate) struct Checked {
    /// The address of the check endpoint.
    pub(crate) endpoint: SocketAddr,
    /// The address of the application.
    pub(crate) app: SocketAddr,
    limiter: Limiter,
    served: Arc<AtomicU32>,
    /// The peers of the endpoint.
    peers: Arc<Mutex<HashSet<SocketAddr>>>,
}

/// How a proxy is started, with the addresses of the endpoint and of the application, and whether requests pass while the endpoint does
/// not answer.
pub(crate) type Start = fn(endpoint: SocketAddr, app: SocketAddr, is_open: bool) -> (Proxy, SocketAddr);

impl Checked {
    /// With an endpoint that believes the peer 127.0.0.1 only.
    pub(crate) async fn start() -> Self {
        Self::trusting("127.0.0.1/32").await
    }

    pub(crate) async fn trusting(network: &str) -> Self {
        let rules = Loader::text("limits.toml", Format::Toml, RULES).without_environment();
        let limiter = Limiter::memory().with_rules(Rules::load(&rules).unwrap()).unwrap();
        let endpoint = CheckEndpoint::new(&limiter).unwrap().trust([network.parse().unwrap()]);
        let served = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&served);
        let app = Router::new().fallback(async move |request: Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1_000).await.unwrap();
            let status = if parts.uri.path() == "/forbidden" { 403 } else { 200 };
            let text = format!("{} {} {}", parts.method, parts.uri, String::from_utf8_lossy(&body));
            Response::builder().status(status).body(Body::from(text)).unwrap()
        });
        let peers = Arc::new(Mutex::new(HashSet::new()));
        let seen = Arc::clone(&peers);
        let endpoint = endpoint.router().layer(from_fn(
            move |ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request<Body>, next: Next| {
                seen.lock().unwrap().insert(peer);
                next.run(request)
            },
        ));
        Self { endpoint: serve(endpoint).await, app: serve(app).await, limiter, served, peers }
    }

    /// What remains for an address.
    pub(crate) async fn remaining(&self, address: &str) -> u64 {
        let prefix = ClientIp::peer().prefix(address.parse().unwrap());
        let key = self.limiter.key(|key| prefix.write(key)).unwrap();
        let policy = self.limiter.rules().unwrap().policy("address").unwrap();
        self.limiter.peek(&policy, key).await.unwrap().remaining()
    }

    /// The number of connections on which the endpoint was asked.
    pub(crate) fn connections(&self) -> usize {
        self.peers.lock().unwrap().len()
    }

    /// The number of requests that reached the application.
    pub(crate) fn served(&self) -> u32 {
        self.served.load(Ordering::Relaxed)
    }
}

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async { axum::serve(listener, service).await.unwrap() });
    address
}

/// A client on one connection to a proxy.
pub(crate) struct Client {
    client: HttpClient,
    proxy: SocketAddr,
}

impl Client {
    pub(crate) fn new(from: &str, proxy: SocketAddr) -> Self {
        let from: IpAddr = from.parse().unwrap();
        Self { client: HttpClient::from_address(from), proxy }
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> Response<Bytes> {
        let request = Request::builder().method(method).uri(format!("http://{}{path}", self.proxy));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.client.send(request, body).await
    }

    pub(crate) async fn get(&self, path: &str) -> Response<Bytes> {
        self.send(Method::GET, path, &[], "").await
    }
}

/// The status, the limit and what remains.
pub(crate) fn figures(response: &Response<Bytes>) -> (u16, Option<u64>, Option<u64>) {
    let number = |name: &str| {
        let mut values = response.headers().get_all(name).iter();
        let value = values.next().map(|value| value.to_str().unwrap().parse().unwrap());
        assert!(values.next().is_none(), "{name} is repeated");
        value
    };
    (response.status().as_u16(), number("x-ratelimit-limit"), number("x-ratelimit-remaining"))
}

/// Requests within the limit reach the application, with their bodies; others get 429 with the figures.
pub(crate) async fn limits_with_figures(start: Start) {
    let checked = Checked::start().await;
    let (_proxy, address) = start(checked.endpoint, checked.app, false);
    let client = Client::new("127.0.0.2", address);
    for remaining in (0..BUDGET).rev() {
        let response = client.send(Method::PUT, "/orders?page=1", &[], "hello").await;
        assert_eq!(figures(&response), (200, Some(BUDGET), Some(remaining)));
        assert_eq!(response.body(), "PUT /orders?page=1 hello");
        assert!(!response.headers().contains_key("retry-after"));
    }
    for _ in 0..3 {
        let response = client.send(Method::PUT, "/orders?page=1", &[], "hello").await;
        assert_eq!(figures(&response), (429, Some(BUDGET), Some(0)));
        let seconds = |name: &str| response.headers()[name].to_str().unwrap().parse::<u64>().unwrap();
        assert!((1..=14_400).contains(&seconds("retry-after")), "{response:?}");
        assert!((1..=86_400).contains(&seconds("x-ratelimit-reset")), "{response:?}");
        assert!(!response.headers().contains_key("x-check-status"));
        assert!(!response.body().is_empty());
    }
    assert_eq!(u64::from(checked.served()), BUDGET);

    // A rule of the file without a limit, one that denies, and a 403 of the application itself.
    assert_eq!(figures(&client.get("/free").await), (200, None, None));
    assert_eq!(client.get("/denied").await.status(), 403);
    let other = Client::new("127.0.0.3", address);
    let forbidden = other.get("/forbidden").await;
    assert_eq!(figures(&forbidden), (403, Some(BUDGET), Some(BUDGET - 1)));
    assert_eq!(forbidden.body(), "GET /forbidden ");
    assert_eq!(u64::from(checked.served()), BUDGET + 2);
    assert_eq!(checked.remaining("127.0.0.1").await, BUDGET);
}

/// Keys are those of the client's headers and address, and rules are chosen by its method, path and host.
pub(crate) async fn charges_keys_by_header_and_address(start: Start) {
    let checked = Checked::start().await;
    let (_proxy, address) = start(checked.endpoint, checked.app, false);
    let client = Client::new("127.0.0.2", address);
    let post = async |key: &str| {
        client.send(Method::POST, "/keyed", &[("x-api-key", key)], "body").await.status().as_u16()
    };
    assert_eq!([post("a").await, post("a").await, post("a").await, post("b").await], [200, 200, 429, 200]);
    // The denial by the key has charged no address.
    assert_eq!(checked.remaining("127.0.0.2").await, BUDGET - 3);
    // No key, which the rule rejects. The limit by address stays charged, as in a service.
    assert_eq!(client.send(Method::POST, "/keyed", &[], "").await.status(), 400);
    // Another method.
    assert_eq!(client.send(Method::PATCH, "/keyed", &[("x-api-key", "a")], "").await.status(), 200);
    let other = Client::new("127.0.0.3", address);
    assert_eq!(other.send(Method::POST, "/keyed", &[("x-api-key", "a")], "").await.status(), 429);
    assert_eq!(other.send(Method::POST, "/keyed", &[("x-api-key", "b")], "").await.status(), 200);
    assert_eq!(checked.remaining("127.0.0.2").await, BUDGET - 5);
    assert_eq!(checked.remaining("127.0.0.3").await, BUDGET - 1);
    let challenged = other.get("/private").await;
    assert_eq!(
        (challenged.status().as_u16(), &challenged.headers()["www-authenticate"]),
        (401, &"ApiKey".parse().unwrap())
    );
    assert_eq!(other.send(Method::GET, "/private", &[("x-token", "t")], "").await.status(), 200);
}

/// What no URI has is counted in the query, and is for the application to refuse.
pub(crate) async fn counts_raw_queries(start: Start) {
    let checked = Checked::start().await;
    let (_proxy, address) = start(checked.endpoint, checked.app, false);
    let answer = send_target("127.0.0.2", address, b"/a?q=\"<>", &[]).await;
    assert_eq!(answer, Answer::Layer(400));
    assert_eq!(checked.remaining("127.0.0.2").await, BUDGET - 1);
}

/// A client has one connection for all requests, rejected ones included. `reuses` is whether the proxy has one for all checks.
pub(crate) async fn keeps_connections(start: Start, reuses: bool) {
    let checked = Checked::start().await;
    let (_proxy, address) = start(checked.endpoint, checked.app, false);
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for index in 0..BUDGET + 3 {
        client.ready().await.unwrap();
        let request = Request::get("/").header("host", "localhost").body(Body::empty()).unwrap();
        let response = client.send_request(request).await.unwrap();
        assert_eq!(response.status(), if index < BUDGET { 200 } else { 429 });
        response.into_body().collect().await.unwrap();
    }
    assert_eq!(checked.connections() == 1, reuses, "{}", checked.connections());
}

/// While nothing listens at the endpoint, or it is silent, requests get `closed`, or pass where the proxy is configured so.
pub(crate) async fn fails_closed_and_open(start: Start, closed: &[u16]) {
    let checked = Checked::start().await;
    // Connections are accepted by the system, and never answered.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for endpoint in [free_address(), silent.local_addr().unwrap()] {
        let before = checked.served();
        let (_proxy, address) = start(endpoint, checked.app, false);
        let client = Client::new("127.0.0.2", address);
        let response = client.send(Method::POST, "/", &[], "hello").await;
        assert!(closed.contains(&response.status().as_u16()), "{response:?}");
        assert_eq!(checked.served(), before);

        let (_proxy, address) = start(endpoint, checked.app, true);
        let client = Client::new("127.0.0.2", address);
        let response = client.send(Method::POST, "/", &[], "hello").await;
        assert_eq!(
            (figures(&response), response.body()),
            ((200, None, None), &Bytes::from_static(b"POST / hello"))
        );
        assert_eq!(checked.served(), before + 1);
    }
    // The open variant limits while the endpoint answers, and does not pass what it may not ask.
    let (_proxy, address) = start(checked.endpoint, checked.app, true);
    let client = Client::new("127.0.0.2", address);
    for index in 0..BUDGET + 2 {
        assert_eq!(client.get("/").await.status(), if index < BUDGET { 200 } else { 429 });
    }
    let elsewhere = Checked::trusting("10.0.0.0/8").await;
    for is_open in [false, true] {
        let (_proxy, address) = start(elsewhere.endpoint, elsewhere.app, is_open);
        let status = Client::new("127.0.0.2", address).get("/").await.status();
        assert!(status == 403 || status == 500, "{status}");
    }
    assert_eq!((elsewhere.served(), elsewhere.remaining("127.0.0.2").await), (0, BUDGET));
}

#[tokio::test]
async fn direct_peer_outside_networks_gets_403() {
    let checked = Checked::start().await;
    for (path, kind, uri) in [("/check/nginx", "original", "uri"), ("/check/caddy", "forwarded", "uri")] {
        let address = if kind == "original" { "x-original-address" } else { "x-forwarded-for" };
        let headers = [
            (format!("x-{kind}-method"), "GET"),
            (format!("x-{kind}-{uri}"), "/"),
            (format!("x-{kind}-host"), "localhost"),
            (address.to_owned(), "192.0.2.1"),
        ];
        let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let ask = async |from: &str| {
            let client = Client::new(from, checked.endpoint);
            figures(&client.send(Method::GET, path, &headers, "").await)
        };
        for from in ["127.0.0.2", "127.0.0.3"] {
            assert_eq!(ask(from).await, (403, None, None));
        }
        let before = checked.remaining("192.0.2.1").await;
        assert_eq!(ask("127.0.0.1").await, (200, Some(BUDGET), Some(before - 1)));
    }
    for other in ["127.0.0.1", "127.0.0.2", "127.0.0.3"] {
        assert_eq!(checked.remaining(other).await, BUDGET);
    }
}

/// The pages include the files that the tests run.
#[test]
fn pages_show_the_tested_configurations() {
    for (page, language, file) in [
        (include_str!("../../docs/how-to/gateway/nginx.md"), "nginx", "nginx-check.conf"),
        (include_str!("../../docs/how-to/gateway/caddy.md"), "caddyfile", "Caddyfile"),
        (include_str!("../../docs/how-to/gateway/haproxy.md"), "haproxy", "haproxy-check.cfg"),
        (include_str!("../../docs/how-to/gateway/haproxy.md"), "lua", "haproxy-check.lua"),
        (include_str!("../../docs/how-to/gateway/envoy.md"), "yaml", "envoy-limits.yaml"),
        (include_str!("../../docs/how-to/gateway/envoy.md"), "yaml", "envoy.yaml"),
    ] {
        let block = format!("\n```{language}\n{{{{#include ../../../examples/proxies/{file}}}}}\n```\n");
        assert!(page.contains(&block), "{file}");
        assert!(page.contains(&format!("`examples/proxies/{file}`")), "readers find {file}");
    }
}

/// A file with some words replaced. Panics if one of the words is missing.
pub(crate) fn with(file: &str, replaced: &[(&str, &str)]) -> String {
    replaced.iter().fold(file.to_owned(), |file, (from, to)| {
        assert!(file.contains(from), "{from} is not in {file}");
        file.replace(from, to)
    })
}
