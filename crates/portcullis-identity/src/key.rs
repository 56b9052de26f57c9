//! The keys that requests are charged to.

mod bearer;
mod cached;
mod client_ip;
mod combine;
mod cookie;
mod credential;
mod dynamic;
mod error;
mod extension;
mod global;
mod header;
mod host;
mod lookup;
mod named;
mod only_line;
mod query;
mod route;

use std::borrow::Cow;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{KeyWriter, or_panic};

pub use bearer::Bearer;
pub use cached::CachedLookup;
pub use client_ip::peer;
pub use client_ip::{ClientIp, ClientIpError, IpPrefix, Networks, ProxiesWithoutHeader, Trust, TrustError};
pub use combine::{And, Or};
pub use cookie::Cookie;
pub use credential::Credential;
pub use error::KeyError;
pub use extension::{Extension, KeyBytes};
pub use global::Global;
pub use header::Header;
#[doc(hidden)]
pub use header::header_name;
pub use host::Host;
pub use lookup::{AsyncKeyExtractor, Lookup, LookupFuture};
pub use named::{KeyForms, NamedPart, PREFLIGHT, TaggedPart};
pub use query::Query;
pub use route::Route;

/// Extracts the identity that a request is charged to.
///
/// An extractor writes tagged parts; the layer makes a keyed fingerprint of them, so that no store and no log contains an
/// identity. Closures are extractors.
///
/// Everything in a request except its extensions is chosen by the client, including the host, the path and every header. An
/// extractor that exempts requests by these values exempts every client. This one uses values that the server determined:
///
/// ```
/// use std::net::SocketAddr;
///
/// use http::Request;
/// use http::request::Parts;
/// use portcullis::key::{Identity, KeyError, KeyExtractor, KeyWriter};
/// use portcullis::{ClientIp, Secret};
///
/// /// Inserted into the request by authentication, which runs outside of the limit.
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
/// // A client without a tenant is charged by address, regardless of its headers.
/// let peer = SocketAddr::from(([192, 0, 2, 1], 1024));
/// let request = Request::get("http://monitoring.example.com/").header("x-tenant", "monitoring").extension(peer);
/// let (mut parts, ()) = request.body(())?.into_parts();
/// let identity = |parts: &Parts| key.extract(parts, &mut Secret::published().hasher().writer());
/// assert_eq!(identity(&parts), Ok(Identity::Found));
///
/// parts.extensions.insert(Tenant { id: 17, is_our_monitoring: true, is_suspended: false });
/// assert_eq!(identity(&parts), Ok(Identity::Exempt));
/// # Ok::<(), http::Error>(())
/// ```
///
/// `Box<dyn KeyExtractor>` and `Arc<dyn KeyExtractor>` are extractors too, for keys that are chosen at run time:
///
/// ```
/// use portcullis::ClientIp;
/// use portcullis::key::{Header, KeyExtractor};
///
/// fn key(has_api_keys: bool) -> Box<dyn KeyExtractor> {
///     if has_api_keys { Box::new(Header::named("x-api-key")) } else { Box::new(ClientIp::peer()) }
/// }
/// assert!(!key(true).counts_rejections() && key(false).counts_rejections());
/// ```
///
/// Other values are not keys, and neither are closures that return a future:
///
/// ```compile_fail,E0277
/// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
///
/// let _ = Limiter::memory().layer(Policy::gcra("search", Quota::per_second(10)).by("x-api-key"));
/// ```
///
/// ```compile_fail,E0277
/// use http::request::Parts;
/// use portcullis::key::{Identity, KeyError, KeyWriter};
/// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
///
/// let limiter = Limiter::memory();
/// let _ = limiter.layer(Policy::gcra("search", Quota::per_second(10)).by(|_: &Parts, _: &mut KeyWriter<'_>| async { Ok::<_, KeyError>(Identity::Missing) }));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key that requests can be charged to",
    label = "not a `KeyExtractor`",
    note = "pass an extractor, such as `ClientIp::peer()` or `Header::named(\"x-api-key\")`, or a closure \
            `|parts: &Parts, key: &mut KeyWriter<'_>|` that returns `Result<Identity, KeyError>`",
    note = "`ClientIp::behind(..)` becomes a key by the header that its proxies write: `.x_forwarded_for()`, `.forwarded()` \
            or `.header(\"x-real-ip\")`",
    note = "a key that has to be awaited goes to `by_async`, as a closure `|parts: &Parts|` that returns a future"
)]
pub trait KeyExtractor: Send + Sync + 'static {
    /// Writes the identity of the client to `key`, at least one part if it is [`Identity::Found`].
    ///
    /// Parts that are written before any other result are discarded.
    ///
    /// # Errors
    ///
    /// If the request has an identity that cannot be accepted, or the server is not configured to determine it.
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError>;

    /// The value of `WWW-Authenticate` in the 401 response to a request that is rejected because its identity is missing.
    /// Without one, as by default, the response is 400.
    fn challenge(&self) -> Option<HeaderValue> {
        None
    }

    /// Returns whether a request stays charged to this key if it is rejected because its identity is missing or malformed
    /// under another policy of the layer. If so, the response is 429 once this budget is used up, which limits guesses.
    ///
    /// `false` by default. Return `true` only for identities that a client cannot choose: otherwise a client could use up the
    /// budget of another one with requests that are never admitted. [`ClientIp`] returns `true`. For [`and`](Self::and) one of
    /// the two is enough, because the key contains both; for [`or`](Self::or) both must return `true`, because the key may be
    /// either one. `Limit::count_rejections` sets it for one policy.
    fn counts_rejections(&self) -> bool {
        false
    }

    /// Returns whether a client can choose this key at will, because nothing has verified it. A policy with such a key cannot be
    /// enforced for a share of its keys: a client would change its key until it is not in the share.
    ///
    /// `false` by default. [`Header`], [`Query`], [`Cookie`], [`Bearer`], [`PathKey`](crate::PathKey) and [`Host`] return `true`; an [`Extension`] with the identity
    /// that authentication found returns `false`. For [`and`](Self::and) the left half counts, whose first part determines the
    /// share; for [`or`](Self::or) one of the two is enough, because the key may be either one.
    ///
    /// ```
    /// use portcullis::ClientIp;
    /// use portcullis::key::{Header, KeyExtractor, Route};
    ///
    /// let api_key = || Header::named("x-api-key");
    /// assert!(api_key().is_chosen_by_client() && !ClientIp::peer().is_chosen_by_client());
    /// assert!(api_key().or(ClientIp::peer()).is_chosen_by_client());
    /// assert!(!ClientIp::peer().and(api_key()).is_chosen_by_client());
    /// ```
    fn is_chosen_by_client(&self) -> bool {
        false
    }

    /// Returns whether all keys of this extractor are [shared](portcullis_core::Key::is_shared) by unrelated clients, because it
    /// writes no part that distinguishes them. A policy with such a key has no
    /// lock-out: it would lock all clients out.
    ///
    /// `false` by default. [`Global`], [`Route`], [`PathKey`](crate::PathKey) and [`Host`] return `true`; [`and`](Self::and) and [`or`](Self::or) if both halves do.
    ///
    /// ```
    /// use portcullis::ClientIp;
    /// use portcullis::key::{Global, KeyExtractor, Route};
    ///
    /// assert!(Global.is_shared() && Global.and(Route::http_method()).is_shared());
    /// assert!(!ClientIp::peer().is_shared() && !ClientIp::peer().and(Route::http_method()).is_shared());
    /// ```
    fn is_shared(&self) -> bool {
        false
    }

    /// Returns what the key is, for people who read the layers of a service or the line that a layer logs when
    /// it starts. It contains no value of a request.
    ///
    /// `custom` by default, as for closures.
    ///
    /// ```
    /// use portcullis::ClientIp;
    /// use portcullis::key::{Header, KeyExtractor};
    ///
    /// let key = Header::named("x-api-key").or(ClientIp::peer());
    /// assert_eq!(key.description(), "header x-api-key or client_ip");
    /// ```
    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed("custom")
    }

    /// Returns what a client has to send so that this request has the identity, such as `the header x-api-key`: the response to a
    /// request whose identity is missing says it, unless `Limit::hide_key` is set. Called for such requests only.
    ///
    /// `None` by default, as for closures and for what the server determines.
    ///
    /// ```
    /// use http::Request;
    /// use portcullis::key::{Header, KeyExtractor, Query};
    ///
    /// let (parts, ()) = Request::new(()).into_parts();
    /// let key = Header::named("x-api-key").or(Query::named("api_key"));
    /// assert_eq!(key.expected(&parts).as_deref(), Some("the header x-api-key or the query parameter api_key"));
    /// ```
    fn expected(&self, parts: &Parts) -> Option<Cow<'static, str>> {
        let _ = parts;
        None
    }

    /// Returns the forms that its keys have, for operators who name a client by the parts of its key, as in the admin API.
    ///
    /// Unknown by default, as for closures: what an operator writes is then taken as it is.
    ///
    /// ```
    /// use portcullis::ClientIp;
    /// use portcullis::key::{KeyExtractor, Query};
    ///
    /// let key = ClientIp::peer().and(Query::named("email"));
    /// assert_eq!(key.forms().to_string(), "ip=203.0.113.20, query email=ada");
    /// ```
    fn forms(&self) -> KeyForms {
        KeyForms::unknown()
    }

    /// Makes this identity a credential: a request that is rejected because it is missing or malformed gets 401 with
    /// `challenge` in `WWW-Authenticate`, in gRPC `UNAUTHENTICATED`. [`Bearer`] is a credential already.
    ///
    /// A challenge from configuration or input is parsed to a `HeaderValue` first.
    ///
    /// ```
    /// use portcullis::key::{Header, KeyExtractor};
    ///
    /// let api_key = Header::named("x-api-key").credential("ApiKey");
    /// assert_eq!(api_key.challenge().expect("it is a credential"), "ApiKey");
    /// ```
    ///
    /// # Panics
    ///
    /// If `challenge` is a text that is not a valid value of a header, as one with a line break.
    #[track_caller]
    fn credential(self, challenge: impl AsRef<[u8]>) -> Credential<Self>
    where
        Self: Sized,
    {
        let challenge = HeaderValue::from_bytes(challenge.as_ref());
        Credential::new(
            self,
            or_panic(challenge.map_err(|error| format!("a challenge is no value of a header: {error}"))),
        )
    }

    /// Combines two identities into one: a user *on* a route.
    ///
    /// The extractors run from left to right, and the first error or exemption is the result; otherwise the identity is missing
    /// if either half is. An exempt client stays exempt if it omits the other half, and omitting a half exempts no client.
    fn and<K: KeyExtractor>(self, other: K) -> And<Self, K>
    where
        Self: Sized,
    {
        And::new(self, other)
    }

    /// Uses the other identity where this one is missing. An error is returned unchanged: a malformed credential does not make
    /// the request one of another identity.
    fn or<K: KeyExtractor>(self, other: K) -> Or<Self, K>
    where
        Self: Sized,
    {
        Or::new(self, other)
    }
}

/// The result of an extractor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
// Exhaustive: extractors build it, and those that wrap others handle each case.
pub enum Identity {
    /// The identity is written to the key.
    Found,
    /// The request has no identity. The layer applies `OnMissing`.
    Missing,
    /// The request is not limited by the policies that use this key. Decide it by values that the server determined: a value
    /// that a client can send, such as a host or a header, exempts every client that sends it.
    Exempt,
}

/// The value of a field without the optional whitespace around it, which parsers of HTTP/1.1 remove and those of HTTP/2
/// may pass on.
///
/// Source: RFC 9110, section 5.5; RFC 9113, section 8.2.1.
#[inline]
pub(crate) fn without_whitespace(value: &HeaderValue) -> &[u8] {
    match value.as_bytes() {
        bytes @ ([b' ' | b'\t', ..] | [.., b' ' | b'\t']) => trimmed(bytes),
        bytes => bytes,
    }
}

#[cold]
fn trimmed(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

// Without the attribute the compiler describes `Fn` in place of this trait.
#[diagnostic::do_not_recommend]
impl<F> KeyExtractor for F
where
    F: Fn(&Parts, &mut KeyWriter<'_>) -> Result<Identity, KeyError> + Send + Sync + 'static,
{
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        self(parts, key)
    }
}
