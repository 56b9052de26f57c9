//! Waiting for a condition, with a timeout.

use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::protocol::script::Script;
use crate::transport::Options;

use super::scripts::count;

/// Options with which calls fail by what a server does, and never because the machine is busy.
pub(crate) fn patient() -> Options {
    Options::default().deadline(Duration::from_secs(5)).connect_wait(LONGEST)
}

/// Waits until a condition holds.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < LONGEST, "the condition does not hold in time");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Calls until a call succeeds. Returns how long that took.
pub(crate) async fn recovery(connection: &Connection, script: &Script, key: &str) -> Duration {
    let started = Instant::now();
    while let Err(error) = count(connection, script, key).await {
        assert!(started.elapsed() < LONGEST, "no recovery: {error}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    started.elapsed()
}

const POLL_INTERVAL: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(20);
