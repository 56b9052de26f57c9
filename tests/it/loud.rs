//! A limit that does not apply is loud: two real Axum servers, whose limits apply in part, and all that an operator reads about it: in
//! the log, where each line is once, however many requests follow, and in the admin API.

use std::future::IntoFuture as _;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::http::request::Parts;
use axum::routing::get;
use portcullis::admin::Actor;
use portcullis::key::Global;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer};
use portcullis_tests::{HttpClient, set_global_subscriber};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

/// A service with one limit that applies and four that do not.
struct Service {
    limiter: Limiter,
    admin: Router,
    _uploads: RateLimitLayer,
    search: String,
    orders: String,
}

impl Service {
    async fn start() -> Self {
        let limiter = Limiter::memory();
        let admin = limiter.admin(|_: &Parts| Ok(Actor::new("operator"))).into_router();
        let policy = |name| Policy::fixed_window(name, Quota::per_day(1_000_000));
        let search = limiter.layer(policy("search").by(ClientIp::peer())).route("GET /search");
        // Forgotten: it was to be enforced after a few days.
        let suggest = limiter.layer(policy("suggest").by(Global).shadow()).route("GET /suggest");
        // On a route that no client calls.
        let exports = limiter.layer(policy("exports").by(Global)).route("GET /v1/exports");
        // Built, and never applied.
        let uploads = limiter.layer(policy("uploads").by(Global)).route("PUT /uploads");
        let orders = limiter.layer(policy("orders").by(ClientIp::peer())).route("GET /orders");

        let handler = || get(async || "here");
        let public = Router::new()
            .route("/search", handler().layer(search))
            .route("/suggest", handler().layer(suggest))
            .route("/v1/exports", handler().layer(exports))
            .route("/exports", handler());
        let (listener, search) = listen("search").await;
        let public = public.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(axum::serve(listener, public).into_future());

        // Its service has no connection info, so that its limit finds no address.
        let internal = Router::new().route("/orders", handler().layer(orders));
        let (listener, orders) = listen("orders").await;
        tokio::spawn(axum::serve(listener, internal).into_future());
        Self { limiter, admin, _uploads: uploads, search, orders }
    }

    /// Sends many requests to every route that clients call.
    async fn send_many(&self) {
        let client = HttpClient::http_1();
        for _ in 0..25 {
            for (path, status) in [("search", 200), ("suggest", 200), ("exports", 200)] {
                let url = self.search.replace("search", path);
                assert_eq!(client.send(Request::get(url), ()).await.status(), status, "{path}");
            }
            let refused = client.send(Request::get(&self.orders), ()).await;
            assert_eq!(refused.status(), 500, "its clients cannot be told apart");
        }
    }

    /// What the admin API lists: the name of each policy, its layers, and whether it has counted a request and is tried out.
    async fn policies(&self) -> Value {
        let request = Request::get("/v1/policies").header("host", "localhost").body(Body::empty()).unwrap();
        let answer = self.admin.clone().oneshot(request).await.unwrap();
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let answer: Value = serde_json::from_slice(&bytes).unwrap();
        let policies = answer["policies"].as_array().unwrap().iter();
        let row = |policy: &Value| {
            json!([policy["name"], policy["layers"], policy["counted"], policy["tried_out_since"].is_u64()])
        };
        policies.map(row).collect()
    }
}

async fn listen(path: &str) -> (TcpListener, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/{path}", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test]
async fn a_limit_that_does_not_apply_is_logged_once() {
    let (log, _guard) = Log::start();
    let service = Service::start().await;
    service.send_many().await;
    let policies = |name: &str, key: &str, mode: &str| {
        format!(
            "policies=\"{name}: fixed_window 1000000/d by {key}, {mode}, if the store fails: local, whole limit\""
        )
    };
    let start = "INFO a layer of the rate limiter limits requests route=";
    let expected = [
        format!("{start}\"GET /orders\" {}", policies("orders", "client_ip", "enforce")),
        format!("{start}\"GET /search\" {}", policies("search", "client_ip", "enforce")),
        format!(
            "{start}\"GET /suggest\" {}",
            policies("suggest", "global", "shadow (tried out: it rejects no request)")
        ),
        format!("{start}\"GET /v1/exports\" {}", policies("exports", "global", "enforce")),
    ];
    let (mut starts, others): (Vec<_>, Vec<_>) =
        log.take().into_iter().partition(|line| line.starts_with(start));
    starts.sort();
    assert_eq!(starts, expected);
    assert_eq!(service.limiter.layers().len(), starts.len(), "what is logged is what can be listed");
    let [fix] = &others[..] else { panic!("{others:?}") };
    assert!(
        fix.starts_with("ERROR the rate limiter cannot decide requests, and rejects them")
            && fix.contains("router.into_make_service_with_connect_info::<SocketAddr>()"),
        "{fix}"
    );
    let expected = json!([
        ["exports", 1, false, false],
        ["orders", 1, false, false],
        ["search", 1, true, false],
        ["suggest", 1, true, true],
        ["uploads", 0, false, false],
    ]);
    assert_eq!(service.policies().await, expected);
}

/// The log of this thread, as an operator reads it.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        set_global_subscriber();
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .with_target(false)
            .without_time()
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines since the last call.
    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        String::from_utf8(bytes).unwrap().lines().map(|line| line.trim().to_owned()).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
