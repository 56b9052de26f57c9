//! What random timelines have in common.

use std::time::Duration;

use portcullis_core::{Key, Secret};

/// Generous: a slow machine must not fail a test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// Returns a function that returns random numbers below its argument, the same ones for the same seed.
pub(crate) fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    }
}

/// The key of a user.
pub(crate) fn key(user: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", user.as_bytes());
    hasher.finish().unwrap()
}
