//! Where a server listens.

use std::fmt;
use std::net::SocketAddr;

/// One of the listeners of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Envoy's rate limit service, with the gRPC health service.
    Grpc,
    /// Checks over HTTP, with the pages of the status.
    Http,
    /// `/healthz`, `/readyz` and `/metrics` alone, never over TLS.
    Status,
    /// The admin API.
    Admin,
}

impl Place {
    /// `grpc`, `http`, `status` or `admin`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
            Self::Status => "status",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The addresses that a server has bound; `None` for a listener that it does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Addresses {
    /// Of [`Place::Grpc`].
    pub grpc: Option<SocketAddr>,
    /// Of [`Place::Http`].
    pub http: Option<SocketAddr>,
    /// Of [`Place::Status`].
    pub status: Option<SocketAddr>,
    /// Of [`Place::Admin`].
    pub admin: Option<SocketAddr>,
}

impl Addresses {
    pub(super) fn set(&mut self, place: Place, addr: SocketAddr) {
        *match place {
            Place::Grpc => &mut self.grpc,
            Place::Http => &mut self.http,
            Place::Status => &mut self.status,
            Place::Admin => &mut self.admin,
        } = Some(addr);
    }
}
