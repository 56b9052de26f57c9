//! Where a node listens, and what nodes say of it.

use std::fmt;
use std::hash::{Hash, Hasher};

use fred::types::config::Server;

/// The address of a node. What its certificate says is no part of its identity.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
    /// The name to expect in its certificate, if it is not the host.
    pub(super) name: Option<String>,
}

/// What a node replies when it does not have the keys itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Redirection {
    /// The slot belongs to another node.
    Moved(Place),
    /// The keys have gone ahead to another node, which takes calls for them after `ASKING` only.
    Ask(Place),
}

impl Place {
    pub(super) fn of(server: &Server) -> Self {
        Self { host: server.host.to_string(), port: server.port, name: None }
    }

    /// The same for fred.
    pub(super) fn server(&self) -> Server {
        #[cfg(feature = "tls")]
        return Server::new_with_tls(self.host.as_str(), self.port, self.name.clone());
        #[cfg(not(feature = "tls"))]
        Server::new(self.host.as_str(), self.port)
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        (&self.host, self.port) == (&other.host, other.port)
    }
}

impl Eq for Place {}

impl Hash for Place {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.host, self.port).hash(state);
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Redirection {
    /// Reads `MOVED <slot> <host>:<port>` and `ASK ..`. A host that is left out is that of the node that replied.
    pub(super) fn parse(reply: &str, asked: &str) -> Option<Self> {
        let mut words = reply.split(' ');
        let (kind, _, place) = (words.next()?, words.next()?, words.next()?);
        let (host, port) = place.rsplit_once(':')?;
        let host = match host.trim_start_matches('[').trim_end_matches(']') {
            "" | "?" => asked,
            host => host,
        };
        let place = Place { host: host.to_owned(), port: port.parse().ok()?, name: None };
        match kind {
            "MOVED" => Some(Self::Moved(place)),
            "ASK" => Some(Self::Ask(place)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(host: &str, port: u16) -> Place {
        Place { host: host.into(), port, name: None }
    }

    #[test]
    fn reads_redirections() {
        for (reply, expected) in [
            ("MOVED 3999 127.0.0.1:6381", Some(Redirection::Moved(place("127.0.0.1", 6381)))),
            ("ASK 3999 node-1.example.org:6381", Some(Redirection::Ask(place("node-1.example.org", 6381)))),
            ("MOVED 3999 :6380", Some(Redirection::Moved(place("asked", 6380)))),
            ("MOVED 3999 fe80::1:6380", Some(Redirection::Moved(place("fe80::1", 6380)))),
            ("MOVED 3999 127.0.0.1:99999", None),
            ("MOVED", None),
            ("TRYAGAIN Multiple keys request during rehashing of slot", None),
        ] {
            assert_eq!(Redirection::parse(reply, "asked"), expected, "{reply}");
        }
    }
}
