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

/// Runs every case: none is skipped.
async fn the_corpus_passes(subject: &mut dyn SystemUnderTest) {
    assert_eq!(skipped_cases_of_the_corpus(subject).await, 0);
}

async fn skipped_cases_of_the_corpus(subject: &mut dyn SystemUnderTest) -> usize {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let folders = [data.clone(), data.join("overrides")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    assert_eq!(files.len(), 10, "one for each algorithm, one for several, and one for overrides");
    let mut skipped = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let scenario = Scenario::parse(&file.display().to_string(), &text).unwrap();
        assert!(!scenario.cases().is_empty());
        let report = run(scenario.cases(), subject).await;
        assert!(report.is_success(), "{}\n{report}", file.display());
        skipped += report.skipped().len();
    }
    skipped
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
    // A layer returns no receipts, so cases with corrections are skipped.
    let skipped = skipped_cases_of_the_corpus(&mut LayerSubject::new()).await;
    assert!(skipped > 0);
}

/// A late answer is not an error here.
const DEADLINE: Duration = Duration::from_secs(10);
