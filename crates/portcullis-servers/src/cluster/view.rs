//! A node's view of the cluster.

use std::io;
use std::ops::RangeInclusive;

use crate::RedisServer;

/// A line of `CLUSTER NODES`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) port: u16,
    pub(super) id: String,
    /// Whether it is marked as failed or possibly failed, is in its handshake, or has no address.
    pub(super) failed: bool,
    /// The id of its primary, if it is a replica.
    pub(super) primary: Option<String>,
    /// The number of its last claim to slots. While nodes see different ones, a migration could make a claim that is already taken, and
    /// the nodes would never agree.
    pub(super) epoch: u64,
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

/// Queries a node, and sorts by port so that answers can be compared.
pub(super) fn nodes_of(server: &RedisServer) -> io::Result<Vec<Node>> {
    let mut nodes: Vec<_> = server.cli(&["CLUSTER", "NODES"])?.lines().filter_map(Node::parse).collect();
    nodes.sort_by_key(|node| node.port);
    Ok(nodes)
}

impl RedisServer {
    /// Whether this node reports `cluster_state:ok`.
    pub(super) fn reports_ok(&self) -> io::Result<bool> {
        Ok(self.cli(&["CLUSTER", "INFO"])?.contains("cluster_state:ok"))
    }
}

impl Node {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut next = || words.next();
        let (id, address, flags, primary) = (next()?, next()?, next()?, next()?);
        let port = address.split('@').next()?.rsplit(':').next()?.parse().ok()?;
        // Behind the instants of the last ping and pong.
        let epoch = words.nth(2)?.parse().ok()?;
        let failed = ["fail", "fail?", "handshake", "noaddr"];
        let slot = |word: &str| -> Option<RangeInclusive<u16>> {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            Some(first.parse().ok()?..=last.parse().ok()?)
        };
        Some(Self {
            port,
            id: id.to_owned(),
            failed: flags.split(',').any(|flag| failed.contains(&flag)),
            primary: (primary != "-").then(|| primary.to_owned()),
            epoch,
            // The state of the link, then the slots; migrating slots are in brackets.
            slots: words.skip(1).filter_map(slot).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_nodes_lines_are_parsed() {
        let line = "07c3 127.0.0.1:11001@21001,,shard-id=9f master,fail? - 0 1 2 connected 0-9 12 [5->-3a]";
        let node = Node::parse(line).unwrap();
        assert_eq!((node.port, node.id.as_str(), node.failed, node.primary), (11_001, "07c3", true, None));
        assert_eq!((node.epoch, node.slots.as_slice()), (2, &[0..=9, 12..=12][..]));
        let replica = Node::parse("9a 127.0.0.1:1@2 myself,slave 07c3 0 1 2 connected").unwrap();
        assert_eq!((replica.failed, replica.primary.as_deref()), (false, Some("07c3")));
        assert!(replica.slots.is_empty());
        assert_eq!(Node::parse("ERR This instance has cluster support disabled"), None);
    }
}
