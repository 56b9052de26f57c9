//! Random timelines: a real Redis agrees with the memory store in every field of every answer.

use std::sync::Arc;

use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_testing::timeline::{self, Profile, agree};
use portcullis_testing::{ManualClock, StoreSubject, under_every_algorithm};
use tokio::runtime::Runtime;

use crate::support::patient;

fn redis_decides_like_memory(profile: Profile) {
    let runtime = Runtime::new().unwrap();
    let server = RedisServer::start().unwrap();
    let clock = ManualClock::default();
    let redis = patient(&server).scenario_clock(clock.clone()).connect();
    let mut redis = StoreSubject::new(Arc::new(runtime.block_on(redis).unwrap()), clock);
    let clock = ManualClock::default();
    // Each length of a window is a policy of its own, and each timeline begins at the epoch, so that none is forgotten.
    let memory = MemoryStore::builder().capacity(10_000).total_capacity(usize::MAX).total_bytes(usize::MAX);
    let memory = memory.clock(clock.clone()).swept_per_check(0).build();
    let mut memory = StoreSubject::new(Arc::new(memory), clock);
    let mix =
        agree(profile, steps(), &mut memory, &mut redis, |comparison| runtime.block_on(comparison)).unwrap();
    mix.assert_corrections(steps());
}

/// The steps of a test: by default half of those in memory, because each is a call to a server; all of them with
/// `cargo xtask test --all`.
fn steps() -> u64 {
    let all = timeline::steps();
    if all < 100_000 { all / 2 } else { all }
}

under_every_algorithm!(redis_decides_like_memory);
