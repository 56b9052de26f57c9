//! Random timelines: a real Redis agrees with the memory store in every field of every answer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;
use std::time::Duration;

use portcullis_memory::MemoryStore;
use portcullis_redis::RedisStore;
use portcullis_testing::timeline::{AlgorithmKind, Profile, compare, explore, seed};
use portcullis_testing::{ManualClock, OverStore, RedisServer};
use tokio::runtime::Runtime;

/// At least 100 000 steps, in timelines of about 230.
const TIMELINES: u32 = 450;

fn redis_decides_like_memory(profile: Profile, timelines: u32) {
    let runtime = Runtime::new().unwrap();
    let server = RedisServer::start().unwrap();
    let clock = ManualClock::default();
    let redis = RedisStore::builder(server.url()).deadline(PATIENCE).scenario_clock(clock.clone()).connect();
    let mut redis = OverStore::new(Arc::new(runtime.block_on(redis).unwrap()), clock);
    let clock = ManualClock::default();
    let memory = MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build();
    let mut memory = OverStore::new(Arc::new(memory), clock);
    let seed = seed();
    println!("seed {seed}");
    let mix = explore(profile, timelines, seed, |timeline| {
        runtime.block_on(compare(&mut memory, &mut redis, timeline))
    });
    println!("{}", mix.unwrap());
}

#[test]
fn under_gcra() {
    redis_decides_like_memory(Profile::everything().only(AlgorithmKind::Gcra), TIMELINES);
}

#[test]
fn under_fixed_windows() {
    redis_decides_like_memory(Profile::everything().only(AlgorithmKind::FixedWindow), TIMELINES);
}

#[test]
fn under_several_algorithms_together() {
    redis_decides_like_memory(Profile::everything(), TIMELINES / 3);
}

/// What is late here is not wrong.
const PATIENCE: Duration = Duration::from_secs(10);
