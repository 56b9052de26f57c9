//! The address at the other end of the connection.

use std::net::SocketAddr;

use http::Extensions;

use crate::key::KeyError;

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

/// The error of a request without an address: that in its extensions, or else one that says how to serve a router.
pub(super) fn missing(extensions: &Extensions) -> KeyError {
    extensions.get::<KeyError>().cloned().unwrap_or_else(|| KeyError::setup(NO_PEER))
}

const NO_PEER: &str = "ClientIp finds no address in the request: serve an Axum router with \
    `router.into_make_service_with_connect_info::<SocketAddr>()` and enable the feature `axum` (for Tonic the feature \
    `tonic`, over TLS `tonic-tls`), or insert a `SocketAddr` into the request's extensions";
