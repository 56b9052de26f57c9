//! The redirections by which a node names another.

use crate::protocol::node_addr::NodeAddr;

/// A node's reply if it does not have the keys itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Redirection {
    /// The slot belongs to another node.
    Moved(NodeAddr),
    /// The keys have migrated to another node, which accepts calls for them only after `ASKING`.
    Ask(NodeAddr),
}

impl Redirection {
    /// Parses `MOVED <slot> <host>:<port>` and `ASK ..`. An omitted host is that of the node that replied.
    pub(crate) fn parse(reply: &str, replying_host: &str) -> Option<Self> {
        let mut words = reply.split(' ');
        let (kind, _, addr) = (words.next()?, words.next()?, words.next()?);
        let (host, port) = addr.rsplit_once(':')?;
        let host = match host.trim_start_matches('[').trim_end_matches(']') {
            "" | "?" => replying_host,
            host => host,
        };
        let addr = NodeAddr { host: host.to_owned(), port: port.parse().ok()?, name: None };
        match kind {
            "MOVED" => Some(Self::Moved(addr)),
            "ASK" => Some(Self::Ask(addr)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(host: &str, port: u16) -> NodeAddr {
        NodeAddr { host: host.into(), port, name: None }
    }

    #[test]
    fn reads_redirections() {
        for (reply, expected) in [
            ("MOVED 3999 127.0.0.1:6381", Some(Redirection::Moved(addr("127.0.0.1", 6381)))),
            ("ASK 3999 node-1.example.org:6381", Some(Redirection::Ask(addr("node-1.example.org", 6381)))),
            ("MOVED 3999 :6380", Some(Redirection::Moved(addr("asked", 6380)))),
            ("MOVED 3999 fe80::1:6380", Some(Redirection::Moved(addr("fe80::1", 6380)))),
            ("MOVED 3999 127.0.0.1:99999", None),
            ("MOVED", None),
            ("TRYAGAIN Multiple keys request during rehashing of slot", None),
        ] {
            assert_eq!(Redirection::parse(reply, "asked"), expected, "{reply}");
        }
    }
}
