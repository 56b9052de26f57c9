//! Trusted proxies, and the header that they write.

use super::super::header::header_name;
use super::ip_prefix::PrefixLengths;
use super::log_once::LogOnce;
use super::{ClientIp, Source, Trust};

/// Trusted proxies without the header that they write. Made by [`ClientIp::behind`].
///
/// Exactly one header is read: a proxy that maintains one passes the others on as the client sent them.
///
/// `ProxiesWithoutHeader` is not an extractor:
///
/// ```compile_fail,E0277
/// use portcullis::ClientIp;
/// use portcullis::key::{KeyExtractor, Trust};
///
/// fn by(key: impl KeyExtractor) {}
/// by(ClientIp::behind(Trust::hops(1)));
/// ```
#[derive(Clone, Debug)]
#[must_use = "the header that trusted proxies write has to be named"]
pub struct ProxiesWithoutHeader {
    trust: Trust,
}

impl ProxiesWithoutHeader {
    pub(super) const fn new(trust: Trust) -> Self {
        Self { trust }
    }

    /// Reads `X-Forwarded-For`, to which every proxy appends the address of its peer.
    ///
    /// An element is an address, with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or
    /// `[2001:db8::1]:80`. An empty element is an error like any other that is not an address; so are `0.0.0.0` and `::`.
    pub fn x_forwarded_for(self) -> ClientIp {
        self.with(Source::XForwardedFor)
    }

    /// Reads the `for` parameters of the standard header `Forwarded`.
    ///
    /// Each line must follow the grammar as a whole, so that a quoted string opened by the client cannot hide the elements of a
    /// proxy. `unknown`, an obfuscated name (`_gazonk`) or an absent `for` in an element up to the client is an error.
    ///
    /// Source: RFC 7239.
    pub fn forwarded(self) -> ClientIp {
        self.with(Source::Forwarded)
    }

    /// Reads a header with one address that the peer overwrites, such as `X-Real-IP` or `CF-Connecting-IP`.
    ///
    /// It must occur exactly once. A missing or a repeated header is an error, because the proxy does not overwrite it as
    /// expected; [`header_or_peer`](Self::header_or_peer) accepts a missing one. The address is used whether it is trusted or not. A name from configuration or input is parsed to a `HeaderName` first.
    ///
    /// # Panics
    ///
    /// If `name` is a text that is not a valid header name.
    #[track_caller]
    pub fn header(self, name: &(impl AsRef<str> + ?Sized)) -> ClientIp {
        self.with(Source::Single(header_name(name.as_ref())))
    }

    /// Like [`header`](Self::header), but a trusted proxy that sends no such header is the client itself: a request that it makes,
    /// such as a health check, or one that it passes on without the header.
    ///
    /// All requests of such a proxy without the header share the budget of its address. A header that is empty, repeated or no
    /// address is still an error, and a peer that is not trusted is the client whatever it sends. Each proxy has to write the header for
    /// every client: one that can be made to leave it out gives its clients the budget of the proxy beside their own.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use portcullis::ClientIp;
    /// use portcullis::key::Trust;
    ///
    /// let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).header_or_peer("x-real-ip");
    /// let mut headers = HeaderMap::new();
    /// assert_eq!(clients.find("10.0.0.9".parse()?, &headers)?.to_string(), "10.0.0.9");
    /// headers.insert("x-real-ip", "192.0.2.1".parse()?);
    /// assert_eq!(clients.find("10.0.0.9".parse()?, &headers)?.to_string(), "192.0.2.1");
    /// headers.insert("x-real-ip", "unknown".parse()?);
    /// assert!(clients.find("10.0.0.9".parse()?, &headers).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If `name` is a text that is not a valid header name.
    #[track_caller]
    pub fn header_or_peer(self, name: &(impl AsRef<str> + ?Sized)) -> ClientIp {
        self.with(Source::SingleOrPeer(header_name(name.as_ref())))
    }

    fn with(self, source: Source) -> ClientIp {
        ClientIp {
            proxies: Some((source, self.trust)),
            prefix_lengths: PrefixLengths::DEFAULT,
            log: LogOnce::new(),
        }
    }
}
