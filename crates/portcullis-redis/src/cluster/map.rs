//! The map of slots, from `CLUSTER SLOTS`.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::node::Node;
use super::{MAX_NODES, TOO_MANY_NODES};
use crate::protocol::node_addr::NodeAddr;
use crate::protocol::value::Value;

/// Which primary serves which slots, without links.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Map {
    pub(crate) addrs: Vec<NodeAddr>,
    /// The index of each slot's primary, or [`UNASSIGNED`].
    pub(crate) slots: Box<[u16]>,
}

/// Like [`Map`], but with links.
#[derive(Debug)]
pub(crate) struct View {
    nodes: Vec<Arc<Node>>,
    slots: Box<[u16]>,
    /// Since when some slots have had no node.
    unserved_since: Option<Instant>,
}

impl Map {
    /// Parses a reply; `replying_host` is the host of the node that sent it.
    pub(crate) fn parse(reply: Value, replying_host: &str) -> Result<Self, String> {
        let mut map = Self { addrs: Vec::new(), slots: vec![UNASSIGNED; SLOTS].into() };
        for range in reply.into_items().ok_or("CLUSTER SLOTS gave no list")? {
            let odd = || "CLUSTER SLOTS gave a range that cannot be read".to_owned();
            let mut parts = range.into_items().ok_or_else(odd)?.into_iter();
            let mut bound = || parts.next().and_then(|bound| usize::try_from(bound.as_integer()?).ok());
            let (first, last) = (bound().ok_or_else(odd)?, bound().ok_or_else(odd)?);
            let primary = parts.next().ok_or_else(odd)?;
            let Some(addr) = node_addr(primary, replying_host)? else { continue };
            let index = map.index(addr)?;
            map.slots.get_mut(first..=last).ok_or_else(odd)?.fill(index);
        }
        if map.addrs.is_empty() { Err("no node of the cluster serves any slot".to_owned()) } else { Ok(map) }
    }

    fn index(&mut self, addr: NodeAddr) -> Result<u16, String> {
        let index = self.addrs.iter().rposition(|known| *known == addr).unwrap_or_else(|| {
            self.addrs.push(addr);
            self.addrs.len() - 1
        });
        let index = u16::try_from(index).ok().filter(|index| usize::from(*index) < MAX_NODES);
        index.ok_or_else(|| TOO_MANY_NODES.to_owned())
    }
}

impl View {
    pub(crate) fn empty() -> Self {
        Self { nodes: Vec::new(), slots: Box::default(), unserved_since: Some(Instant::now()) }
    }

    /// The view that replaces `self`; `nodes` are those of the map's addresses, in order.
    pub(crate) fn next(&self, map: Map, nodes: Vec<Arc<Node>>) -> Self {
        let lacks = map.slots.contains(&UNASSIGNED);
        let unserved_since = lacks.then(|| self.unserved_since.unwrap_or_else(Instant::now));
        Self { nodes, slots: map.slots, unserved_since }
    }

    /// For how long some slots have had no node.
    pub(crate) fn unserved_for(&self) -> Option<Duration> {
        self.unserved_since.map(|since| since.elapsed())
    }

    pub(crate) fn node(&self, slot: u16) -> Option<&Arc<Node>> {
        self.nodes.get(usize::from(*self.slots.get(usize::from(slot))?))
    }

    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// Whether some slots have no node, or one that rejects calls or has answered none since it failed.
    pub(crate) fn is_partly_down(&self) -> bool {
        let is_down = |node: &Arc<Node>| {
            let availability = node.availability();
            availability.rejects() || availability.outage.is_some()
        };
        self.unserved_since.is_some() || self.nodes.iter().any(is_down)
    }
}

/// Parses a node: its host, its port, its id, and from Redis 7 on names and values. Returns `None` if there is no host for it.
fn node_addr(node: Value, replying_host: &str) -> Result<Option<NodeAddr>, String> {
    let odd = || "CLUSTER SLOTS gave a node that cannot be read".to_owned();
    let mut parts = node.into_items().ok_or_else(odd)?.into_iter();
    let host = parts.next().ok_or_else(odd)?;
    let port = parts.next().and_then(|port| u16::try_from(port.as_integer()?).ok()).ok_or_else(odd)?;
    let more = parts.nth(1);
    let known = |name: &str| match &more {
        Some(Value::List(more)) => {
            let mut pairs = more.chunks_exact(2);
            pairs.find(|pair| pair[0].as_str() == Some(name)).and_then(|pair| pair[1].as_str())
        }
        _ => None,
    };
    let host = match host.as_str() {
        None | Some("") => replying_host,
        // The preferred endpoint is a hostname, and the node has none.
        Some("?") => match known("ip") {
            Some(ip) => ip,
            None => return Ok(None),
        },
        Some(host) => host,
    };
    let name = known("hostname").filter(|name| !name.is_empty() && *name != host);
    Ok(Some(NodeAddr { host: host.to_owned(), port, name: name.map(str::to_owned) }))
}

const SLOTS: usize = 16_384;
const UNASSIGNED: u16 = u16::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: Vec<Value>) -> Value {
        Value::List(items)
    }

    fn range(first: i64, last: i64, node: Vec<Value>) -> Value {
        list(vec![first.into(), last.into(), list(node)])
    }

    fn node(host: Value, port: i64) -> Vec<Value> {
        vec![host, port.into(), "id".into()]
    }

    #[test]
    fn reads_ranges_and_unassigned_slots() {
        let reply = list(vec![
            range(0, 99, node("10.0.0.1".into(), 6379)),
            range(200, 16_383, node("10.0.0.2".into(), 6379)),
            range(100, 100, node("10.0.0.1".into(), 6379)),
        ]);
        let map = Map::parse(reply, "asked").unwrap();
        assert_eq!(map.addrs.len(), 2);
        let owners = [0, 99, 100, 101, 199, 200, 16_383].map(|slot: usize| map.slots[slot]);
        assert_eq!(owners, [0, 0, 0, UNASSIGNED, UNASSIGNED, 1, 1]);
    }

    #[test]
    fn missing_host_is_the_replying_node() {
        let mut named = node("10.0.0.3".into(), 3);
        named.push(list(vec!["hostname".into(), "three.example.org".into()]));
        let mut nameless = node("?".into(), 4);
        nameless.push(list(vec!["ip".into(), "10.0.0.4".into()]));
        let nodes = [
            node("".into(), 1),
            node(Value::Null, 2),
            named,
            nameless,
            // No host is known for this node.
            node("?".into(), 5),
        ];
        let ranges = (0..).zip(nodes).map(|(slot, node)| range(slot, slot, node)).collect();
        let map = Map::parse(list(ranges), "asked").unwrap();
        let addrs: Vec<_> = map.addrs.iter().map(|addr| (addr.to_string(), addr.name.clone())).collect();
        let plain = |addr: &str| (addr.to_owned(), None);
        let named = ("10.0.0.3:3".to_owned(), Some("three.example.org".to_owned()));
        assert_eq!(addrs, [plain("asked:1"), plain("asked:2"), named, plain("10.0.0.4:4")]);
    }

    #[test]
    fn invalid_replies_and_too_many_nodes_are_errors() {
        let one = || node("h".into(), 1);
        for reply in [
            Value::Null,
            list(vec![]),
            list(vec![Value::Integer(1)]),
            list(vec![range(0, 16_384, one())]),
            list(vec![range(9, 1, one())]),
            list(vec![range(-1, 1, one())]),
            list(vec![range(0, 1, vec!["h".into(), Value::Integer(70_000)])]),
            list((0..1_001).map(|n| range(n, n, node("h".into(), n + 1))).collect()),
        ] {
            let shown = format!("{reply:?}").chars().take(60).collect::<String>();
            assert!(Map::parse(reply, "asked").is_err(), "{shown}");
        }
    }
}
