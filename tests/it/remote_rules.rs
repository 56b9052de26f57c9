//! A fleet whose limits are changed together, by a signed document in Redis.

mod rights;
mod rollout;
mod trust;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::Request;
use axum::routing::get;
use axum::{Router, body::Body};
use portcullis::Limiter;
use portcullis::event::{Event, EventKind};
use portcullis::rules::remote::{Document, RemoteHandle, RemoteWatch, SigningKey, push};
use portcullis::rules::{Format, Loader, Rules};
use portcullis::store::DocumentStore;
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use tokio::task::JoinSet;
use tower::ServiceExt as _;

const NAME: &str = "portcullis-rules";

/// One of the services: what it has for a file, its limits in Redis, and the document that it follows.
struct Instance {
    limiter: Limiter,
    app: Router,
    _remote: RemoteHandle,
}

/// The file of an instance, with these settings of `[remote]`, and this limit.
fn file(key: &SigningKey, settings: &str, limit: &str) -> String {
    format!(
        r#"
        [remote]
        verify_key = "{}"
        {settings}

        [policy.search]
        {limit}
        key = "global"
        match = {{ path = "/search" }}
        "#,
        key.verifying_key()
    )
}

const WINDOW: &str = "strategy = \"fixed_window\"\nquota = \"5/w\"";

impl Instance {
    async fn start(redis: &RedisServer, key: &SigningKey) -> Self {
        let file = file(key, "poll = \"20ms\"", WINDOW);
        Self::with(redis.url(), &Loader::text("limits.toml", Format::Toml, file)).await
    }

    /// As the user of the limiters, who may read the document and not write it.
    async fn with(url: String, file: &Loader) -> Self {
        // Hundreds of requests at a time, on a machine that is busy with other tests.
        let limiter = Limiter::redis(url.clone()).deadline(Duration::from_secs(5)).await.unwrap();
        Self::follow(limiter, file, Arc::new(documents(url).await))
    }

    fn follow(limiter: Limiter, file: &Loader, documents: Arc<dyn DocumentStore>) -> Self {
        let limiter = limiter.with_rules(Rules::load(file).unwrap()).unwrap();
        let remote = RemoteWatch::start(limiter.rules().unwrap(), documents).unwrap();
        let app =
            Router::new().route("/search", get(|| async { "found" })).layer(limiter.rules().unwrap().layer());
        Self { limiter, app, _remote: remote }
    }

    /// Waits for the rules of this generation.
    async fn generation(&self, generation: u64) {
        let end = Instant::now() + Duration::from_secs(60);
        let live = self.limiter.rules().unwrap();
        while live.generation() < generation {
            assert!(Instant::now() < end, "no generation {generation} after a minute");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(live.generation(), generation);
    }

    /// Sends a request. Returns the status, and what remains, which a policy in shadow mode does not show.
    async fn send(&self) -> (u16, Option<u64>) {
        let request = Request::get("/search").body(Body::empty()).unwrap();
        let response = self.app.clone().oneshot(request).await.unwrap();
        let remaining = response.headers().get("x-ratelimit-remaining");
        let remaining = remaining.map(|value| value.to_str().unwrap().parse().unwrap());
        (response.status().as_u16(), remaining)
    }

    fn limit(&self) -> u64 {
        let rules = self.limiter.rules().unwrap().current();
        rules.get("search").unwrap().policy().strategy().limit()
    }
}

/// The store of a user who may write documents.
async fn pusher(redis: &RedisServer) -> RedisStore {
    documents(redis.admin_url()).await
}

/// A store whose deadline no busy machine reaches: a push without a reply fails, and its fate is unknown.
async fn documents(url: String) -> RedisStore {
    RedisStore::builder(url).deadline(Duration::from_secs(10)).connect().await.unwrap()
}

fn limit(limit: u64) -> String {
    format!(r#"{{"policy":{{"search":{{"limit":{limit}}}}}}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_follows_a_document_and_its_limit_is_exact() {
    let (redis, key) = (RedisServer::start().unwrap(), SigningKey::from_seed([3; 32]));
    let fleet = [Instance::start(&redis, &key).await, Instance::start(&redis, &key).await];
    let store = pusher(&redis).await;

    let mut requests = JoinSet::new();
    let send = |requests: &mut JoinSet<u16>, count: usize| {
        for _ in 0..count {
            for Instance { app, .. } in &fleet {
                let (app, request) = (app.clone(), Request::get("/search").body(Body::empty()).unwrap());
                requests.spawn(async move { app.oneshot(request).await.unwrap().status().as_u16() });
            }
        }
    };
    send(&mut requests, 50);
    push(&store, NAME, &key, &limit(120), 0).await.unwrap();
    send(&mut requests, 50);
    for instance in &fleet {
        instance.generation(2).await;
        assert_eq!(instance.limit(), 120);
    }
    // Two hundred more requests, so that the new limit is used up.
    send(&mut requests, 100);
    let answers = requests.join_all().await;
    let count = |status: u16| answers.iter().filter(|answer| **answer == status).count();
    assert_eq!((count(200), count(429)), (120, 280), "and {} failures of the store", count(503));
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_that_nobody_trusts_change_nothing() {
    let (redis, key) = (RedisServer::start().unwrap(), SigningKey::from_seed([3; 32]));
    let instance = Instance::start(&redis, &key).await;
    let store = pusher(&redis).await;
    let overwrite = async |bytes: Vec<u8>| {
        let now = store.read(NAME, 1_000_000).await.unwrap();
        assert!(store.replace(NAME, now, bytes).await.unwrap());
    };
    let good = push(&store, NAME, &key, &limit(6), 7).await.unwrap();
    instance.generation(2).await;

    let sign = |key: &SigningKey, number| Document::sign(key, NAME, number, limit(1_000)).unwrap().to_bytes();
    let signed = sign(&key, 9);
    let refusals = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&refusals);
    let live = instance.limiter.rules().unwrap();
    live.registry().observe(Arc::new(move |event: &Event<'_>| {
        if matches!(event.kind, EventKind::RulesRejected { .. }) {
            count.fetch_add(1, Ordering::SeqCst);
        }
    }));
    let documents = [
        sign(&key, 6),
        sign(&SigningKey::from_seed([4; 32]), 9),
        limit(1_000).into_bytes(),
        signed[..signed.len() - 1].to_vec(),
        [sign(&key, 10), vec![b' '; Document::MAX]].concat(),
    ];
    for (index, document) in documents.into_iter().enumerate() {
        overwrite(document).await;
        let end = Instant::now() + Duration::from_secs(60);
        while refusals.load(Ordering::SeqCst) <= index {
            assert!(Instant::now() < end, "document {index} is not refused after a minute");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!((instance.limit(), live.generation()), (6, 2));
    }
    overwrite(good.to_bytes()).await;
    assert_eq!(push(&store, NAME, &key, &limit(8), 0).await.unwrap().number(), 8);
    let end = Instant::now() + Duration::from_secs(60);
    while instance.limit() != 8 {
        assert!(Instant::now() < end, "no limit of 8 after a minute");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
