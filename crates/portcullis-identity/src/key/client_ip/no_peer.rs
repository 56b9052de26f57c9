//! The error of a request without the address of its peer.

use http::Extensions;

use crate::key::KeyError;

/// The error in the extensions of the request, or else one that says what the server lacks.
pub(super) fn no_peer(extensions: &Extensions) -> KeyError {
    extensions.get::<KeyError>().cloned().unwrap_or_else(|| KeyError::setup(reason(extensions)))
}

fn reason(extensions: &Extensions) -> &'static str {
    if is_unix_socket(extensions) {
        return UNIX_SOCKET;
    }
    #[cfg(feature = "tonic")]
    if super::peer::tonic_info(extensions).is_some() {
        return WITHOUT_REMOTE_ADDRESS;
    }
    #[cfg(feature = "axum")]
    if extensions.get::<axum::extract::OriginalUri>().is_some() {
        return WITHOUT_CONNECT_INFO;
    }
    UNKNOWN_SERVER
}

/// Whether Axum or Tonic has left the address of a Unix socket.
#[cfg_attr(
    not(all(unix, any(feature = "axum", feature = "tonic"))),
    expect(unused_variables, reason = "none")
)]
fn is_unix_socket(extensions: &Extensions) -> bool {
    let is_unix = false;
    #[cfg(all(unix, feature = "axum"))]
    let is_unix = {
        use axum::extract::ConnectInfo;

        is_unix
            || extensions.get::<ConnectInfo<tokio::net::unix::SocketAddr>>().is_some()
            || extensions.get::<ConnectInfo<std::os::unix::net::SocketAddr>>().is_some()
    };
    #[cfg(all(unix, feature = "tonic"))]
    let is_unix = is_unix || extensions.get::<tonic::transport::server::UdsConnectInfo>().is_some();
    is_unix
}

const UNIX_SOCKET: &str = "ClientIp finds no address in the request: it came through a Unix socket, where no peer has one. Insert \
    `SocketAddr::from((Ipv4Addr::LOCALHOST, 0))` into the request's extensions outside of this layer, and read the client from \
    the header of the proxy in front: `ClientIp::behind(Trust::networks([\"127.0.0.1\"])).x_forwarded_for()`";
#[cfg(feature = "tonic")]
const WITHOUT_REMOTE_ADDRESS: &str = "ClientIp finds no address in the request: Tonic's `TcpConnectInfo` has no `remote_addr`. \
    The connection was closed before the server asked for it, or the listener leaves it out: then insert a `SocketAddr` into the \
    request's extensions";
#[cfg(feature = "axum")]
const WITHOUT_CONNECT_INFO: &str = "ClientIp finds no address in the request: its Axum router was served without \
    `ConnectInfo<SocketAddr>`. Use `router.into_make_service_with_connect_info::<SocketAddr>()`; for a Unix socket, or a listener \
    with connection info of its own type, insert a `SocketAddr` into the request's extensions outside of this layer";
const UNKNOWN_SERVER: &str = "ClientIp finds no address in the request, nor anything else of a server that it knows: serve an Axum \
    router with `router.into_make_service_with_connect_info::<SocketAddr>()` and enable the feature `axum` (for Tonic the feature \
    `tonic`, over TLS `tonic-tls`). Where the server is another one, or of another version than this crate depends on (`cargo tree \
    -d` shows two), insert a `SocketAddr` into the request's extensions outside of this layer";

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::key::client_ip::peer;

    fn with<T: Clone + Send + Sync + 'static>(value: T) -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(value);
        extensions
    }

    #[test]
    fn requests_without_an_address_are_told_apart() {
        assert_eq!(reason(&Extensions::new()), UNKNOWN_SERVER);
        assert_eq!(reason(&with("connection info of another version")), UNKNOWN_SERVER);
        #[cfg(feature = "axum")]
        {
            use axum::extract::{ConnectInfo, OriginalUri};

            let mut routed = with(OriginalUri(http::Uri::from_static("/")));
            assert_eq!(reason(&routed), WITHOUT_CONNECT_INFO);
            routed.insert(ConnectInfo("connection info of a listener's own type"));
            assert_eq!(reason(&routed), WITHOUT_CONNECT_INFO);
            #[cfg(unix)]
            {
                let address = std::os::unix::net::SocketAddr::from_pathname("/run/app.sock").unwrap();
                routed.insert(ConnectInfo(address.clone()));
                assert_eq!(reason(&routed), UNIX_SOCKET);
                let address = tokio::net::unix::SocketAddr::from(address);
                assert_eq!(reason(&with(ConnectInfo(address))), UNIX_SOCKET);
            }
        }
        #[cfg(feature = "tonic")]
        {
            use tonic::transport::server::TcpConnectInfo;

            let nameless = TcpConnectInfo { local_addr: None, remote_addr: None };
            assert_eq!(reason(&with(nameless)), WITHOUT_REMOTE_ADDRESS);
            #[cfg(unix)]
            {
                use tonic::transport::server::UdsConnectInfo;

                let info = UdsConnectInfo { peer_addr: None, peer_cred: None };
                assert_eq!(reason(&with(info)), UNIX_SOCKET);
            }
        }
    }

    #[test]
    fn error_of_the_program_comes_first() {
        let own = KeyError::client("the message has no sender");
        assert_eq!(no_peer(&with(own.clone())), own);
    }

    #[test]
    fn inserted_address_counts_beside_other_info() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        #[cfg(feature = "tonic")]
        {
            use tonic::transport::server::{TcpConnectInfo, UdsConnectInfo};

            let mut nameless = with(TcpConnectInfo { local_addr: None, remote_addr: None });
            nameless.insert(address);
            assert_eq!(peer(&nameless), Some(address));
            let mut unix = with(UdsConnectInfo { peer_addr: None, peer_cred: None });
            unix.insert(address);
            assert_eq!(peer(&unix), Some(address));
        }
        assert_eq!(peer(&with(address)), Some(address));
    }
}
