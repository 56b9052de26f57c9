//! A limit is tried out on two instances of a service: counted first, then enforced for more and more clients.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::Path;
use axum::http::{Request, StatusCode};
use axum::routing::{get, put};
use axum::{Extension, Router};
use portcullis::event::{Event, EventKind};
use portcullis::headers::RateLimitHeaders;
use portcullis::layer::{Mode, Percent};
use portcullis::redis::RedisStore;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, PolicyName, Quota, Secret, Shadow};
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;

const PLANNED: Policy = Policy::fixed_window("planned", Quota::per_week(1));

/// A service with a limit in shadow, and with a path for its operators.
fn app(limiter: &Limiter) -> Router {
    let limit = limiter.layer(PLANNED.by(ClientIp::peer()).shadow());
    let limit = limit.headers(RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::SHADOW);
    Router::new()
        .route("/", get(found).layer(limit))
        .route("/operators/mode/{mode}", put(set_mode))
        .layer(Extension(limiter.clone()))
}

async fn found(shadow: Shadow) -> String {
    shadow.denial().map(|denial| format!("{} would deny", denial.policy())).unwrap_or_default()
}

async fn set_mode(limiter: Extension<Limiter>, Path(mode): Path<String>) -> Result<(), (StatusCode, String)> {
    let mode = match mode.as_str() {
        "off" => Mode::Off,
        "shadow" => Mode::Shadow,
        "enforce" => Mode::Enforce,
        percent => {
            let invalid = |error: String| (StatusCode::BAD_REQUEST, error);
            let percent: f64 = percent.parse().map_err(|_| invalid(format!("{percent} is no mode")))?;
            Mode::Percent(Percent::try_from(percent).map_err(|error| invalid(error.to_string()))?)
        }
    };
    let name = PolicyName::literal("planned");
    limiter.set_mode(&name, mode).map_err(|error| (StatusCode::CONFLICT, error.to_string()))
}

/// A running instance.
struct Instance {
    url: String,
    would_reject: Arc<AtomicUsize>,
}

impl Instance {
    async fn start(limiter: Limiter) -> Self {
        let would_reject = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&would_reject);
        let limiter = limiter.observe(move |event: &Event<'_>| {
            if let EventKind::ShadowWouldReject { decision } = event.kind {
                assert_eq!(decision.policy().as_str(), "planned");
                counter.fetch_add(1, Ordering::Relaxed);
            }
        });
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = app(&limiter).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { url, would_reject }
    }

    /// Sets the mode as an operator does. Returns the answer.
    async fn set_mode(&self, mode: &str) -> (u16, String) {
        let request = Request::put(format!("{}/operators/mode/{mode}", self.url));
        let response = HttpClient::http_1().send(request, ()).await;
        (response.status().as_u16(), String::from_utf8(response.body().to_vec()).unwrap())
    }

    /// The clients that are limited. All of them have used their limit up.
    async fn limited(&self) -> BTreeSet<u8> {
        let mut limited = BTreeSet::new();
        for client in CLIENTS {
            let from = HttpClient::from_address(IpAddr::from([127, 0, 0, client]));
            let response = from.send(Request::get(&self.url), ()).await;
            match response.status().as_u16() {
                200 => assert_eq!(response.headers()["x-ratelimit-shadow"], "\"planned\""),
                429 => {
                    assert_eq!(response.headers()["x-ratelimit-limit"], "1");
                    limited.insert(client);
                }
                status => panic!("client {client} gets {status}"),
            }
        }
        limited
    }
}

const CLIENTS: std::ops::RangeInclusive<u8> = 1..=40;

async fn limit_is_tried_out(limiters: [Limiter; 2]) {
    let [one, other] = limiters;
    let (one, other) = (Instance::start(one).await, Instance::start(other).await);
    for client in CLIENTS {
        let from = HttpClient::from_address(IpAddr::from([127, 0, 0, client]));
        assert_eq!(from.send(Request::get(&one.url), ()).await.status(), 200);
    }
    // In shadow, what would be rejected is counted.
    assert_eq!(other.limited().await, BTreeSet::new());
    assert_eq!(other.would_reject.load(Ordering::Relaxed), CLIENTS.count());
    let body = portcullis_tests::get(&one.url).await.into_body();
    assert_eq!(body, "planned would deny");

    // Both instances limit the same clients, and keep limiting them when the share grows.
    let mut before = BTreeSet::new();
    for percent in ["20", "60"] {
        for instance in [&one, &other] {
            assert_eq!(instance.set_mode(percent).await.0, 200);
        }
        let limited = one.limited().await;
        assert_eq!(limited, other.limited().await);
        assert!(limited.is_superset(&before) && limited.len() > before.len());
        assert!(limited.len() < CLIENTS.count());
        before = limited;
    }
    assert_eq!(one.set_mode("enforce").await.0, 200);
    assert_eq!(one.limited().await, CLIENTS.collect());
    assert_eq!(other.limited().await, before, "each instance has the mode that it was told");

    let refused = "101 percent is more than all keys: use 0 to 100";
    assert_eq!(one.set_mode("101").await, (400, refused.to_owned()));
    assert_eq!(one.set_mode("off").await.0, 200);
    let response = portcullis_tests::get(&one.url).await;
    assert_eq!(response.status(), 200);
    let mut names = response.headers().keys();
    assert!(!names.any(|name| name.as_str().starts_with("x-ratelimit")), "{:?}", response.headers());
}

#[tokio::test]
async fn limit_is_tried_out_in_memory() {
    let store = Arc::new(MemoryStore::new());
    limit_is_tried_out([(); 2].map(|()| Limiter::new(Arc::clone(&store), Secret::published()))).await;
}

#[tokio::test]
async fn limit_is_tried_out_on_redis() {
    let redis = RedisServer::start().unwrap();
    let connect = async || {
        let store =
            RedisStore::builder(redis.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
        Limiter::new(store, Secret::published())
    };
    limit_is_tried_out([connect().await, connect().await]).await;
}
