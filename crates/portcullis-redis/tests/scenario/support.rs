//! What random timelines have in common.

use std::time::Duration;

use portcullis_core::{Key, Secret};
use portcullis_redis::{RedisStore, RedisStoreBuilder};
use portcullis_servers::RedisServer;

/// Generous: a slow machine must not fail a test.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);

/// A store that waits for its connection and for each reply.
pub(crate) fn patient(server: &RedisServer) -> RedisStoreBuilder {
    RedisStore::builder(server.url()).deadline(DEADLINE).connect_wait(DEADLINE)
}

/// The key of a user.
pub(crate) fn key(user: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", user.as_bytes());
    hasher.finish().unwrap()
}
