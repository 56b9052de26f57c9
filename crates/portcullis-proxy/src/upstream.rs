//! The server behind the proxy, and connections to it.

mod pool;
mod socket;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::uri::{Authority, Scheme};
use http::{HeaderValue, Uri};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use socket::{Socket, SocketView};

pub(super) use pool::{Lease, Pool, Reusable, SendError};

/// The server behind the proxy.
///
/// ```
/// use portcullis_proxy::Upstream;
///
/// let upstream = Upstream::new("http://127.0.0.1:3000")?;
/// let grpc = Upstream::new("http://127.0.0.1:50051")?.http2();
/// assert!(Upstream::new("http://127.0.0.1:3000/app").is_err(), "paths are forwarded as they are");
/// # let _ = (upstream, grpc);
/// # Ok::<(), portcullis_proxy::UpstreamError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Upstream {
    authority: Authority,
    port: u16,
    is_http2: bool,
    tls: Option<Tls>,
}

#[derive(Clone, Debug)]
struct Tls {
    name: ServerName<'static>,
    /// `None` until the roots are set.
    config: Option<Configs>,
}

/// One for each list of protocols.
#[derive(Clone, Debug)]
struct Configs {
    any: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
}

impl Upstream {
    /// An upstream by its URL: `http://` or `https://`, a host and a port. It speaks HTTP/1.1; over TLS HTTP/2, if it selects that by
    /// ALPN. `https://` also needs [`tls`](Self::tls).
    ///
    /// # Errors
    ///
    /// If the URL has another scheme, no host, a user, a path or a query.
    pub fn new(url: &str) -> Result<Self, UpstreamError> {
        let error = |reason| UpstreamError { url: url.to_owned(), reason };
        let uri: Uri = url.parse().map_err(|_| error("not a URL"))?;
        let authority = uri.authority().ok_or_else(|| error("it has no host"))?.clone();
        if authority.as_str().contains('@') {
            return Err(error("it has a user, which the proxy does not send"));
        }
        if uri.path_and_query().is_some_and(|path| path != "/") || url.contains('#') {
            return Err(error("it has a path: paths are forwarded as they are"));
        }
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(error("the scheme is neither http nor https")),
        };
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            None if authority.as_str().ends_with(':') => return Err(error("it has an empty port")),
            None => [80, 443][usize::from(is_tls)],
        };
        let name =
            || ServerName::try_from(plain_host(&authority).to_owned()).map_err(|_| error("not a host"));
        let tls = if is_tls { Some(Tls { name: name()?, config: None }) } else { None };
        Ok(Self { authority, port, is_http2: false, tls })
    }

    /// Speaks HTTP/2 without asking, as gRPC servers without TLS need. Over TLS, HTTP/2 alone is offered by ALPN.
    pub fn http2(mut self) -> Self {
        self.is_http2 = true;
        self
    }

    /// Sets the roots and the client certificate of an `https://` upstream. The protocols of ALPN are replaced.
    pub fn tls(mut self, config: &ClientConfig) -> Self {
        if let Some(tls) = &mut self.tls {
            let with = |protocols: &[&[u8]]| {
                let mut config = config.clone();
                config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
                Arc::new(config)
            };
            let any: &[&[u8]] = if self.is_http2 { &[b"h2"] } else { &[b"h2", b"http/1.1"] };
            tls.config = Some(Configs { any: with(any), http1: with(&[b"http/1.1"]) });
        }
        self
    }

    /// Whether it can be called: `https://` needs [roots](Self::tls).
    pub(super) fn is_complete(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.config.is_some())
    }

    /// Whether a connection can be HTTP/2.
    fn may_be_http2(&self) -> bool {
        self.is_http2 || self.tls.is_some()
    }

    pub(super) fn scheme(&self) -> Scheme {
        if self.tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP }
    }

    /// Its host, as clients name it.
    pub(super) fn host(&self) -> HeaderValue {
        HeaderValue::from_str(self.authority.as_str()).expect("an authority is a header value")
    }

    /// Opens a connection. An upgrade needs HTTP/1.1.
    async fn connect(&self, only_http1: bool) -> io::Result<Connected> {
        let tcp = TcpStream::connect((plain_host(&self.authority), self.port)).await?;
        tcp.set_nodelay(true)?;
        let io = Socket::new(tcp);
        let socket = io.view();
        let Some(Tls { name, config }) = &self.tls else {
            return Ok(Connected { is_http2: self.is_http2 && !only_http1, io: Box::new(io), socket });
        };
        let configs = config.as_ref().ok_or_else(|| io::Error::other("TLS has no roots"))?;
        let config = if only_http1 { &configs.http1 } else { &configs.any };
        let tls = TlsConnector::from(Arc::clone(config)).connect(name.clone(), io).await?;
        let selected = tls.get_ref().1.alpn_protocol();
        let is_http2 = if only_http1 { false } else { selected == Some(b"h2") };
        if self.is_http2 && !only_http1 && !is_http2 {
            return Err(io::Error::other("the upstream does not select HTTP/2"));
        }
        Ok(Connected { is_http2, io: Box::new(tls), socket })
    }
}

/// The host without the brackets of IPv6.
fn plain_host(authority: &Authority) -> &str {
    authority.host().trim_start_matches('[').trim_end_matches(']')
}

/// A connection and its protocol.
struct Connected {
    is_http2: bool,
    io: Box<dyn Io>,
    /// Of what `io` reads and writes.
    socket: SocketView,
}

trait Io: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Io for T {}

/// Why a URL is not an upstream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is not an upstream: {reason}")]
pub struct UpstreamError {
    url: String,
    reason: &'static str,
}

/// The limits on time. Each is without progress: a transfer that goes on may take as long as it needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub(super) connect: Duration,
    pub(super) response: Duration,
    pub(super) idle: Duration,
    pub(super) tunnel_idle: Duration,
    pub(super) pool_idle: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upstream_is_a_scheme_a_host_and_a_port() {
        for (url, port) in [
            ("http://a.example", 80),
            ("https://a.example/", 443),
            ("http://127.0.0.1:3000", 3000),
            ("http://[::1]:3000", 3000),
        ] {
            assert_eq!(Upstream::new(url).unwrap().port, port, "{url}");
        }
        for url in
            ["", "a.example:80", "ftp://a.example", "http://u:p@a", "http://a/b", "http://a/?b", "http://a:"]
        {
            assert!(Upstream::new(url).is_err(), "{url}");
        }
        assert_eq!(plain_host(&Authority::from_static("[::1]:3000")), "::1");
    }
}
