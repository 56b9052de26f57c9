//! A real Envoy with the configuration of the docs asks the rate limit service about each request.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::http::{Request, Response, header};
use axum::routing::any;
use portcullis::rules::envoy::Descriptors;
use portcullis::testing::{self, ManualClock};
use portcullis_rls::{HEALTH_NAMES, RateLimitService, ResponseHeaders};
use portcullis_server::Server;
use portcullis_servers::within_a_minute;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, block_in_place};
use tonic::service::Routes;

use crate::process::{Proxy, free_address};

const CONFIGURATION: &str = include_str!("../../examples/proxies/envoy.yaml");
const LIMITS: &str = include_str!("../../examples/proxies/envoy-limits.yaml");

/// Envoy between a client, an application and the service.
struct Stack {
    service: RateLimitService,
    /// The runtime of the service. Its end closes all connections.
    runtime: Option<Runtime>,
    application: tokio::task::JoinHandle<()>,
    _envoy: Proxy,
    url: String,
}

impl Stack {
    fn start(change: impl Fn(String) -> String) -> Self {
        let limiter = testing::limiter(&ManualClock::default());
        let service = RateLimitService::envoy(limiter.clone(), limits(LIMITS))
            .response_headers(ResponseHeaders::RateLimit);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        // The listener of `portcullis serve`, on the loopback.
        let services = Routes::new(service.clone().grpc());
        let rls = Server::new(limiter).grpc((Ipv4Addr::LOCALHOST, 0).into(), services, &HEALTH_NAMES);
        let rls = block_in_place(|| runtime.block_on(rls.bind())).unwrap();
        let rls_address = rls.addresses().grpc.unwrap();
        runtime.spawn(rls.run(std::future::pending()));
        let (application, upstream) = serve(Router::new().fallback(any(async || "application")));
        let application = tokio::spawn(application);
        let listening = free_address();
        let configuration = [("10000", listening), ("3000", upstream), ("8081", rls_address)]
            .into_iter()
            .fold(CONFIGURATION.to_owned(), |text, (port, address)| {
                let (shown, used) =
                    (format!("port_value: {port} "), format!("port_value: {} ", address.port()));
                assert!(text.contains(&shown), "the configuration has port {port}");
                text.replace(&shown, &used)
            });
        // On a busy machine an answer may take longer than anybody should wait for it, and requests would pass without one.
        let patient = ["timeout: 0.25s", "timeout: 1s"]
            .into_iter()
            .fold(configuration, |text, timeout| text.replace(timeout, "timeout: 60s"));
        let envoy = Proxy::envoy(&change(patient), listening);
        let url = format!("http://{listening}");
        Self { service, runtime: Some(runtime), application, _envoy: envoy, url }
    }

    async fn get(&self, path: &str, api_key: Option<&str>) -> Response<Bytes> {
        let mut request = Request::get(format!("{}{path}", self.url));
        if let Some(key) = api_key {
            request = request.header("x-api-key", key);
        }
        HttpClient::http_1().send(request, ()).await
    }

    async fn status(&self, path: &str, api_key: Option<&str>) -> u16 {
        self.get(path, api_key).await.status().as_u16()
    }

    fn stop_service(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.application.abort();
        self.stop_service();
    }
}

fn limits(text: &str) -> Descriptors {
    Descriptors::parse(&[("envoy-limits.yaml", text)]).unwrap()
}

/// A server on the loopback, which runs where its future does, and its address.
fn serve(router: Router) -> (impl Future<Output = ()> + Send + 'static, SocketAddr) {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let server = async {
        let listener = TcpListener::from_std(listener).unwrap();
        axum::serve(listener, router).await.unwrap();
    };
    (server, address)
}

fn text<'r>(response: &'r Response<Bytes>, name: &str) -> &'r str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_choose_limits_and_figures_reach_the_client() {
    let stack = Stack::start(|text| text);
    let first = stack.get("/", Some("trial")).await;
    assert_eq!((first.status().as_u16(), &first.body()[..]), (200, &b"application"[..]));
    assert_eq!(text(&first, "x-ratelimit-remaining"), "1", "made by Envoy");
    assert_eq!((text(&first, "ratelimit-limit"), text(&first, "ratelimit-remaining")), ("2", "1"));
    assert_eq!(stack.status("/", Some("trial")).await, 200);
    let denied = stack.get("/", Some("trial")).await;
    assert_eq!(denied.status(), 429);
    assert_eq!((text(&denied, "ratelimit-remaining"), text(&denied, "x-envoy-ratelimited")), ("0", "true"));
    assert!(
        text(&denied, header::RETRY_AFTER.as_str())
            .parse::<u32>()
            .is_ok_and(|wait| (1..=3_600).contains(&wait))
    );
    for status in [200, 200, 200, 200, 200, 429] {
        assert_eq!(stack.status("/", Some("another")).await, status);
    }
    // The address was charged for the nine requests that passed, with the one that asks, and for none that was denied.
    let without_key = stack.get("/", None).await;
    assert_eq!(text(&without_key, "ratelimit-remaining"), "992");
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_have_descriptors_of_their_own() {
    let stack = Stack::start(|text| text);
    for status in [200, 200, 200, 429, 429] {
        assert_eq!(stack.status("/login", None).await, status);
    }
    assert_eq!(
        text(&stack.get("/", None).await, "ratelimit-remaining"),
        "996",
        "three sign-ins and this request"
    );
    for _ in 0..3 {
        assert_eq!(stack.status("/search", None).await, 200, "its limit of one request is only observed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn value_without_utf_8_is_left_to_failure_mode() {
    for (deny, status) in [("false", 200), ("true", 500)] {
        let mode = format!("failure_mode_deny: {deny}");
        let stack = Stack::start(|text| text.replace("failure_mode_deny: false", &mode));
        for _ in 0..6 {
            let request = Request::get(&stack.url).header("x-api-key", &b"\xff"[..]);
            assert_eq!(HttpClient::http_1().send(request, ()).await.status(), status, "{mode}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_service_the_failure_mode_of_envoy_decides() {
    for (deny, status) in [("false", 200), ("true", 500)] {
        let mode = format!("failure_mode_deny: {deny}");
        let mut stack = Stack::start(|text| text.replace("failure_mode_deny: false", &mode));
        assert_eq!(stack.status("/", Some("trial")).await, 200);
        stack.stop_service();
        for _ in 0..4 {
            assert_eq!(stack.status("/", Some("trial")).await, status, "{mode}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_replaced_under_load() {
    let stack = Arc::new(Stack::start(|text| text));
    let stop = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for _ in 0..4 {
        let (stack, stop) = (Arc::clone(&stack), Arc::clone(&stop));
        clients.spawn(async move {
            let client = HttpClient::http_1();
            let mut statuses = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let request = Request::get(&stack.url).header("x-api-key", "load");
                statuses.push(client.send(request, ()).await.status().as_u16());
            }
            statuses
        });
    }
    // More requests each time, and limits that differ in other places in between.
    let key = "  - key: api_key\n    rate_limit: { unit: hour, requests_per_unit: ";
    assert!(LIMITS.contains(&format!("{key}5 ")));
    for number in [10, 25, 40] {
        for other in [1, 2, 3] {
            let text = LIMITS.replace(&format!("{key}5 "), &format!("{key}{number} "));
            let text = text.replace("requests_per_unit: 2 ", &format!("requests_per_unit: {other} "));
            stack.service.replace(limits(&text)).unwrap();
            let used_up = async { while stack.status("/", Some("load")).await != 429 {} };
            within_a_minute("denial under the new limit", used_up).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let statuses: Vec<u16> = within_a_minute("end of the load", clients.join_all()).await.concat();
    assert!(statuses.iter().all(|status| matches!(status, 200 | 429)), "{statuses:?}");
    // What all clients passed together is what the address was charged for: the last limit of the key.
    assert_eq!(text(&stack.get("/", None).await, "ratelimit-remaining"), (1_000 - 40 - 1).to_string());
}
