//! The choice of a header.

use http::HeaderName;
use http::header::InvalidHeaderName;

use super::bucket::Prefixes;
use super::remarks::LogOnce;
use super::{ClientIp, Source, Trust};

/// Trusted proxies, before it is said where they write. Made by [`ClientIp::behind`].
///
/// There is exactly one header: a proxy that maintains one passes the others on as the client sent them.
///
/// It is no extractor by itself:
///
/// ```compile_fail,E0277
/// use portcullis_tower::{ClientIp, KeyExtractor, Trust};
///
/// fn by(key: impl KeyExtractor) {}
/// by(ClientIp::behind(Trust::hops(1)));
/// ```
#[derive(Clone, Debug)]
#[must_use = "proxies are believed in one header, which has to be named"]
pub struct Behind {
    trust: Trust,
}

impl Behind {
    pub(super) const fn new(trust: Trust) -> Self {
        Self { trust }
    }

    /// `X-Forwarded-For`, to which every proxy appends the address it was called from.
    ///
    /// An element is an address, with a port or without: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or
    /// `[2001:db8::1]:80`. An empty element is an error like any other that is no address; so are `0.0.0.0` and `::`.
    pub fn x_forwarded_for(self) -> ClientIp {
        self.with(Source::XForwardedFor)
    }

    /// `Forwarded`, the standard's form of the same, whose `for` parameters are read.
    ///
    /// Each line must follow the grammar as a whole, so that no string which the client began can swallow what a proxy
    /// wrote. `unknown`, an obfuscated name (`_gazonk`) or an absent `for` on the way to the client are errors.
    ///
    /// Source: RFC 7239.
    pub fn forwarded(self) -> ClientIp {
        self.with(Source::Forwarded)
    }

    /// A header with one address that the peer overwrites, such as `X-Real-IP` or `CF-Connecting-IP`.
    ///
    /// It must come exactly once: none at all and several are errors, because in both cases the proxy does not do what is
    /// believed of it. The address is taken as it is, trusted or not.
    ///
    /// # Panics
    ///
    /// If `name` cannot be the name of a header.
    #[track_caller]
    pub fn header(self, name: &str) -> ClientIp {
        match self.try_header(name) {
            Ok(clients) => clients,
            Err(error) => panic!("{error}: {name:?}"),
        }
    }

    /// Like [`Behind::header`], for names that come from elsewhere.
    ///
    /// # Errors
    ///
    /// If `name` cannot be the name of a header.
    pub fn try_header(self, name: &str) -> Result<ClientIp, InvalidHeaderName> {
        let name: HeaderName = name.parse()?;
        Ok(self.with(Source::Single(name)))
    }

    fn with(self, source: Source) -> ClientIp {
        ClientIp {
            proxies: Some((source, self.trust)),
            prefixes: Prefixes::DEFAULT,
            remarks: LogOnce::none(),
        }
    }
}
