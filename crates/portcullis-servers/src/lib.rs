//! Real servers on free ports: single, in a cluster or with sentinels. They end with the test. A proxy injects faults of the
//! network. A [`Connection`] sends plain commands. [`within_a_minute`] limits how long a test waits.
//!
//! A method that returns [`io::Result`] fails if there is no `redis-server` on this machine, and if a server refuses, does not run, or takes
//! longer than half a minute. One that takes an index panics if there is no such server.
#![allow(clippy::missing_errors_doc, clippy::missing_panics_doc, reason = "they are alike: see above")]

mod certificate;
mod cluster;
mod connection;
mod fault_proxy;
mod ports;
mod process;
mod rights;
mod sentinels;
mod server;
mod setup;

use std::io;
use std::thread;
use std::time::{Duration, Instant};

pub use cluster::{Failover, RedisCluster, SlotMigration};
pub use connection::{Connection, Reply, encode_command};
pub use fault_proxy::{Fault, FaultProxy};
pub use rights::{
    CLUSTER_RIGHTS, DOCUMENT_RIGHTS, LEAST_RIGHTS, LEAST_RIGHTS_WITH_EVAL, SENTINEL_RIGHTS,
    SLIDING_LOG_RIGHTS,
};
pub use sentinels::RedisSentinels;
pub use server::RedisServer;
pub use setup::ServerSetup;

/// Waits for a result that a test needs to continue. Without a limit, a test that fails elsewhere would hang.
///
/// # Panics
///
/// If there is no result after a minute; the message contains `what`.
pub async fn within_a_minute<T>(what: &str, result: impl Future<Output = T>) -> T {
    let result = tokio::time::timeout(MINUTE, result).await;
    result.unwrap_or_else(|_| panic!("no {what} after a minute"))
}

/// Polls until `condition` returns true. `what` names it in the error.
fn wait_until(what: &str, mut condition: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let end = Instant::now() + TIMEOUT;
    while !condition()? {
        if Instant::now() > end {
            return Err(io::Error::other(format!("timed out after {TIMEOUT:?} waiting until {what}")));
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

const HOST: &str = "127.0.0.1";
/// Sized for a loaded machine. On an idle machine the slowest step takes two seconds.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const MINUTE: Duration = Duration::from_secs(60);
