//! Keys of requests, and matchers for lists and rules, for the doors of [Portcullis](https://docs.rs/portcullis).
//!
//! A [`KeyExtractor`] writes the identity that a request is charged to, an [`AsyncKeyExtractor`] looks it up, and a
//! [`RequestMatcher`](matching::RequestMatcher) tells which requests something applies to.
// Badges of features on docs.rs, whose rustdoc is nightly.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod host;
mod key;
pub mod lists;
pub mod lookup_cache;
pub mod matching;
mod method;
mod path_key;
mod written_path;

#[doc(hidden)]
pub use key::header_name;
pub(crate) use key::without_whitespace;
pub use key::{
    And, AsyncKeyExtractor, Bearer, CachedLookup, ClientIp, ClientIpError, Cookie, Credential, Extension,
    Global, Header, Host, Identity, IpPrefix, KeyBytes, KeyError, KeyExtractor, KeyForms, Lookup,
    LookupFuture, NamedPart, Networks, Or, PREFLIGHT, ProxiesWithoutHeader, Query, Route, TaggedPart, Trust,
    TrustError, peer,
};
pub use lookup_cache::LookupCounts;
pub use path_key::PathKey;
pub use portcullis_core::KeyWriter;
