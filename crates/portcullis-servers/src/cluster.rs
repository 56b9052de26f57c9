//! A cluster of servers.

mod migration;
mod start;
mod view;

use std::collections::BTreeSet;
use std::io;

use self::view::{Node, nodes_of};
use super::rights::{PASSWORD, USER};
use super::setup::ServerSetup;
use super::{RedisServer, wait_until};

pub use self::migration::SlotMigration;

/// A cluster on free ports of the loopback interface. Nodes are identified by their index: primaries first, then the replicas of
/// the first primary, of the second, and so on. A node keeps its index when it is promoted.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    setup: ServerSetup,
}

/// How a manual failover is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// Coordinated with the primary; no write is lost.
    Graceful,
    /// Without the primary, with the votes of the other primaries.
    Force,
    /// Without any vote.
    Takeover,
}

impl RedisCluster {
    /// Starts a cluster. This takes about two and a half seconds, because a node waits two seconds before it serves.
    pub fn start(primaries: usize, replicas_per_primary: usize) -> io::Result<Self> {
        ServerSetup::new().cluster(primaries, replicas_per_primary)
    }

    /// The URL, with all nodes, of a user with only the rights that a store needs.
    pub fn url(&self) -> String {
        self.url_as(&format!("{USER}:{PASSWORD}@"))
    }

    /// The URL, with all nodes, of the default user, which has all rights.
    pub fn admin_url(&self) -> String {
        self.url_as("")
    }

    fn url_as(&self, user: &str) -> String {
        let mut addresses = self.nodes.iter().map(RedisServer::address);
        let first = addresses.next().unwrap_or_default();
        let others: Vec<_> = addresses.map(|address| format!("node={address}")).collect();
        let scheme = self.nodes.first().map_or("redis", RedisServer::scheme);
        format!("{scheme}-cluster://{user}{first}?{}", others.join("&"))
    }

    /// The certificate of the authority to trust, in PEM, if the cluster uses TLS.
    pub fn root_certificate(&self) -> Option<&'static str> {
        self.nodes.first().and_then(RedisServer::root_certificate)
    }

    /// All nodes, running or not.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Kills a node with SIGKILL. After the [node timeout](ServerSetup::node_timeout) the other nodes mark it as failed, and one
    /// of its replicas takes over.
    pub fn kill(&mut self, index: usize) -> io::Result<()> {
        self.nodes[index].kill()
    }

    /// Starts a node again. It takes the role that the other nodes report.
    pub fn restart(&mut self, index: usize) -> io::Result<()> {
        self.nodes[index].restart()
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &str) -> io::Result<u16> {
        let reply = self.running()?.cli(&["CLUSTER", "KEYSLOT", key])?;
        reply.parse().map_err(|_| io::Error::other(format!("no slot: {reply}")))
    }

    /// The node that owns a slot, as the first running node reports it.
    pub fn primary_of(&self, slot: u16) -> io::Result<usize> {
        let nodes = nodes_of(self.running()?)?;
        let owner = nodes.iter().find(|node| node.slots.iter().any(|range| range.contains(&slot)));
        self.index(owner.ok_or_else(|| io::Error::other(format!("no node owns slot {slot}")))?)
    }

    /// A running replica of a node, as the first running node reports it.
    pub fn replica_of(&self, primary: usize) -> io::Result<usize> {
        let nodes = nodes_of(self.running()?)?;
        let port = self.nodes[primary].port();
        let id = nodes.iter().find(|node| node.port == port).map(|node| node.id.as_str());
        let replicas = nodes.iter().filter(|node| id.is_some() && node.primary.as_deref() == id);
        let mut indices = replicas.filter_map(|node| self.index(node).ok());
        let running = indices.find(|index| self.nodes[*index].is_running());
        running.ok_or_else(|| io::Error::other(format!("node {primary} has no running replica")))
    }

    /// Promotes a replica, and waits until it reports itself as primary; see also
    /// [`wait_until_ok`](RedisCluster::wait_until_ok).
    pub fn failover(&self, replica: usize, how: Failover) -> io::Result<()> {
        let words: &[&str] = match how {
            Failover::Graceful => &[],
            Failover::Force => &["FORCE"],
            Failover::Takeover => &["TAKEOVER"],
        };
        self.ok(replica, &[&["CLUSTER", "FAILOVER"], words].concat())?;
        wait_until(&format!("node {replica} takes over"), || {
            let node = &self.nodes[replica];
            let myself = nodes_of(node)?.into_iter().find(|seen| seen.port == node.port());
            Ok(myself.is_some_and(|myself| myself.primary.is_none() && !myself.slots.is_empty()))
        })
    }

    /// Adds a primary without slots, and returns its index.
    pub fn add_node(&mut self) -> io::Result<usize> {
        let mut node = self.unstarted_node()?;
        node.restart()?;
        let port = node.port().to_string();
        self.running()?.cli(&["CLUSTER", "MEET", super::HOST, &port])?;
        self.nodes.push(node);
        self.wait_until_all_known()?;
        let added = self.nodes.len() - 1;
        // It accepts no keys until its view of the cluster has been complete for two seconds.
        wait_until("a new node accepts keys", || self.nodes[added].reports_ok())?;
        Ok(added)
    }

    /// Moves a slot with its keys to another primary, up to 100 keys at a time.
    pub fn migrate_slot(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let migration = SlotMigration::begin(self, slot, from, to)?;
        while migration.move_keys(self, 100)? > 0 {}
        migration.finish(self)
    }

    /// Waits until every slot is served by a running node, all running nodes agree on the owners, and the running replicas are
    /// in sync.
    pub fn wait_until_ok(&self) -> io::Result<()> {
        wait_until("the cluster is complete", || self.is_ok())
    }

    fn is_ok(&self) -> io::Result<bool> {
        let running: Vec<_> = self.nodes.iter().filter(|node| node.is_running()).collect();
        let ports: BTreeSet<_> = running.iter().map(|node| node.port()).collect();
        let mut agreed: Option<Vec<Node>> = None;
        for node in running {
            if !node.reports_ok()? {
                return Ok(false);
            }
            let mut seen = nodes_of(node)?;
            seen.retain(|node| ports.contains(&node.port));
            let slots: usize = seen.iter().flat_map(|node| &node.slots).map(ExactSizeIterator::len).sum();
            let replicates = node.info("replication", "role:")? == "slave";
            if seen.len() != ports.len()
                || slots != SLOTS
                || seen.iter().any(|node| node.failed)
                || agreed.as_ref().is_some_and(|agreed| *agreed != seen)
                || (replicates && node.info("replication", "master_link_status:")? != "up")
            {
                return Ok(false);
            }
            agreed = Some(seen);
        }
        Ok(agreed.is_some())
    }

    fn running(&self) -> io::Result<&RedisServer> {
        let running = self.nodes.iter().find(|node| node.is_running());
        running.ok_or_else(|| io::Error::other("no node of the cluster is running"))
    }

    fn index(&self, node: &Node) -> io::Result<usize> {
        let index = self.nodes.iter().position(|server| server.port() == node.port);
        index.ok_or_else(|| io::Error::other(format!("no node has the port {}", node.port)))
    }

    /// Sends a command that must be answered with `OK`.
    fn ok(&self, index: usize, command: &[&str]) -> io::Result<()> {
        let reply = self.nodes[index].cli(command)?;
        if reply == "OK" {
            return Ok(());
        }
        Err(io::Error::other(format!("node {index} replied to {}: {reply}", command.join(" "))))
    }
}

const SLOTS: usize = 16_384;
