//! Waiting for what is to come, with an end.

use std::time::{Duration, Instant};

use crate::connection::{Connection, Script};

use super::scripts::count;

/// Waits until something is so.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LONGEST, "it does not come to that");
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Counts until a count succeeds. Returns how long that took.
pub(super) async fn recovery(connection: &Connection, script: &Script, key: &str) -> Duration {
    let started = Instant::now();
    while let Err(error) = count(connection, script, key).await {
        assert!(started.elapsed() < LONGEST, "no recovery: {error}");
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    started.elapsed()
}

const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(20);
