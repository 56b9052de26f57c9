//! Who is calling.

mod bearer;
mod client_ip;
mod combine;
mod cookie;
mod credential;
mod error;
mod extension;
mod global;
mod header;
mod lookup;
mod query;
mod route;

use std::sync::Arc;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::KeyWriter;

pub use bearer::Bearer;
pub use client_ip::{Behind, Bucket, ClientIp, ClientIpError, Trust, TrustError};
pub use combine::{And, Or};
pub use cookie::Cookie;
pub use credential::Credential;
pub use error::KeyError;
pub use extension::Extension;
pub use global::Global;
pub use header::Header;
pub use lookup::{AsyncKeyExtractor, Lookup, LookupFuture};
pub use query::Query;
pub use route::Route;

/// Finds out who is calling, and writes it down.
///
/// An extractor writes tagged parts; the layer makes a keyed fingerprint of them, so that no identity stands in a store
/// or a log. Closures are extractors.
///
/// Everything in a request but its extensions is what the client chose to send, the host, the path and every header
/// included. An extractor that exempts by it exempts anybody. This one goes by what the server has found out:
///
/// ```
/// use std::net::SocketAddr;
///
/// use http::Request;
/// use http::request::Parts;
/// use portcullis_core::Secret;
/// use portcullis_tower::{ClientIp, Identity, KeyError, KeyExtractor, KeyWriter};
///
/// /// Put into the request by authentication, which runs outside of the limit.
/// #[derive(Clone)]
/// struct Tenant {
///     id: u64,
///     is_our_monitoring: bool,
///     is_suspended: bool,
/// }
///
/// let tenant = |parts: &Parts, key: &mut KeyWriter<'_>| {
///     let Some(tenant) = parts.extensions.get::<Tenant>() else { return Ok(Identity::Missing) };
///     if tenant.is_our_monitoring {
///         return Ok(Identity::Exempt);
///     }
///     if tenant.is_suspended {
///         return Err(KeyError::client("the tenant is suspended"));
///     }
///     key.part("tenant", &tenant.id.to_be_bytes());
///     Ok(Identity::Found)
/// };
/// let key = tenant.or(ClientIp::peer());
///
/// // A stranger is charged by address, whatever the request says.
/// let stranger = SocketAddr::from(([192, 0, 2, 1], 1024));
/// let request = Request::get("http://monitoring.example.com/").header("x-tenant", "monitoring").extension(stranger);
/// let (mut parts, ()) = request.body(())?.into_parts();
/// let identity = |parts: &Parts| key.extract(parts, &mut Secret::published().hasher().writer());
/// assert_eq!(identity(&parts), Ok(Identity::Found));
///
/// parts.extensions.insert(Tenant { id: 17, is_our_monitoring: true, is_suspended: false });
/// assert_eq!(identity(&parts), Ok(Identity::Exempt));
/// # Ok::<(), http::Error>(())
/// ```
pub trait KeyExtractor: Send + Sync + 'static {
    /// Writes the identity of the caller to `key`, at least one part if it is [`Identity::Found`].
    ///
    /// What an extractor writes before it returns anything else is discarded.
    ///
    /// # Errors
    ///
    /// If the request has an identity that cannot be accepted, or the server lacks what it takes to find it.
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError>;

    /// What to ask of a request whose identity is missing and that is rejected for it: the value of `WWW-Authenticate` in
    /// a 401. Without one, as by default, the answer is 400.
    fn challenge(&self) -> Option<HeaderValue> {
        None
    }

    /// Whether a request that is rejected for its identity, because another policy of the layer finds it missing or broken,
    /// stays charged to this key. The answer is 429 then once this budget is used up, so that nobody guesses without end.
    ///
    /// No by default. It is for identities that a caller cannot choose: with others anybody could use up the budget of
    /// somebody else by requests that are never admitted. [`ClientIp`] says yes. Of two together ([`and`](Self::and)) one is
    /// enough, because the key has both; with [`or`](Self::or) it takes both, because nobody knows which of the two it is.
    /// [`RateLimitLayer::counts_rejections`](crate::RateLimitLayer::counts_rejections) says it of one policy.
    fn counts_rejections(&self) -> bool {
        false
    }

    /// Says that this identity is a credential: a request without it, or with a broken one, that is rejected for it is
    /// answered 401 with `challenge` in `WWW-Authenticate`, in gRPC `UNAUTHENTICATED`. [`Bearer`] does so by itself.
    ///
    /// ```
    /// use http::HeaderValue;
    /// use portcullis_tower::{Header, KeyExtractor};
    ///
    /// let api_key = Header::named("x-api-key").credential(HeaderValue::from_static("ApiKey"));
    /// assert_eq!(api_key.challenge(), Some(HeaderValue::from_static("ApiKey")));
    /// ```
    fn credential(self, challenge: HeaderValue) -> Credential<Self>
    where
        Self: Sized,
    {
        Credential::new(self, challenge)
    }

    /// Both together are the identity: a user *on* a route.
    ///
    /// Asked from left to right, and the first error or exemption is the answer; else the identity is missing if either
    /// half is. Who may skip the limit cannot lose that by leaving something out, and leaving something out exempts
    /// nobody.
    fn and<K: KeyExtractor>(self, other: K) -> And<Self, K>
    where
        Self: Sized,
    {
        And::new(self, other)
    }

    /// The other, where this one is missing. Never after an error: a caller who sends a broken credential is not
    /// somebody else.
    fn or<K: KeyExtractor>(self, other: K) -> Or<Self, K>
    where
        Self: Sized,
    {
        Or::new(self, other)
    }
}

/// What an extractor found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Identity {
    /// It is written to the key.
    Found,
    /// The request has none. The layer goes by [`OnMissing`](crate::OnMissing).
    Missing,
    /// This request is not limited by the policies that use this key. Decide it by what the server has found out: what a
    /// client can send, such as a host or a header, exempts every client that sends it.
    Exempt,
}

/// The value of a field without the optional whitespace around it, which parsers of HTTP/1.1 remove and those of HTTP/2
/// may pass on.
///
/// Source: RFC 9110, section 5.5; RFC 9113, section 8.2.1.
fn without_whitespace(value: &HeaderValue) -> &[u8] {
    let mut bytes = value.as_bytes();
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

impl<F> KeyExtractor for F
where
    F: Fn(&Parts, &mut KeyWriter<'_>) -> Result<Identity, KeyError> + Send + Sync + 'static,
{
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        self(parts, key)
    }
}

impl KeyExtractor for Arc<dyn KeyExtractor> {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        (**self).extract(parts, key)
    }

    fn challenge(&self) -> Option<HeaderValue> {
        (**self).challenge()
    }

    fn counts_rejections(&self) -> bool {
        (**self).counts_rejections()
    }
}
