//! Keys: what identifies the client that is charged.
//!
//! An extractor reads a key from a request. Extractors are joined by [`KeyExtractor::and`] and [`KeyExtractor::or`].
//!
//! ```
//! use portcullis::key::{Extension, KeyExtractor as _, Route};
//! use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
//!
//! // Authentication, outside of the limit, puts a `User` into the extensions of a request.
//! struct User(String);
//!
//! let by_user = Extension::<User>::with(|user, key| key.part("user", user.0.as_bytes()));
//! let layer = Limiter::memory()
//!     .layer(Policy::gcra("calls", Quota::per_second(10)).by(by_user.or(ClientIp::peer()).and(Route::matched_path())));
//! # let _ = layer;
//! ```
//!
//! A client can send a new API key with each request. Where nothing has verified the key before the layer, add a policy by
//! address, which is charged in the same decision:
//!
//! ```
//! use portcullis::key::Header;
//! use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
//!
//! let layer = Limiter::memory()
//!     .layer(Policy::gcra("per-key", Quota::per_minute(60).burst(5)).by(Header::named("x-api-key")))
//!     .and(Policy::gcra("per-address", Quota::per_minute(60).burst(20)).by(ClientIp::peer()));
//! # let _ = layer;
//! ```
//!
//! # Parts of a key
//!
//! An extractor writes tagged parts, and the same parts in the same order give the same key:
//! [`Limiter::key`](crate::Limiter::key) names a client for [`peek`](crate::Limiter::peek) and
//! [`reset`](crate::Limiter::reset). [`Limiter::key_of`](crate::Limiter::key_of) lets the extractor itself write them.
//! [`KeyWriter::shared_part`] writes the parts that do not identify a client.
//!
//! | extractor | tags of its parts, in order | values |
//! |---|---|---|
//! | [`ClientIp`], IPv4 | `ipv4` | the four bytes of the network and a byte with the length of its prefix: [`IpPrefix::write`] |
//! | [`ClientIp`], IPv6 | `ipv6` | the sixteen bytes of the network and a byte with the length of its prefix: [`IpPrefix::write`] |
//! | [`Header`] | `header`, `header name` | the value without whitespace around it; the name in lower case |
//! | [`Bearer`] | `bearer` | the token |
//! | [`Cookie`] | `cookie`, `cookie name` | the value as it was sent; the name |
//! | [`Query`] | `query`, `query name` | the decoded value; the name |
//! | [`Extension::new`] | [`type_name`](std::any::type_name) of the type | the bytes of the value |
//! | [`Host`] | `host`, shared | the name in lower case, without its port |
//! | [`PathKey::whole`] | `path`, shared | the path in its one reading |
//! | [`PathKey::of`] | `path segment` for each segment, `path pattern`, shared | what is in place of each parameter; the pattern |
//! | [`Route::matched_path`] | `route`, shared | the path of the route |
//! | [`Route::http_method`] | `http method`, shared | the method, empty for unknown ones |
//! | [`Route::grpc_service`] | `grpc service`, shared | the service |
//! | [`Route::grpc_method`] | `grpc method`, shared | `service/method` |
//! | [`Global`] | `global`, shared | empty |
//! | [`OnMissing::Shared`](crate::OnMissing::Shared) | `portcullis.missing`, shared | empty; the only part |
//! | a CORS preflight | `portcullis.preflight`, shared | empty; behind the parts of the key |

pub use portcullis_core::{Key, KeyWriteError, KeyWriter};
pub use portcullis_tower::matching::{PathPattern, PatternError};
pub use portcullis_tower::{
    And, AsyncKeyExtractor, Bearer, CachedLookup, ClientIp, ClientIpError, Cookie, Credential, Extension,
    Global, Header, Host, Identity, IpPrefix, KeyBytes, KeyError, KeyExtractor, KeyForms, Lookup,
    LookupCounts, LookupFuture, NamedPart, Networks, Or, PathKey, ProxiesWithoutHeader, Query, Route,
    TaggedPart, Trust, TrustError,
};
