//! Callers by their address.

use std::net::{IpAddr, SocketAddr};

use http::Extensions;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor};

/// The address of the caller: an IPv4 address, or the /64 of an IPv6 address.
///
/// A single IPv6 host commonly has a /64 to itself and can use any address in it. An IPv4 address in IPv6 clothes
/// (`::ffff:0:0/96`) is the IPv4 address. Ports and zones are not part of the key.
///
/// ```
/// use std::net::SocketAddr;
///
/// use http::Request;
/// use portcullis_core::Secret;
/// use portcullis_tower::{ClientIp, KeyExtractor};
///
/// let key = |address: &str| -> Result<_, Box<dyn std::error::Error>> {
///     let (mut parts, ()) = Request::new(()).into_parts();
///     parts.extensions.insert(address.parse::<SocketAddr>()?);
///     let mut hasher = Secret::published().hasher();
///     let _ = ClientIp::peer().extract(&parts, &mut hasher.writer())?;
///     Ok(hasher.finish()?)
/// };
/// assert_eq!(key("192.0.2.1:1000")?, key("[::ffff:192.0.2.1]:2000")?);
/// assert_eq!(key("[2001:db8::1]:1000")?, key("[2001:db8::ffff:0:0:1]:1000")?);
/// assert_ne!(key("[2001:db8::1]:1000")?, key("[2001:db8:0:1::1]:1000")?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClientIp(());

impl ClientIp {
    /// The address at the other end of the connection. No header is looked at: behind a proxy this is the proxy.
    ///
    /// Looked for in the request's extensions, the first that is there: Axum's `ConnectInfo<SocketAddr>` and
    /// `MockConnectInfo<SocketAddr>` (feature `axum`), Tonic's `TcpConnectInfo` (feature `tonic`; over TLS
    /// `tonic-tls`), and a plain [`SocketAddr`]. A server that provides none of them is misconfigured: it answers 500,
    /// and the layer logs once which line is missing.
    pub const fn peer() -> Self {
        Self(())
    }
}

impl KeyExtractor for ClientIp {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let peer = peer(&parts.extensions).ok_or_else(|| KeyError::server(NO_PEER))?;
        match peer.ip().to_canonical() {
            IpAddr::V4(address) => key.part("ipv4", &address.octets()),
            IpAddr::V6(address) => key.part("ipv6", &address.octets()[..IPV6_PREFIX_BYTES]),
        }
        Ok(Identity::Found)
    }
}

fn peer(extensions: &Extensions) -> Option<SocketAddr> {
    #[cfg(feature = "axum")]
    {
        use axum::extract::connect_info::{ConnectInfo, MockConnectInfo};

        if let Some(ConnectInfo(address)) = extensions.get::<ConnectInfo<SocketAddr>>() {
            return Some(*address);
        }
        if let Some(MockConnectInfo(address)) = extensions.get::<MockConnectInfo<SocketAddr>>() {
            return Some(*address);
        }
    }
    #[cfg(feature = "tonic")]
    {
        use tonic::transport::server::TcpConnectInfo;

        if let Some(info) = extensions.get::<TcpConnectInfo>() {
            return info.remote_addr();
        }
        #[cfg(feature = "tonic-tls")]
        if let Some(info) = extensions.get::<tonic::transport::server::TlsConnectInfo<TcpConnectInfo>>() {
            return info.get_ref().remote_addr();
        }
    }
    extensions.get::<SocketAddr>().copied()
}

const IPV6_PREFIX_BYTES: usize = 8;

const NO_PEER: &str = "ClientIp::peer() finds no address in the request: serve an Axum router with \
    `router.into_make_service_with_connect_info::<SocketAddr>()` and enable the feature `axum` (for Tonic the feature \
    `tonic`, over TLS `tonic-tls`), or insert a `SocketAddr` into the request's extensions";
