//! The address at the other end of the connection.

use std::net::SocketAddr;

use http::Extensions;
#[cfg(feature = "tonic")]
use tonic::transport::server::TcpConnectInfo;

/// The address of the peer, as the server of the request has left it in the extensions.
pub fn peer(extensions: &Extensions) -> Option<SocketAddr> {
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
    if let Some(address) = tonic_info(extensions).and_then(TcpConnectInfo::remote_addr) {
        return Some(address);
    }
    extensions.get::<SocketAddr>().copied()
}

/// What Tonic knows of a TCP connection. It may lack the address.
#[cfg(feature = "tonic")]
pub(super) fn tonic_info(extensions: &Extensions) -> Option<&TcpConnectInfo> {
    let plain = extensions.get();
    #[cfg(feature = "tonic-tls")]
    let plain = plain.or_else(|| {
        use tonic::transport::server::TlsConnectInfo;

        extensions.get::<TlsConnectInfo<TcpConnectInfo>>().map(TlsConnectInfo::get_ref)
    });
    plain
}
