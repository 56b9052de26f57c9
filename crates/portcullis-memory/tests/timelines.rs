//! Random timelines: the memory store agrees with the algorithm alone in every field of every answer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use portcullis_memory::MemoryStore;
use portcullis_testing::timeline::{AlgorithmKind, Profile, compare, explore, seed};
use portcullis_testing::{ManualClock, OverStore, Pure};
use tokio::runtime::Builder;

/// At least 100 000 steps, in timelines of about 230.
const TIMELINES: u32 = 450;

fn the_store_decides_like_the_algorithm(profile: Profile) {
    let runtime = Builder::new_current_thread().build().unwrap();
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build();
    let (mut pure, mut store) = (Pure::new(), OverStore::new(Arc::new(store), clock));
    let seed = seed();
    println!("seed {seed}");
    let mix = explore(profile, TIMELINES, seed, |timeline| {
        runtime.block_on(compare(&mut pure, &mut store, timeline))
    });
    println!("{}", mix.unwrap());
}

#[test]
fn under_gcra() {
    the_store_decides_like_the_algorithm(Profile::everything().only(AlgorithmKind::Gcra));
}

#[test]
fn under_fixed_windows() {
    the_store_decides_like_the_algorithm(Profile::everything().only(AlgorithmKind::FixedWindow));
}

#[test]
fn under_several_algorithms_together() {
    the_store_decides_like_the_algorithm(Profile::everything());
}
