//! The addresses of nodes, and the redirections that contain them.

use std::fmt;
use std::hash::{Hash, Hasher};

use fred::types::config::Server;

/// The address of a node. The certificate's name is not part of its identity.
#[derive(Clone, Debug)]
pub(crate) struct NodeAddr {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The expected name in its certificate, if it is not the host.
    pub(crate) name: Option<String>,
}

/// A node's reply if it does not have the keys itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Redirection {
    /// The slot belongs to another node.
    Moved(NodeAddr),
    /// The keys have migrated to another node, which accepts calls for them only after `ASKING`.
    Ask(NodeAddr),
}

impl NodeAddr {
    pub(crate) fn of(server: &Server) -> Self {
        Self { host: server.host.to_string(), port: server.port, name: None }
    }

    /// Converts to fred's type.
    pub(crate) fn server(&self) -> Server {
        #[cfg(feature = "tls")]
        return Server::new_with_tls(self.host.as_str(), self.port, self.name.clone());
        #[cfg(not(feature = "tls"))]
        Server::new(self.host.as_str(), self.port)
    }
}

impl PartialEq for NodeAddr {
    fn eq(&self, other: &Self) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }
}

impl Eq for NodeAddr {}

impl Hash for NodeAddr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.host, self.port).hash(state);
    }
}

impl fmt::Display for NodeAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
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
