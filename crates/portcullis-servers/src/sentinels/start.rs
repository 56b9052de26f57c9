//! Forms a group of servers and sentinels.

use std::fmt::Write as _;
use std::io;

use super::{RedisSentinels, SERVICE};
use crate::rights::SENTINEL_RIGHTS;
use crate::{HOST, RedisServer, ServerSetup};

impl ServerSetup {
    /// Starts a primary with replicas, and sentinels that monitor it.
    pub fn sentinels(self, sentinels: usize, replicas: usize) -> io::Result<RedisSentinels> {
        if sentinels == 0 {
            return Err(io::Error::other("at least one sentinel is needed"));
        }
        let mut group = RedisSentinels { servers: Vec::new(), sentinels: Vec::new() };
        for _ in 0..=replicas {
            let mut options = vec!["--repl-diskless-sync-delay".to_owned(), "0".to_owned()];
            if let Some(primary) = group.servers.first() {
                options.extend(["--replicaof".to_owned(), HOST.to_owned(), primary.port().to_string()]);
            }
            let mut server = RedisServer::new(self.clone(), options, &SENTINEL_RIGHTS)?;
            server.launch()?;
            group.servers.push(server);
        }
        group.servers.iter_mut().try_for_each(RedisServer::wait_until_ready)?;
        // The configuration of each names the ports of the others.
        for _ in 0..sentinels {
            group.sentinels.push(RedisServer::sentinel(&self)?);
        }
        for index in 0..sentinels {
            let lines = group.configuration(index);
            group.sentinels[index].configure(&lines)?;
            group.sentinels[index].launch()?;
        }
        group.sentinels.iter_mut().try_for_each(RedisServer::wait_until_ready)?;
        group.wait_until_ok()?;
        group.wait_until_replicated()?;
        Ok(group)
    }
}

impl RedisSentinels {
    /// The state that a sentinel would otherwise discover within ten seconds.
    fn configuration(&self, index: usize) -> String {
        let quorum = self.sentinels.len() / 2 + 1;
        let primary = self.servers[0].port();
        let mut lines = format!(
            "sentinel myid {}\nsentinel monitor {SERVICE} {HOST} {primary} {quorum}\n\
             sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}\n\
             sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}\n",
            id(index)
        );
        for replica in &self.servers[1..] {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "sentinel known-replica {SERVICE} {HOST} {}", replica.port());
        }
        for (other, sentinel) in self.sentinels.iter().enumerate().filter(|(other, _)| *other != index) {
            let _ =
                writeln!(lines, "sentinel known-sentinel {SERVICE} {HOST} {} {}", sentinel.port(), id(other));
        }
        lines
    }
}

fn id(index: usize) -> String {
    format!("{:040x}", index + 1)
}

/// The time without an answer after which a sentinel considers a server down.
const DOWN_AFTER_MS: u32 = 500;
const FAILOVER_TIMEOUT_MS: u32 = 2_000;
