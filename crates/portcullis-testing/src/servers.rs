//! Real servers on free ports, single, in a cluster or behind sentinels, which end with the test.

mod certificate;
mod cluster;
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
pub use rights::{CLUSTER_RIGHTS, LEAST_RIGHTS, SENTINEL_RIGHTS, SLIDING_LOG_RIGHTS};
pub use sentinels::RedisSentinels;
pub use server::RedisServer;
pub use setup::ServerSetup;

/// Asks again and again until the answer is yes.
fn wait_until(what: &str, mut ask: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let end = Instant::now() + LONGEST_WAIT;
    while !ask()? {
        if Instant::now() > end {
            return Err(io::Error::other(format!("{what}: not within {LONGEST_WAIT:?}")));
        }
        thread::sleep(BETWEEN_QUESTIONS);
    }
    Ok(())
}

const HOST: &str = "127.0.0.1";
/// Of a loaded machine; an idle one takes two seconds for the slowest step.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(20);
