//! A cluster of servers.

mod form;
mod migration;
mod view;

use std::collections::BTreeSet;
use std::io;

use self::view::{Node, nodes_of};
use super::rights::{PASSWORD, USER};
use super::setup::ServerSetup;
use super::{RedisServer, wait_until};

pub use self::migration::SlotMigration;

/// A cluster on free ports of the loopback. Nodes are told by their index: primaries first, then the replicas of the
/// first primary, of the second, and so on; a node keeps its index when it is promoted.
///
/// ```no_run
/// use portcullis_testing::{Failover, RedisCluster};
///
/// # fn main() -> std::io::Result<()> {
/// let mut cluster = RedisCluster::start(3, 1)?;
/// let primary = cluster.primary_of(0)?;
/// let replica = cluster.replica_of(primary)?;
/// cluster.kill(primary)?;
/// cluster.failover(replica, Failover::Force)?;
/// cluster.wait_until_ok()?;
/// assert_eq!(cluster.primary_of(0)?, replica);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
    setup: ServerSetup,
}

/// How a replica takes over by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// The primary hands over, and nothing is lost.
    Graceful,
    /// Without the primary, with the votes of the others.
    Force,
    /// Without asking anybody.
    Takeover,
}

impl RedisCluster {
    /// Starts a cluster in about two and a half seconds, two of which each node insists on.
    ///
    /// # Errors
    ///
    /// If there is no `redis-server` on this machine, or the nodes do not agree within half a minute.
    pub fn start(primaries: usize, replicas_per_primary: usize) -> io::Result<Self> {
        ServerSetup::new().cluster(primaries, replicas_per_primary)
    }

    /// The URL, with all nodes, of a user who may do no more than a store needs.
    pub fn url(&self) -> String {
        self.url_as(&format!("{USER}:{PASSWORD}@"))
    }

    /// The URL, with all nodes, of the default user, who may do everything.
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

    /// The certificate of the authority to trust, in PEM, if the cluster speaks TLS.
    pub fn root_certificate(&self) -> Option<&'static str> {
        self.nodes.first().and_then(RedisServer::root_certificate)
    }

    /// All nodes, whether they run or not.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// A node, to kill it, to change its environment, and so on.
    ///
    /// # Panics
    ///
    /// If there is none with this index.
    pub fn node_mut(&mut self, index: usize) -> &mut RedisServer {
        &mut self.nodes[index]
    }

    /// Kills a node as a crash would. The others find out after the
    /// [node timeout](ServerSetup::node_timeout); then one of its replicas takes over by itself.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::kill`].
    ///
    /// # Panics
    ///
    /// If there is no node with this index.
    pub fn kill(&mut self, index: usize) -> io::Result<()> {
        self.nodes[index].kill()
    }

    /// Starts a node again, which is then what the others say it is.
    ///
    /// # Errors
    ///
    /// As [`RedisServer::restart`].
    ///
    /// # Panics
    ///
    /// If there is no node with this index.
    pub fn restart(&mut self, index: usize) -> io::Result<()> {
        self.nodes[index].restart()
    }

    /// The slot of a key.
    ///
    /// # Errors
    ///
    /// If no node runs.
    pub fn slot_of(&self, key: &str) -> io::Result<u16> {
        let reply = self.running()?.cli(&["CLUSTER", "KEYSLOT", key])?;
        reply.parse().map_err(|_| io::Error::other(format!("no slot: {reply}")))
    }

    /// Which node owns a slot, says the first that runs.
    ///
    /// # Errors
    ///
    /// If no node runs, or none owns the slot.
    pub fn primary_of(&self, slot: u16) -> io::Result<usize> {
        let nodes = nodes_of(self.running()?)?;
        let owner = nodes.iter().find(|node| node.slots.iter().any(|range| range.contains(&slot)));
        self.index(owner.ok_or_else(|| io::Error::other(format!("nobody owns the slot {slot}")))?)
    }

    /// A running replica of a node, says the first node that runs.
    ///
    /// # Errors
    ///
    /// If no node runs, or the node has no running replica.
    pub fn replica_of(&self, primary: usize) -> io::Result<usize> {
        let nodes = nodes_of(self.running()?)?;
        let port = self.nodes[primary].port();
        let id = nodes.iter().find(|node| node.port == port).map(|node| node.id.as_str());
        let replicas = nodes.iter().filter(|node| id.is_some() && node.primary.as_deref() == id);
        let mut indices = replicas.filter_map(|node| self.index(node).ok());
        let running = indices.find(|index| self.nodes[*index].is_running());
        running.ok_or_else(|| io::Error::other(format!("node {primary} has no running replica")))
    }

    /// Lets a replica take over, and waits until it says that it has; see also
    /// [`wait_until_ok`](RedisCluster::wait_until_ok).
    ///
    /// # Errors
    ///
    /// If the node is no replica, or does not take over in time.
    ///
    /// # Panics
    ///
    /// If there is no node with this index.
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
    ///
    /// # Errors
    ///
    /// If it does not start, or the others do not get to know it in time.
    pub fn add_node(&mut self) -> io::Result<usize> {
        let mut node = self.unstarted_node()?;
        node.restart()?;
        let port = node.port().to_string();
        self.running()?.cli(&["CLUSTER", "MEET", super::HOST, &port])?;
        self.nodes.push(node);
        self.wait_until_all_meet()?;
        let added = self.nodes.len() - 1;
        // It takes no keys before it has seen the cluster whole for two seconds.
        wait_until("a new node takes part", || self.nodes[added].says_ok())?;
        Ok(added)
    }

    /// Moves a slot with its keys to another primary, one key after another.
    ///
    /// # Errors
    ///
    /// If a step fails; see [`SlotMigration`].
    pub fn migrate_slot(&self, slot: u16, from: usize, to: usize) -> io::Result<()> {
        let migration = SlotMigration::begin(self, slot, from, to)?;
        while migration.move_keys(self, 100)? > 0 {}
        migration.finish(self)
    }

    /// Waits until every slot is served by a node that runs, all that run agree on who has which, and the replicas among
    /// them are in step.
    ///
    /// # Errors
    ///
    /// If that takes more than half a minute.
    pub fn wait_until_ok(&self) -> io::Result<()> {
        wait_until("the cluster is whole", || self.is_ok())
    }

    fn is_ok(&self) -> io::Result<bool> {
        let running: Vec<_> = self.nodes.iter().filter(|node| node.is_running()).collect();
        let ports: BTreeSet<_> = running.iter().map(|node| node.port()).collect();
        let mut agreed: Option<Vec<Node>> = None;
        for node in running {
            if !node.says_ok()? {
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
        running.ok_or_else(|| io::Error::other("no node of the cluster runs"))
    }

    fn index(&self, node: &Node) -> io::Result<usize> {
        let index = self.nodes.iter().position(|server| server.port() == node.port);
        index.ok_or_else(|| io::Error::other(format!("no node has the port {}", node.port)))
    }

    /// Sends a command that is answered by OK.
    fn ok(&self, index: usize, command: &[&str]) -> io::Result<()> {
        let reply = self.nodes[index].cli(command)?;
        if reply == "OK" {
            return Ok(());
        }
        Err(io::Error::other(format!("node {index} replied to {}: {reply}", command.join(" "))))
    }
}

const SLOTS: usize = 16_384;
