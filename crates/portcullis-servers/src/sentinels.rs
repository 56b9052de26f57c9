//! A primary with replicas, monitored by sentinels.

mod start;

use std::io;

use super::rights::{PASSWORD, USER};
use super::setup::ServerSetup;
use super::{RedisServer, wait_until};

/// A primary with replicas, and sentinels that replace it when it fails.
///
/// The sentinels themselves require no authentication, which is the default.
#[derive(Debug)]
pub struct RedisSentinels {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl RedisSentinels {
    /// Starts a primary with replicas, and sentinels that are configured with all of them.
    pub fn start(sentinels: usize, replicas: usize) -> io::Result<Self> {
        ServerSetup::new().sentinels(sentinels, replicas)
    }

    /// The URL, with all sentinels, of a user of the servers with only the rights that a store needs.
    pub fn url(&self) -> String {
        self.url_as(&format!("{USER}:{PASSWORD}@"))
    }

    /// The URL, with all sentinels, of the default user, which has all rights.
    pub fn admin_url(&self) -> String {
        self.url_as("")
    }

    fn url_as(&self, user: &str) -> String {
        let addresses: Vec<_> = self.sentinels.iter().map(RedisServer::address).collect();
        let (first, others) = addresses.split_first().expect("there is a sentinel");
        let others: Vec<_> = others.iter().map(|address| format!("&node={address}")).collect();
        let scheme = self.servers.first().map_or("redis", RedisServer::scheme);
        format!("{scheme}-sentinel://{user}{first}?sentinelServiceName={SERVICE}{}", others.concat())
    }

    /// The certificate of the authority to trust, in PEM, if they use TLS.
    pub fn root_certificate(&self) -> Option<&'static str> {
        self.servers.first().and_then(RedisServer::root_certificate)
    }

    /// The servers, running or not: the initial primary, then its replicas. A server keeps its index when it is promoted.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// Mutable access to a server, for example to kill or restart it.
    pub fn server_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.servers[index]
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The server that is the primary, as the first running sentinel reports it.
    pub fn primary(&self) -> io::Result<usize> {
        let sentinel = self.sentinels.iter().find(|sentinel| sentinel.is_running());
        self.primary_named_by(sentinel.ok_or_else(|| io::Error::other("no sentinel runs"))?)
    }

    /// A running server that is not the primary.
    pub fn replica(&self) -> io::Result<usize> {
        let primary = self.primary()?;
        let mut others = (0..self.servers.len()).filter(|index| *index != primary);
        let running = others.find(|index| self.servers[*index].is_running());
        running.ok_or_else(|| io::Error::other("no replica runs"))
    }

    /// Promotes a replica while the primary runs, and waits until that is done.
    pub fn failover(&self) -> io::Result<()> {
        let before = self.primary()?;
        let sentinel = self.sentinels.iter().find(|sentinel| sentinel.is_running());
        let sentinel = sentinel.ok_or_else(|| io::Error::other("no sentinel runs"))?;
        wait_until("another server is the primary", || {
            if self.primary_named_by(sentinel)? != before {
                return Ok(true);
            }
            // A sentinel refuses during a failover, and until it has recent information about a replica.
            sentinel.cli(&["SENTINEL", "FAILOVER", SERVICE])?;
            Ok(false)
        })?;
        self.wait_until_ok()
    }

    /// Kills the primary with SIGKILL, and returns its index. The sentinels promote a replica.
    pub fn kill_primary(&mut self) -> io::Result<usize> {
        let primary = self.primary()?;
        self.servers[primary].kill()?;
        Ok(primary)
    }

    /// Waits until all running sentinels agree on a running server that reports the role of primary.
    ///
    /// A former primary that still runs, or runs again, may also report that role: sentinels reconfigure it after about ten
    /// seconds, see [`wait_until_replicated`](RedisSentinels::wait_until_replicated).
    pub fn wait_until_ok(&self) -> io::Result<()> {
        wait_until("the sentinels agree", || self.is_ok())
    }

    /// Waits until every running sentinel reports all other running servers as replicas in sync with the primary, so that they
    /// can take over.
    pub fn wait_until_replicated(&self) -> io::Result<()> {
        let replicas = self.servers.iter().filter(|server| server.is_running()).count().saturating_sub(1);
        wait_until("the replicas are in sync", || {
            for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.is_running()) {
                let known = sentinel.cli(&["SENTINEL", "REPLICAS", SERVICE])?;
                if known.lines().filter(|line| *line == "ok").count() < replicas {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn is_ok(&self) -> io::Result<bool> {
        let primary = self.primary()?;
        let server = &self.servers[primary];
        if !server.is_running() || server.info("replication", "role:")? != "master" {
            return Ok(false);
        }
        for sentinel in self.sentinels.iter().filter(|sentinel| sentinel.is_running()) {
            let has_quorum = sentinel.cli(&["SENTINEL", "CKQUORUM", SERVICE])?.starts_with("OK");
            if self.primary_named_by(sentinel)? != primary || !has_quorum {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn primary_named_by(&self, sentinel: &RedisServer) -> io::Result<usize> {
        let reply = sentinel.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE])?;
        let port = reply.lines().nth(1).and_then(|port| port.parse().ok());
        let index = self.servers.iter().position(|server| Some(server.port()) == port);
        index.ok_or_else(|| io::Error::other(format!("a sentinel named an unknown server: {reply}")))
    }
}

/// The service name of the primary at the sentinels.
const SERVICE: &str = "main";

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn sentinels_start_and_fail_over() {
        let start = Instant::now();
        let group = RedisSentinels::start(3, 1).unwrap();
        println!("started in {:?}", start.elapsed());
        assert_eq!((group.primary().unwrap(), group.replica().unwrap()), (0, 1));
        assert_eq!(group.url().matches("127.0.0.1").count(), 3);
        let start = Instant::now();
        group.failover().unwrap();
        println!("failed over in {:?}", start.elapsed());
        assert_eq!((group.primary().unwrap(), group.replica().unwrap()), (1, 0));
    }

    #[test]
    fn a_killed_primary_is_replaced() {
        let mut group = RedisSentinels::start(3, 1).unwrap();
        let start = Instant::now();
        assert_eq!(group.kill_primary().unwrap(), 0);
        group.wait_until_ok().unwrap();
        println!("replaced in {:?}", start.elapsed());
        assert_eq!(group.primary().unwrap(), 1);
        assert!(group.replica().is_err());
        group.server_mut(0).restart().unwrap();
        assert_eq!(group.replica().unwrap(), 0);
    }
}
