//! Keys by client address.

mod address;
mod error;
mod forwarded;
mod ip_prefix;
mod log_once;
mod no_peer;
mod peer;
mod proxies_without_header;
mod source;
mod trust;

use std::borrow::Cow;
use std::net::IpAddr;

use http::request::Parts;
use http::{HeaderMap, HeaderName};
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor, KeyForms, NamedPart};
use ip_prefix::PrefixLengths;
use log_once::LogOnce;
use no_peer::no_peer;
use source::Source;

pub use error::ClientIpError;
pub use ip_prefix::IpPrefix;
pub use peer::peer;
pub use proxies_without_header::ProxiesWithoutHeader;
pub use trust::{Networks, Trust, TrustError};

/// The address of the client: an IPv4 address, or the /64 of an IPv6 address.
///
/// A single IPv6 host commonly has a whole /64 and can use any address in it. An IPv4-mapped IPv6 address (`::ffff:0:0/96`) is
/// treated as the IPv4 address, for trust and for the key. Ports and zones are not part of the key.
///
/// [`peer`](Self::peer) uses the connection alone, [`behind`](Self::behind) one header written by trusted proxies. Without the
/// address of the connection the server is misconfigured: the response is 500, and the layer logs the missing configuration, at
/// most once an hour. In a build with debug assertions the body of the response names it too.
///
/// ```
/// use http::HeaderMap;
/// use portcullis::ClientIp;
/// use portcullis::key::Trust;
///
/// let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
/// let mut headers = HeaderMap::new();
/// headers.insert("x-forwarded-for", "6.6.6.6, 192.0.2.1, 10.0.0.7".parse()?);
///
/// // The right-most address that is not a trusted proxy. The client may have forged the addresses left of it.
/// let client = clients.find("10.0.0.9".parse()?, &headers)?;
/// assert_eq!(client.to_string(), "192.0.2.1");
/// assert_eq!(clients.prefix(client).to_string(), "192.0.2.1/32");
///
/// // A peer that is not a trusted proxy is the client, regardless of its headers.
/// assert_eq!(clients.find("198.51.100.1".parse()?, &headers)?.to_string(), "198.51.100.1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientIp {
    proxies: Option<(Source, Trust)>,
    prefix_lengths: PrefixLengths,
    log: LogOnce,
}

impl ClientIp {
    /// Uses the address at the other end of the connection. Headers are ignored: behind a proxy this is the address of the
    /// proxy.
    ///
    /// The first of these values in the request's extensions is used: Axum's `ConnectInfo<SocketAddr>` and
    /// `MockConnectInfo<SocketAddr>` (feature `axum`), Tonic's `TcpConnectInfo` (feature `tonic`; over TLS
    /// `tonic-tls`), and a plain [`SocketAddr`](std::net::SocketAddr). Where the server leaves another value, as for a Unix socket, a
    /// listener with connection info of its own type, or on Lambda, a function around this layer inserts the `SocketAddr`:
    ///
    /// ```
    /// use std::net::{Ipv4Addr, SocketAddr};
    ///
    /// use axum::extract::Request;
    /// use axum::middleware::map_request;
    /// use axum::{Router, routing::get};
    /// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// // Who connects to a Unix socket is on this machine.
    /// async fn insert_address(mut request: Request) -> Request {
    ///     request.extensions_mut().insert(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    ///     request
    /// }
    ///
    /// let limit = Limiter::memory().layer(Policy::gcra("all", Quota::per_second(10)).by(ClientIp::peer()));
    /// let app: Router = Router::new().route("/", get(|| async { "hello" })).layer(limit).layer(map_request(insert_address));
    /// # let _ = app;
    /// ```
    ///
    /// A program that makes requests of other messages can put a
    /// [`KeyError`] into their extensions: it is the error of messages without an address, and names what they lack.
    pub const fn peer() -> Self {
        Self { proxies: None, prefix_lengths: PrefixLengths::DEFAULT, log: LogOnce::new() }
    }

    /// Uses the address that trusted proxies write into one header, which the next call names.
    ///
    /// A peer that is not trusted is the client, and every header is ignored. Otherwise all lines of the header are read as
    /// one list from its right end, where the nearest proxy wrote: trusted addresses are skipped, and the first other one is the
    /// client. **If all are trusted, the client is the farthest**, the left-most of the header, or the peer if the header is
    /// absent: an internal request. An element up to the client that is not an address, or is the unspecified one (`0.0.0.0`,
    /// `::`), is an error of the client and never skipped; elements farther left are not read.
    pub fn behind(trust: Trust) -> ProxiesWithoutHeader {
        ProxiesWithoutHeader::new(trust)
    }

    /// Charges IPv6 addresses by their first `length` bits instead of 64.
    ///
    /// # Panics
    ///
    /// If `length` is not 1 to 128.
    #[track_caller]
    #[must_use]
    pub const fn ipv6_prefix(mut self, length: u8) -> Self {
        assert!(1 <= length && length <= 128, "an IPv6 prefix has 1 to 128 bits");
        self.prefix_lengths.ipv6 = length;
        self
    }

    /// Charges IPv4 addresses by their first `length` bits instead of all 32.
    ///
    /// # Panics
    ///
    /// If `length` is not 1 to 32.
    #[track_caller]
    #[must_use]
    pub const fn ipv4_prefix(mut self, length: u8) -> Self {
        assert!(1 <= length && length <= 32, "an IPv4 prefix has 1 to 32 bits");
        self.prefix_lengths.ipv4 = length;
        self
    }

    /// Returns the client of a request from `peer` with these headers.
    ///
    /// # Errors
    ///
    /// If the peer is trusted and the header does not contain the client.
    pub fn find(&self, peer: IpAddr, headers: &HeaderMap) -> Result<IpAddr, ClientIpError> {
        match &self.proxies {
            None => Ok(address::fold(peer)),
            Some((source, trust)) => source.client(peer, headers, trust),
        }
    }

    /// Returns whether the [header](Self::header) of a peer is believed. `false` for [`peer`](Self::peer).
    ///
    /// ```
    /// use portcullis::ClientIp;
    /// use portcullis::key::Trust;
    ///
    /// let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
    /// assert!(clients.trusts("10.0.0.9".parse()?) && !clients.trusts("192.0.2.1".parse()?));
    /// assert_eq!(clients.header().unwrap(), "x-forwarded-for");
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.proxies.as_ref().is_some_and(|(_, trust)| trust.trusts(address::fold(peer), 0))
    }

    /// Returns the networks of the proxies that are trusted. `None` for [`peer`](Self::peer), and for proxies that are trusted by a number of
    /// hops alone.
    ///
    /// ```
    /// use portcullis::ClientIp;
    /// use portcullis::key::Trust;
    ///
    /// let named = ClientIp::behind(Trust::networks(["10.0.0.0/8"]).at_most(2)).x_forwarded_for();
    /// assert_eq!(named.named_proxies().unwrap().to_string(), "10.0.0.0/8");
    /// assert!(ClientIp::behind(Trust::hops(1)).x_forwarded_for().named_proxies().is_none());
    /// ```
    pub fn named_proxies(&self) -> Option<&Networks> {
        self.proxies.as_ref().and_then(|(_, trust)| trust.named())
    }

    /// Returns whether the peer of a request is a proxy that is trusted. `false` without an address of the peer.
    pub fn trusts_peer(&self, parts: &Parts) -> bool {
        self.proxies.as_ref().is_some_and(|(_, trust)| trust.trusts_peer(parts))
    }

    /// The proxies, of which only those with a name may write a header that is believed.
    #[track_caller]
    pub(crate) fn trust_of_headers(&self) -> Trust {
        let named = self.proxies.as_ref().map(|(_, trust)| trust);
        let named = named.filter(|trust| trust.named().is_some() && !trust.is_everything());
        named
            .cloned()
            .expect("`clients` names no networks of proxies, so that any client could write the header")
    }

    /// Returns the header that trusted proxies write. `None` for [`peer`](Self::peer).
    pub fn header(&self) -> Option<&HeaderName> {
        self.proxies.as_ref().map(|(source, _)| source.header())
    }

    /// Returns the network that is charged for an address.
    pub fn prefix(&self, address: IpAddr) -> IpPrefix {
        self.prefix_lengths.prefix_of(address)
    }

    /// The client of a request, and the log lines about a misconfiguration.
    pub(crate) fn client_of(&self, parts: &Parts) -> Result<IpAddr, KeyError> {
        let peer = peer(&parts.extensions).ok_or_else(|| no_peer(&parts.extensions))?.ip();
        let found = self.find(peer, &parts.headers);
        self.log_misconfiguration(peer, &parts.headers, &found);
        Ok(found?)
    }

    fn log_misconfiguration(&self, peer: IpAddr, headers: &HeaderMap, found: &Result<IpAddr, ClientIpError>) {
        match &self.proxies {
            None => self.log.headers_ignored(headers, None),
            Some((source, trust)) => {
                if trust.is_everything() {
                    self.log.trusts_everything();
                }
                if !trust.trusts(address::fold(peer), 0) {
                    self.log.headers_ignored(headers, Some(source.header()));
                }
            }
        }
        if let Err(error) = found {
            self.log.failed(error);
        }
    }
}

impl KeyExtractor for ClientIp {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        self.prefix(self.client_of(parts)?).write(key);
        Ok(Identity::Found)
    }

    /// `true`, because a client cannot send from the address of another one.
    fn counts_rejections(&self) -> bool {
        true
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed("client_ip")
    }

    fn forms(&self) -> KeyForms {
        KeyForms::of(self.prefix_lengths)
    }
}
