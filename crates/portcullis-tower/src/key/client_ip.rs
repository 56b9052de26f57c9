//! Callers by their address.

mod address;
mod behind;
mod bucket;
mod error;
mod forwarded;
mod peer;
mod remarks;
mod source;
mod trust;

use std::net::IpAddr;

use http::HeaderMap;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor};
use bucket::Prefixes;
use remarks::LogOnce;
use source::Source;

pub use behind::Behind;
pub use bucket::Bucket;
pub use error::ClientIpError;
pub use trust::{Trust, TrustError};

/// The address of the caller: an IPv4 address, or the /64 of an IPv6 address.
///
/// A single IPv6 host commonly has a /64 to itself and can use any address in it. An IPv4 address in IPv6 clothes
/// (`::ffff:0:0/96`) is the IPv4 address, for trust and for the key. Ports and zones are not part of the key.
///
/// [`peer`](Self::peer) goes by the connection alone, [`behind`](Self::behind) by what trusted proxies write in one
/// header. Without a connection's address the server is misconfigured: it answers 500, and the layer logs which line is
/// missing, at most once an hour.
///
/// ```
/// use http::HeaderMap;
/// use portcullis_tower::{ClientIp, Trust};
///
/// let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
/// let mut headers = HeaderMap::new();
/// headers.insert("x-forwarded-for", "6.6.6.6, 192.0.2.1, 10.0.0.7".parse()?);
///
/// // The right-most address that is not a proxy of ours. What stands left of it was made up by somebody.
/// let client = clients.find("10.0.0.9".parse()?, &headers)?;
/// assert_eq!(client.to_string(), "192.0.2.1");
/// assert_eq!(clients.bucket(client).to_string(), "192.0.2.1/32");
///
/// // A peer that is no proxy of ours is the client, whatever it sends.
/// assert_eq!(clients.find("198.51.100.1".parse()?, &headers)?.to_string(), "198.51.100.1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientIp {
    proxies: Option<(Source, Trust)>,
    prefixes: Prefixes,
    remarks: LogOnce,
}

impl ClientIp {
    /// The address at the other end of the connection. No header is looked at: behind a proxy this is the proxy.
    ///
    /// Looked for in the request's extensions, the first that is there: Axum's `ConnectInfo<SocketAddr>` and
    /// `MockConnectInfo<SocketAddr>` (feature `axum`), Tonic's `TcpConnectInfo` (feature `tonic`; over TLS
    /// `tonic-tls`), and a plain [`SocketAddr`](std::net::SocketAddr).
    pub const fn peer() -> Self {
        Self { proxies: None, prefixes: Prefixes::DEFAULT, remarks: LogOnce::none() }
    }

    /// The address that trusted proxies tell, in the one header that the next call names.
    ///
    /// A peer that is not trusted is the client, and every header is ignored. Else all lines of the header are read as
    /// one list from its right end, where the nearest proxy wrote: trusted addresses are passed over, and the first
    /// other one is the client. **If all are trusted it is the farthest**, the left-most of the header, or the peer if
    /// the header is absent: a request from within. Anything on that way that is not an address, or is the unspecified one
    /// (`0.0.0.0`, `::`), is the client's error and never skipped; what stands farther left does not matter.
    pub fn behind(trust: Trust) -> Behind {
        Behind::new(trust)
    }

    /// Charges IPv6 addresses by their first `length` bits, in place of 64.
    ///
    /// # Panics
    ///
    /// If `length` is not 1 to 128.
    #[track_caller]
    #[must_use]
    pub const fn ipv6_prefix(mut self, length: u8) -> Self {
        assert!(1 <= length && length <= 128, "an IPv6 prefix has 1 to 128 bits");
        self.prefixes.ipv6 = length;
        self
    }

    /// Charges IPv4 addresses by their first `length` bits, in place of all 32.
    ///
    /// # Panics
    ///
    /// If `length` is not 1 to 32.
    #[track_caller]
    #[must_use]
    pub const fn ipv4_prefix(mut self, length: u8) -> Self {
        assert!(1 <= length && length <= 32, "an IPv4 prefix has 1 to 32 bits");
        self.prefixes.ipv4 = length;
        self
    }

    /// The client of a request that came from `peer` with these headers.
    ///
    /// # Errors
    ///
    /// If the peer is trusted and the header does not tell the client.
    pub fn find(&self, peer: IpAddr, headers: &HeaderMap) -> Result<IpAddr, ClientIpError> {
        match &self.proxies {
            None => Ok(address::fold(peer)),
            Some((source, trust)) => source.client(peer, headers, trust),
        }
    }

    /// Who is charged for an address.
    pub fn bucket(&self, address: IpAddr) -> Bucket {
        self.prefixes.bucket(address)
    }

    fn remark(&self, peer: IpAddr, headers: &HeaderMap, found: &Result<IpAddr, ClientIpError>) {
        match &self.proxies {
            None => self.remarks.headers_ignored(headers, None),
            Some((source, trust)) => {
                if trust.is_everything() {
                    self.remarks.trust_of_everything();
                }
                if !trust.believes(address::fold(peer), 0) {
                    self.remarks.headers_ignored(headers, Some(source.header().as_str()));
                }
            }
        }
        if let Err(error) = found {
            self.remarks.failed(error);
        }
    }
}

impl KeyExtractor for ClientIp {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let peer = peer::peer(&parts.extensions).ok_or_else(|| KeyError::server(peer::NO_PEER))?.ip();
        let found = self.find(peer, &parts.headers);
        self.remark(peer, &parts.headers, &found);
        self.bucket(found?).write(key);
        Ok(Identity::Found)
    }

    /// Yes: nobody sends from an address of somebody else.
    fn counts_rejections(&self) -> bool {
        true
    }
}
