//! One instance has the next document already, another one has not read it yet.

use portcullis::Secret;
use portcullis::rules::remote::push;
use portcullis::store::MemoryDocuments;
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisCluster;

use super::*;

/// The limits, all with the same period for every number.
const LIMITS: [&str; 5] = [
    WINDOW,
    "strategy = \"sliding_window\"\nquota = \"5/w\"",
    "strategy = \"sliding_log\"\nquota = \"5/w\"",
    "strategy = \"token_bucket\"\nquota = \"5/w\"",
    "strategy = \"gcra\"\nquota = \"5/w burst 5\"",
];

/// Changes the limit, and the burst of a policy that has one.
fn change(limit: &str, number: u64) -> String {
    if limit.contains("gcra") {
        format!(r#"{{"policy":{{"search":{{"limit":{number},"burst":{number}}}}}}}"#)
    } else {
        super::limit(number)
    }
}

/// An instance that reads each document at once, and one that reads the first only.
async fn two_documents<S: DocumentStore>(
    start: impl AsyncFn(&Loader) -> Instance,
    key: &SigningKey,
    store: &S,
    limit: &str,
) {
    let file = |poll| Loader::text("limits.toml", Format::Toml, file(key, poll, limit));
    push(store, NAME, key, &change(limit, 20), 0).await.unwrap();
    let (early, late) = (start(&file("poll = \"20ms\"")).await, start(&file("poll = \"1h\"")).await);
    for instance in [&early, &late] {
        instance.generation(2).await;
        assert_eq!(instance.limit(), 20);
    }
    let mut admitted = 0;
    let mut remaining = 20;
    for instance in [&early, &late, &early, &late] {
        let (status, left) = instance.send().await;
        remaining -= 1;
        assert_eq!((status, left), (200, Some(remaining)), "{limit}");
        admitted += 1;
    }

    push(store, NAME, key, &change(limit, 30), 0).await.unwrap();
    early.generation(3).await;
    assert_eq!((early.limit(), late.limit()), (30, 20));
    // What was charged under the former document counts under the next one.
    let (status, left) = early.send().await;
    admitted += 1;
    assert!(status == 200 && left.is_some_and(|left| (23..=25).contains(&left)), "{limit}: {left:?}");
    for _ in 0..40 {
        for instance in [&early, &late] {
            admitted += u64::from(instance.send().await.0 == 200);
        }
    }
    // The higher limit bounds both together. Buckets keep the time that the other has charged.
    assert!((20..=30).contains(&admitted), "{limit}: {admitted}");

    // A mode changes no state: nothing is rejected here, and all is there.
    push(store, NAME, key, r#"{"policy":{"search":{"mode":"shadow"}}}"#, 0).await.unwrap();
    early.generation(4).await;
    assert_eq!(early.send().await.0, 200, "{limit}");
    assert_eq!(late.send().await.0, 429, "{limit}");
    push(store, NAME, key, &change(limit, 20), 0).await.unwrap();
    early.generation(5).await;
    assert_eq!((early.send().await.0, late.send().await.0), (429, 429), "{limit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_documents_admit_no_more_than_the_higher_limit_in_memory() {
    let key = SigningKey::from_seed([3; 32]);
    for limit in LIMITS {
        let (store, documents) = (Arc::new(MemoryStore::new()), Arc::new(MemoryDocuments::new()));
        let start = async |file: &Loader| {
            let limiter = Limiter::new(Arc::clone(&store), Secret::published());
            Instance::follow(limiter, file, Arc::clone(&documents) as Arc<dyn DocumentStore>)
        };
        two_documents(start, &key, &*documents, limit).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_documents_admit_no_more_than_the_higher_limit_on_redis() {
    let key = SigningKey::from_seed([3; 32]);
    for limit in LIMITS {
        let redis = RedisServer::start().unwrap();
        let start = async |file: &Loader| Instance::with(redis.url(), file).await;
        two_documents(start, &key, &pusher(&redis).await, limit).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_follows_a_document_in_a_cluster() {
    let (cluster, key) = (RedisCluster::start(3, 0).unwrap(), SigningKey::from_seed([3; 32]));
    let store = documents(cluster.admin_url()).await;
    let start = async |file: &Loader| Instance::with(cluster.url(), file).await;
    two_documents(start, &key, &store, WINDOW).await;
}
