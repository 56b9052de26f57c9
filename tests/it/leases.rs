//! Leases in a running service: what operators change applies to a process that has units in lease, and a process that stops returns
//! them.

use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{Request, StatusCode};
use axum::routing::get;
use portcullis::key::Header;
use portcullis::layer::Mode;
use portcullis::redis::RedisStore;
use portcullis::{Charge, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer, Secret};
use portcullis_core::Key;
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;

use crate::process::{Process, timing_lock};

/// A limit that no request of a test reaches, in a window that does not end meanwhile.
const LIMIT: u64 = 10_000;
const TENANT: Policy = Policy::fixed_window("tenant", Quota::per_week(LIMIT)).lease(500);

/// The weekly limit of a tenant without a lease. A header names the tenant.
const EXACT: Policy = Policy::fixed_window("tenant", Quota::per_week(LIMIT));

/// A service that leases, and an operator with another connection to the same Redis.
struct Service {
    url: String,
    client: HttpClient,
    limiter: Limiter,
    operator: Limiter,
    redis: RedisServer,
}

impl Service {
    async fn start(layers: impl FnOnce(&Limiter) -> RateLimitLayer) -> Self {
        let redis = RedisServer::start().unwrap();
        let [limiter, operator] = [limiter(&redis).await, limiter(&redis).await];
        let app =
            Router::new().route("/", get(async || "found")).route("/free", get(free)).layer(layers(&limiter));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { url, client: HttpClient::http_1(), limiter, operator, redis }
    }

    /// Sends a request of the tenant. Returns the status and the limit in the response.
    async fn send(&self) -> (u16, Option<u64>) {
        self.send_to("/").await
    }

    async fn send_to(&self, path: &str) -> (u16, Option<u64>) {
        let request = Request::get(format!("{}{path}", self.url)).header("x-tenant", "acme");
        let response = self.client.send(request, ()).await;
        let limit = response.headers().get("x-ratelimit-limit");
        (response.status().as_u16(), limit.map(|limit| limit.to_str().unwrap().parse().unwrap()))
    }

    /// Sends requests, which are admitted, until one is paid from a lease. Returns their number.
    async fn lease(&self) -> u64 {
        let before = self.figure("lease_hits");
        for sent in 1..=10_000 {
            assert_eq!(self.send().await, (200, Some(LIMIT)));
            if self.figure("lease_hits") > before {
                return sent;
            }
        }
        panic!("nothing is leased");
    }

    fn figure(&self, name: &str) -> u64 {
        let mut value = None;
        self.limiter.store().figures(&mut |figure| {
            if figure.name == name {
                value = Some(figure.value);
            }
        });
        value.unwrap()
    }

    fn key(&self) -> Key {
        let request = Request::builder().header("x-tenant", "acme").body(()).unwrap();
        self.operator.key_of(&tenant(), request).unwrap()
    }

    /// The units that are charged, in Redis.
    async fn charged(&self) -> u64 {
        LIMIT - self.operator.peek(&EXACT, self.key()).await.unwrap().remaining()
    }

    /// Waits until this number of units is charged, and nothing is in lease.
    async fn wait_for_charged(&self, units: u64) {
        let started = Instant::now();
        loop {
            let (charged, leased) = (self.charged().await, self.figure("leased_units"));
            if (charged, leased) == (units, 0) {
                return;
            }
            let is_late = started.elapsed() > Duration::from_secs(60);
            assert!(!is_late, "{charged} units are charged, and not {units}; {leased} in lease");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Refunds what its request was charged.
async fn free(charge: Charge) -> Result<&'static str, StatusCode> {
    charge.refund().await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok("free")
}

async fn limiter(redis: &RedisServer) -> Limiter {
    let store = RedisStore::builder(redis.url()).deadline(Duration::from_secs(10)).connect().await.unwrap();
    Limiter::new(store, Secret::published())
}

fn tenant() -> Header {
    Header::named("x-tenant")
}

fn leased(limiter: &Limiter) -> RateLimitLayer {
    limiter.layer(TENANT.by(tenant())).with_charge()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_quota_applies_to_the_next_request_despite_a_lease() {
    let _lock = timing_lock().await;
    let service = Service::start(leased).await;
    let mut admitted = service.lease().await;
    for limit in [2 * LIMIT, LIMIT] {
        service
            .limiter
            .set_policy(Policy::fixed_window("tenant", Quota::per_week(limit)).lease(500))
            .unwrap();
        assert_eq!(service.send().await, (200, Some(limit)));
        admitted += 1;
    }
    admitted += service.lease().await;
    // Less than is charged: a lease of the former quota pays for no request.
    service.limiter.set_policy(Policy::fixed_window("tenant", Quota::per_week(5)).lease(5)).unwrap();
    assert_eq!(service.send().await, (429, Some(5)));
    service.wait_for_charged(admitted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_without_its_lease_is_exact_from_the_next_request() {
    let _lock = timing_lock().await;
    let service = Service::start(leased).await;
    let mut admitted = service.lease().await;
    service.limiter.set_policy(EXACT).unwrap();
    let hits = service.figure("lease_hits");
    for _ in 0..50 {
        assert_eq!(service.send().await, (200, Some(LIMIT)));
        admitted += 1;
    }
    assert_eq!(service.figure("lease_hits"), hits);
    // What was in lease comes back when it expires.
    service.wait_for_charged(admitted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_mode_applies_to_the_next_request_despite_a_lease() {
    let _lock = timing_lock().await;
    let service = Service::start(leased).await;
    let mut admitted = service.lease().await;
    let name = TENANT.name().clone();
    // Nothing is counted, and nothing stays in lease.
    service.limiter.set_mode(&name, Mode::Off).unwrap();
    let hits = service.figure("lease_hits");
    for _ in 0..50 {
        assert_eq!(service.send().await, (200, None));
    }
    assert_eq!(service.figure("lease_hits"), hits);
    service.wait_for_charged(admitted).await;
    // In shadow the units are counted, from leases as well.
    service.limiter.set_mode(&name, Mode::Shadow).unwrap();
    while service.figure("lease_hits") == hits {
        assert_eq!(service.send().await.0, 200);
        admitted += 1;
        assert!(admitted < LIMIT, "nothing is leased");
    }
    service.limiter.set_mode(&name, Mode::Enforce).unwrap();
    assert_eq!(service.send().await, (200, Some(LIMIT)));
    service.wait_for_charged(admitted + 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_applies_to_the_next_request_despite_a_lease() {
    let _lock = timing_lock().await;
    // A policy with a lease has no blocks, so that operators block under another one.
    let guard = Policy::fixed_window("guard", Quota::per_week(LIMIT)).allow_overrides();
    let service = Service::start(|limiter| leased(limiter).and(guard.clone().by(tenant()))).await;
    let (hour, key) = (Duration::from_secs(3_600), service.key());
    let refused = service.limiter.block(&TENANT, key, hour).await.unwrap_err().to_string();
    assert!(refused.contains("overrides"), "{refused}");
    let mut admitted = 0;
    while service.figure("leased_units") == 0 {
        assert_eq!(service.send().await.0, 200);
        admitted += 1;
        assert!(admitted < 10_000, "nothing is leased");
    }
    service.operator.block(&guard, key, hour).await.unwrap();
    // Blocked, and what was spent for it is back in the lease.
    for _ in 0..20 {
        assert_eq!(service.send().await.0, 429);
    }
    service.operator.unblock(&guard, key).await.unwrap();
    service.wait_for_charged(admitted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_quota_elsewhere_leaves_what_is_in_lease() {
    let _lock = timing_lock().await;
    let service = Service::start(leased).await;
    let other = limiter(&service.redis).await;
    let lower = Policy::fixed_window("tenant", Quota::per_week(5));
    let (mut admitted, mut spent) = (0, 0);
    // Again if the lease expires first.
    while spent == 0 {
        admitted += service.lease().await;
        let held = service.figure("leased_units");
        // Another process has the new limit. It denies, and this one spends what it has charged before, and no more without a call.
        assert_eq!(other.peek(&lower, service.key()).await.unwrap().remaining(), 0);
        let (hits, calls) = (service.figure("lease_hits"), service.figure("calls"));
        while service.figure("calls") == calls {
            assert_eq!(service.send().await.0, 200);
            admitted += 1;
            spent = service.figure("lease_hits") - hits;
            assert!(spent <= held, "more than the lease of {held}");
        }
    }
    service.wait_for_charged(admitted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refund_returns_to_the_lease_without_a_call() {
    let _lock = timing_lock().await;
    let service = Service::start(leased).await;
    let mut admitted = service.lease().await;
    let figures = || (service.figure("calls"), service.figure("lease_hits"), service.figure("leased_units"));
    let mut sent = 0;
    loop {
        let (calls, hits, units) = figures();
        assert_eq!(service.send_to("/free").await.0, 200);
        // Otherwise the lease has expired meanwhile.
        if figures() == (calls, hits + 1, units) {
            break;
        }
        sent += 1;
        assert!(sent < 10_000, "each refund has taken a call");
        admitted += service.lease().await;
    }
    service.wait_for_charged(admitted).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_stops_returns_its_leases() {
    let _lock = timing_lock().await;
    let redis = RedisServer::start().unwrap();
    let budget = 800;
    let [first, second] = [
        Process::shared_budget(&redis.url(), budget).await,
        Process::shared_budget(&redis.url(), budget).await,
    ];
    // On one connection, because a server leases for ten requests within half a second.
    let client = HttpClient::http_1();
    let remaining = async |server: &Process| -> u64 {
        let response = client.send(Request::get(format!("{}/leased", server.url)), ()).await;
        assert_eq!(response.status(), 200);
        response.headers()["x-ratelimit-remaining"].to_str().unwrap().parse().unwrap()
    };
    // Until the second server sees that the first one has units in lease.
    let mut admitted = 0;
    loop {
        for _ in 0..50 {
            remaining(&first).await;
            admitted += 1;
        }
        admitted += 1;
        if remaining(&second).await < budget - admitted {
            break;
        }
        assert!(admitted < budget / 2, "nothing is leased");
    }
    assert_eq!(first.stop().await, (0, 0));
    assert_eq!(remaining(&second).await, budget - admitted - 1);
}
