//! Which of several quotas a caller has, on two instances that share a store, in memory and on Redis.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Request;
use axum::http::request::Parts;
use axum::routing::get;
use axum::{Router, http::HeaderMap};
use portcullis::headers::RateLimitHeaders;
use portcullis::key::{Key, Lookup};
use portcullis::redis::RedisStore;
use portcullis::{Limiter, Policy, PolicyExt as _, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;

const DAY: Duration = Duration::from_secs(86_400);

/// 100 a week, and up to 500 for callers with a plan or a contract.
fn weekly() -> Policy {
    let (smallest, largest) = (Quota::per_week(10), Quota::per_week(500));
    Policy::fixed_window("weekly", Quota::per_week(100)).allow_overrides().caller_quotas(smallest, largest)
}

fn quota(headers: &HeaderMap, name: &str) -> Option<Quota> {
    let limit = headers.get(name)?.to_str().ok()?.parse().ok()?;
    Quota::new(limit, 7 * DAY, None).ok()
}

/// The directory knows the account of the caller and its contract; the gateway in front of the service tells the plan.
fn app(limiter: &Limiter) -> Router {
    let directory = |parts: &Parts| {
        let contract = quota(&parts.headers, "x-contract");
        async move {
            tokio::task::yield_now().await;
            let acme = Lookup::found("account", "acme");
            Ok(match contract {
                Some(contract) => acme.quota("weekly", contract),
                None => acme,
            })
        }
    };
    let layer = limiter
        .layer(weekly().by_async(directory).quota(|parts| quota(&parts.headers, "x-plan")))
        .headers(RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF);
    Router::new().route("/", get(async || "found")).layer(layer)
}

/// A running instance.
struct Instance {
    url: String,
    limiter: Limiter,
}

const PLAN: (&str, &str) = ("x-plan", "200");
const CONTRACT: (&str, &str) = ("x-contract", "300");

impl Instance {
    async fn start(limiter: Limiter) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app(&limiter)).into_future());
        Self { url, limiter }
    }

    /// Sends a request. Returns the status, the limit and what remains.
    async fn send(&self, headers: &[(&str, &str)]) -> (u16, u64, u64) {
        let mut request = Request::get(&self.url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = HttpClient::http_1().send(request, ()).await;
        let header = |name: &str| response.headers()[name].to_str().unwrap();
        let limit: u64 = header("x-ratelimit-limit").parse().unwrap();
        assert_eq!(header("ratelimit-policy"), format!("\"weekly\";q={limit};w=604800"));
        let remaining = header("x-ratelimit-remaining").parse().unwrap();
        (response.status().as_u16(), limit, remaining)
    }

    fn acme(&self) -> Key {
        self.limiter.key(|key| key.part("account", b"acme")).unwrap()
    }
}

async fn each_quota_gives_way_to_the_next(limiters: [Limiter; 2]) {
    let [one, other] = limiters;
    let (one, other) = (Instance::start(one).await, Instance::start(other).await);
    let acme = one.acme();

    // The policy, a plan, and a contract.
    assert_eq!(one.send(&[]).await, (200, 100, 99));
    assert_eq!(other.send(&[PLAN]).await, (200, 200, 198));
    assert_eq!(one.send(&[PLAN, CONTRACT]).await, (200, 300, 297));

    // A grant, which may be more than a contract, and less.
    for limit in [900, 50] {
        let quota = Quota::new(limit, 7 * DAY, None).unwrap();
        one.limiter.grant(&weekly(), acme, quota).for_duration(DAY).await.unwrap();
        let used = if limit == 900 { 3 } else { 6 };
        assert_eq!(other.send(&[]).await, (200, limit, limit - used - 1));
        assert_eq!(one.send(&[PLAN]).await, (200, limit, limit - used - 2));
        assert_eq!(other.send(&[PLAN, CONTRACT]).await, (200, limit, limit - used - 3));
    }

    // A block, by the other instance.
    other.limiter.block(&weekly(), acme, DAY).await.unwrap();
    assert_eq!(one.send(&[PLAN, CONTRACT]).await, (429, 300, 0));
    assert_eq!(other.send(&[PLAN]).await, (429, 200, 0));
    one.limiter.unblock(&weekly(), acme).await.unwrap();
    // An instance remembers a denial for a second.
    within_a_minute("the block ends in both instances", async {
        while other.send(&[PLAN]).await.0 == 429 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(one.send(&[PLAN, CONTRACT]).await, (200, 50, 39));

    // Under the smaller grant, the caller is rejected, and a remembered denial shows it as well.
    for remaining in (0..39).rev() {
        assert_eq!(other.send(&[]).await, (200, 50, remaining));
    }
    for instance in [&one, &one, &other, &other] {
        assert_eq!(instance.send(&[PLAN, CONTRACT]).await, (429, 50, 0));
    }
    one.limiter.revoke_grant(&weekly(), acme).await.unwrap();
    assert_eq!(one.send(&[PLAN, CONTRACT]).await, (200, 300, 249));
    assert_eq!(one.send(&[PLAN]).await, (200, 200, 148));
    assert_eq!(one.send(&[]).await, (200, 100, 47));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_quota_gives_way_to_the_next_in_memory() {
    let store = Arc::new(MemoryStore::new());
    each_quota_gives_way_to_the_next([(); 2].map(|()| Limiter::new(Arc::clone(&store), Secret::published())))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_quota_gives_way_to_the_next_on_redis() {
    let redis = RedisServer::start().unwrap();
    let connect = async || {
        let store =
            RedisStore::builder(redis.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
        Limiter::new(store, Secret::published())
    };
    each_quota_gives_way_to_the_next([connect().await, connect().await]).await;
}
