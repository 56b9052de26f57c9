//! One corpus drives the algorithm, the memory store, a real Redis, a cluster and the layer.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portcullis_memory::MemoryStore;
use portcullis_redis::RedisStore;
use portcullis_servers::{RedisCluster, RedisServer};
use portcullis_testing::{ManualClock, Pure, Scenario, StoreSubject, SystemUnderTest, run};

use crate::layer::LayerSubject;

async fn the_corpus_passes(subject: &mut dyn SystemUnderTest) {
    the_corpus_passes_without(subject, &[]).await;
}

async fn the_corpus_passes_without(subject: &mut dyn SystemUnderTest, skipped: &[&str]) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let mut files: Vec<_> = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert_eq!(files.len(), 9, "one for each algorithm, and one for several");
    files.retain(|file| !skipped.iter().any(|name| file.ends_with(name)));
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let scenario = Scenario::parse(&file.display().to_string(), &text).unwrap();
        assert!(!scenario.cases().is_empty());
        let report = run(scenario.cases(), subject).await;
        assert!(report.is_success(), "{}\n{report}", file.display());
    }
}

#[tokio::test]
async fn on_the_algorithm_alone() {
    the_corpus_passes(&mut Pure::new()).await;
}

#[tokio::test]
async fn on_the_memory_store() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build();
    the_corpus_passes(&mut StoreSubject::new(Arc::new(store), clock)).await;
}

#[tokio::test]
async fn on_redis() {
    let redis = RedisServer::start().unwrap();
    the_corpus_passes_at(redis.url()).await;
}

/// Every case has its own key, so that all nodes get calls.
#[tokio::test]
async fn on_a_cluster() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    the_corpus_passes_at(cluster.url()).await;
    for node in cluster.nodes() {
        assert!(node.calls("evalsha").unwrap() > 10);
    }
}

async fn the_corpus_passes_at(url: String) {
    let clock = ManualClock::default();
    let store =
        RedisStore::builder(url).deadline(DEADLINE).scenario_clock(clock.clone()).connect().await.unwrap();
    the_corpus_passes(&mut StoreSubject::new(Arc::new(store), clock)).await;
}

/// Requests wait in a queue, so the clock is paused; it advances when all tasks wait.
#[tokio::test(start_paused = true)]
async fn through_the_layer() {
    // The requests of the subject end at once, so that none is in flight at the next step.
    the_corpus_passes_without(&mut LayerSubject::new(), &["in_flight.toml"]).await;
}

/// A late answer is not an error here.
const DEADLINE: Duration = Duration::from_secs(10);
