//! A limit changes while two instances of a service run on one store.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::http::{Request, StatusCode};
use axum::routing::{get, put};
use axum::{Extension, Router};
use portcullis::headers::RateLimitHeaders;
use portcullis::key::Global;
use portcullis::redis::RedisStore;
use portcullis::store::FixedWindow;
use portcullis::{Limiter, Policy, PolicyExt as _, PolicyName, PolicySettings, Quota, Secret};
use portcullis_core::Strategy;
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;

/// A policy with a limit that operators change.
type Limited = fn(u64) -> Policy;

const WINDOW: Limited = |limit| Policy::fixed_window("calls", Quota::per_week(limit));

/// The algorithms, all with the same period for every limit: the time to full of a bucket is a week.
const ALGORITHMS: [Limited; 5] = [
    WINDOW,
    |limit| Policy::sliding_window("calls", Quota::per_week(limit)),
    |limit| Policy::sliding_log("calls", Quota::per_week(limit)),
    |limit| Policy::token_bucket("calls", Quota::per_week(limit)),
    |limit| Policy::gcra("calls", Quota::per_week(limit).burst(limit)),
];

fn app(limiter: &Limiter, policy: Limited, limit: u64) -> Router {
    let calls = limiter.layer(policy(limit).by(Global));
    let set_limit = async move |limiter: Extension<Limiter>, Path(limit): Path<u64>| match limiter
        .set_policy(policy(limit))
    {
        Ok(former) => Ok(former.strategy().limit().to_string()),
        Err(error) => Err((StatusCode::CONFLICT, error.to_string())),
    };
    Router::new()
        .route("/", get(async || "found"))
        .layer(calls.headers(RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF))
        .route("/operators/limit/{limit}", put(set_limit))
        .layer(Extension(limiter.clone()))
}

/// A running instance.
struct Instance {
    url: String,
    client: HttpClient,
}

impl Instance {
    async fn start(limiter: &Limiter, policy: Limited, limit: u64) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app(limiter, policy, limit)).into_future());
        Self { url, client: HttpClient::http_1() }
    }

    /// Sends a request. Returns the status, the limit and what remains.
    async fn send(&self) -> (u16, u64, u64) {
        let response = self.client.send(Request::get(&self.url), ()).await;
        let header = |name: &str| response.headers()[name].to_str().unwrap();
        let number = |name: &str| header(name).parse().unwrap();
        let limit: u64 = number("x-ratelimit-limit");
        assert_eq!(header("ratelimit-policy"), format!("\"calls\";q={limit};w=604800"));
        (response.status().as_u16(), limit, number("x-ratelimit-remaining"))
    }

    async fn set_limit(&self, limit: u64) -> u64 {
        let request = Request::put(format!("{}/operators/limit/{limit}", self.url));
        let response = self.client.send(request, ()).await;
        str::from_utf8(response.body()).unwrap().parse().unwrap()
    }
}

async fn headers_and_states_follow_a_change([one, other]: [Limiter; 2]) {
    let (one, other) = (Instance::start(&one, WINDOW, 10).await, Instance::start(&other, WINDOW, 10).await);
    for remaining in (6..10).rev() {
        assert_eq!(one.send().await, (200, 10, remaining));
    }
    assert_eq!(one.set_limit(20).await, 10);
    // The next request tells the new limit, and what was charged under the old one counts.
    assert_eq!(one.send().await, (200, 20, 15));
    assert_eq!(other.send().await, (200, 10, 4), "the other instance was not told");
    assert_eq!(other.set_limit(20).await, 10);
    assert_eq!(other.send().await, (200, 20, 13));
    // A lower limit denies at once, and a higher one admits at once.
    for instance in [&one, &other] {
        instance.set_limit(5).await;
        assert_eq!(instance.send().await, (429, 5, 0));
        instance.set_limit(8).await;
    }
    assert_eq!(one.send().await, (200, 8, 0));
    assert_eq!(other.send().await, (429, 8, 0));
}

async fn two_limits_admit_no_more_than_the_higher_one([one, other]: [Limiter; 2], policy: Limited) {
    let (one, other) = (Instance::start(&one, policy, 20).await, Instance::start(&other, policy, 20).await);
    other.set_limit(30).await;
    let mut admitted = 0;
    for _ in 0..40 {
        for instance in [&one, &other] {
            admitted += u64::from(instance.send().await.0 == 200);
        }
    }
    // Windows and logs count the same units. Buckets keep the time that the other has charged.
    assert!((20..=30).contains(&admitted), "{:?}: {admitted}", policy(20));
    // No client is locked out: a window or a log ends within its period, and a bucket has a unit after an interval.
    let longest = match policy(20).strategy() {
        Strategy::FixedWindow(_)
        | Strategy::CalendarWindow(_)
        | Strategy::SlidingWindow(_)
        | Strategy::SlidingLog(_)
        | Strategy::InFlight(_) => WEEK,
        Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => WEEK / 20,
    };
    for instance in [&one, &other] {
        let response = instance.client.send(Request::get(&instance.url), ()).await;
        let wait: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!(wait <= longest, "{:?}: {wait}", policy(20));
    }
}

/// In seconds.
const WEEK: u64 = 604_800;

#[tokio::test]
async fn headers_and_states_follow_a_change_in_memory() {
    let store = Arc::new(MemoryStore::new());
    headers_and_states_follow_a_change(
        [(); 2].map(|()| Limiter::new(Arc::clone(&store), Secret::published())),
    )
    .await;
}

#[tokio::test]
async fn headers_and_states_follow_a_change_on_redis() {
    let redis = RedisServer::start().unwrap();
    headers_and_states_follow_a_change([connect(&redis).await, connect(&redis).await]).await;
}

#[tokio::test]
async fn two_limits_in_turn_are_bounded_in_memory() {
    for policy in ALGORITHMS {
        let store = Arc::new(MemoryStore::new());
        let limiters = [(); 2].map(|()| Limiter::new(Arc::clone(&store), Secret::published()));
        two_limits_admit_no_more_than_the_higher_one(limiters, policy).await;
    }
}

#[tokio::test]
async fn two_limits_in_turn_are_bounded_on_redis() {
    let redis = RedisServer::start().unwrap();
    for policy in ALGORITHMS {
        // Each algorithm has keys of its own.
        let limiters = [connect(&redis).await, connect(&redis).await];
        two_limits_admit_no_more_than_the_higher_one(limiters, policy).await;
    }
}

#[tokio::test]
async fn a_service_for_tenants_does_not_grow() {
    let redis = RedisServer::start().unwrap();
    let limiter = connect(&redis).await;
    let name = |number: u64| PolicyName::new(&format!("tenant {number}")).unwrap();
    for number in 0..100 {
        let policy = Policy::try_new(
            name(number).as_str(),
            FixedWindow::new(Quota::per_week(number + 1)),
            PolicySettings::default(),
        )
        .unwrap();
        let policy = policy.on_store_failure(portcullis::FailureMode::Closed);
        let app: Router =
            Router::new().route("/", get(async || "found")).layer(limiter.layer(policy.by(Global)));
        assert!(limiter.policy(name(number)).is_some());
        drop(app);
        assert_eq!(limiter.policy(name(number)), None);
    }
    assert!(format!("{limiter:?}").contains("policies: []"), "{limiter:?}");
}

async fn connect(redis: &RedisServer) -> Limiter {
    let store = RedisStore::builder(redis.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
    Limiter::new(store, Secret::published())
}
