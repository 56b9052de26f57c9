//! A limit that does not apply is loud: two real Axum servers, whose limits apply in part, and all that an operator reads about it in the
//! log. Each line is there once, however many requests follow.

use std::future::IntoFuture as _;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use axum::routing::get;
use portcullis::key::Global;
use portcullis::testing::{self, ManualClock};
use portcullis::{ClientIp, Limiter, Policy, Quota, RateLimitLayer};
use portcullis_tests::{HttpClient, set_global_subscriber};
use tokio::net::TcpListener;

/// In seconds.
const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// A service with one limit that applies and four that do not.
struct Service {
    limiter: Limiter,
    _uploads: RateLimitLayer,
    clock: ManualClock,
    search: String,
    orders: String,
}

impl Service {
    async fn start(remind: impl FnOnce(Limiter) -> Limiter) -> Self {
        let clock = ManualClock::default();
        let limiter = remind(testing::limiter(&clock));
        let policy = |name| Policy::fixed_window(name, Quota::per_day(1_000_000));
        let search = limiter.layer(policy("search")).by(ClientIp::peer()).route("GET /search");
        // Forgotten: it was to be enforced after a few days.
        let suggest = limiter.layer(policy("suggest")).by(Global).route("GET /suggest").shadow();
        // On a route that no client calls.
        let exports = limiter.layer(policy("exports")).by(Global).route("GET /v1/exports");
        // Built, and never applied.
        let uploads = limiter.layer(policy("uploads")).by(Global).route("PUT /uploads");
        let orders = limiter.layer(policy("orders")).by(ClientIp::peer()).route("GET /orders");

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
        Self { limiter, _uploads: uploads, clock, search, orders }
    }

    fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
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
}

async fn listen(path: &str) -> (TcpListener, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/{path}", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test]
async fn a_limit_that_does_not_apply_is_logged_once() {
    let (log, _guard) = Log::start();
    let service = Service::start(|limiter| limiter).await;
    service.send_many().await;
    let policies = |name: &str, key: &str, mode: &str| {
        format!(
            "policies=\"{name}: fixed_window 1000000/d by {key}, {mode}, if the store fails: local, whole limit\""
        )
    };
    let start = "INFO a layer of the rate limiter limits requests route=";
    let mut expected = vec![
        format!("{start}\"GET /orders\" {}", policies("orders", "client_ip", "enforce")),
        format!("{start}\"GET /search\" {}", policies("search", "client_ip", "enforce")),
        format!("{start}\"GET /suggest\" {}", policies("suggest", "global", "shadow")),
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

    service.advance(HOUR - 1);
    service.send_many().await;
    assert_eq!(log.take(), [""; 0], "nobody is reminded before the time");
    service.advance(1);
    service.send_many().await;
    let unused = |name: &str| {
        format!(
            "WARN the policy {name} of the rate limiter has counted no request since 3600s: is its layer on the right routes, and does \
             it find a key?"
        )
    };
    expected = ["exports", "orders", "uploads"].map(unused).into();
    let mut lines = log.take();
    lines.sort();
    assert_eq!(lines, expected);

    service.advance(14 * DAY - HOUR - 1);
    service.send_many().await;
    assert_eq!(log.take(), [""; 0]);
    service.advance(1);
    service.send_many().await;
    assert_eq!(
        log.take(),
        [
            "WARN the policy suggest of the rate limiter is tried out (shadow) since 1209600s: enforce it, or remove it"
        ]
    );

    // Once is once.
    for _ in 0..3 {
        service.advance(30 * DAY);
        service.send_many().await;
    }
    assert_eq!(log.take(), [""; 0]);
}

#[tokio::test]
async fn the_times_of_reminders_can_be_set() {
    let (log, _guard) = Log::start();
    let service =
        Service::start(|limiter| limiter.remind_after(Duration::from_secs(DAY), Duration::MAX)).await;
    service.send_many().await;
    service.advance(DAY - 1);
    service.send_many().await;
    let reminders = || log.take().into_iter().filter(|line| line.starts_with("WARN the policy"));
    assert_eq!(reminders().count(), 0);
    service.advance(1);
    service.send_many().await;
    let lines: Vec<_> = reminders().collect();
    assert!(lines.len() == 3 && lines.iter().all(|line| line.contains(" since 86400s")), "{lines:?}");
    service.advance(365 * DAY);
    service.send_many().await;
    assert_eq!(reminders().count(), 0, "a shadow policy may stay one");
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
