//! Random timelines: the algorithm alone, the memory store and a real Redis agree in every field of every answer.

use std::sync::Arc;

use portcullis_memory::MemoryStore;
use portcullis_redis::RedisStore;
use portcullis_testing::timeline::{AlgorithmKind, Mix, Profile, compare, explore, seed};
use portcullis_testing::{ManualClock, OverStore, Pure, RedisServer, Subject};
use tokio::runtime::Runtime;

fn memory() -> OverStore {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build();
    OverStore::new(Arc::new(store), clock)
}

/// Drives both subjects along timelines of an algorithm of about 230 steps each, at least `steps` in all.
fn agree(
    steps: u32,
    algorithm: AlgorithmKind,
    one: &mut dyn Subject,
    other: &mut dyn Subject,
    runtime: &Runtime,
) {
    let seed = seed();
    println!("seed {seed}");
    let profile = Profile::everything().only(algorithm);
    let found: Result<Mix, _> =
        explore(profile, steps / 220, seed, |timeline| runtime.block_on(compare(one, other, timeline)));
    let mix = found.unwrap_or_else(|finding| panic!("{finding}"));
    println!("{mix}");
    assert!(mix.steps >= u64::from(steps), "{mix}");
}

#[test]
fn the_memory_store_decides_like_the_algorithm() {
    let runtime = Runtime::new().unwrap();
    for algorithm in [AlgorithmKind::Gcra, AlgorithmKind::FixedWindow] {
        agree(100_000, algorithm, &mut Pure::new(), &mut memory(), &runtime);
    }
}

#[test]
fn redis_decides_like_the_memory_store() {
    let runtime = Runtime::new().unwrap();
    let redis = RedisServer::start().unwrap();
    let clock = ManualClock::default();
    let connect = RedisStore::builder(redis.url()).scenario_clock(clock.clone()).connect();
    let mut store = OverStore::new(Arc::new(runtime.block_on(connect).unwrap()), clock);
    for algorithm in [AlgorithmKind::Gcra, AlgorithmKind::FixedWindow] {
        agree(100_000, algorithm, &mut memory(), &mut store, &runtime);
    }
}
