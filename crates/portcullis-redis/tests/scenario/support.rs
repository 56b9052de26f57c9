//! What random timelines have in common.

use std::time::Duration;

use portcullis_core::{Key, Secret};

/// Generous: a slow machine must not fail a test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// The key of a user.
pub(crate) fn key(user: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", user.as_bytes());
    hasher.finish().unwrap()
}
