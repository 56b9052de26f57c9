//! The addresses of nodes.

use std::fmt;
use std::hash::{Hash, Hasher};

/// The address of a node. The certificate's name is not part of its identity.
#[derive(Clone, Debug)]
pub(crate) struct NodeAddr {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The expected name in its certificate, if it is not the host.
    pub(crate) name: Option<String>,
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
