//! Keys: what identifies the client that is charged.
//!
//! An extractor reads a key from a request. Extractors are joined by [`KeyExtractor::and`] and [`KeyExtractor::or`].
//!
//! ```
//! use portcullis::key::{Header, KeyExtractor as _, Route};
//! use portcullis::{ClientIp, Limiter, Policy, Quota};
//!
//! let by_key_or_address = Header::named("x-api-key").or(ClientIp::peer());
//! let layer = Limiter::memory()
//!     .layer(Policy::gcra("calls", Quota::per_second(10)))
//!     .by(by_key_or_address.and(Route::matched_path()));
//! # let _ = layer;
//! ```

pub use portcullis_core::{Key, KeyWriteError, KeyWriter};
pub use portcullis_tower::{
    And, AsyncKeyExtractor, Bearer, ClientIp, ClientIpError, Cookie, Credential, Extension, Global, Header,
    Identity, IpPrefix, KeyError, KeyExtractor, Lookup, LookupFuture, Or, Query, Route, Trust, TrustError,
    TrustedProxies,
};
