//! Random timelines: the memory store and the pure algorithm agree in every field of every answer.

use std::sync::Arc;

use portcullis_memory::MemoryStore;
use portcullis_testing::timeline::{Profile, agree, steps};
use portcullis_testing::{ManualClock, Pure, StoreSubject, under_every_algorithm};
use tokio::runtime::Builder;

fn the_store_decides_like_the_algorithm(profile: Profile) {
    let runtime = Builder::new_current_thread().build().unwrap();
    let clock = ManualClock::default();
    // Each length of a window is a policy of its own, and each timeline begins at the epoch, so that none is forgotten.
    let store = MemoryStore::builder().capacity(10_000).total_capacity(usize::MAX).total_bytes(usize::MAX);
    let store = store.clock(clock.clone()).swept_per_check(0).build();
    let (mut pure, mut store) = (Pure::new(), StoreSubject::new(Arc::new(store), clock));
    let mix =
        agree(profile, steps(), &mut pure, &mut store, |comparison| runtime.block_on(comparison)).unwrap();
    mix.assert_corrections(steps());
}

under_every_algorithm!(the_store_decides_like_the_algorithm);
