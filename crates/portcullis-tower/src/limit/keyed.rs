//! What a layer begins with.

use super::Limit;

/// What makes a layer: a [`Limit`], whose key is named. A [`Policy`](portcullis_core::Policy) becomes one by its key,
/// [`PolicyExt::by`](crate::PolicyExt::by), so that this does not compile:
///
/// ```compile_fail,E0277
/// use std::sync::Arc;
///
/// use portcullis_core::{Policy, Quota, Secret};
/// use portcullis_memory::MemoryStore;
/// use portcullis_tower::{RateLimitLayer, Registry};
///
/// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
/// let _ = RateLimitLayer::new(registry, Policy::gcra("search", Quota::per_second(10)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no key that requests are charged to",
    label = "write `.by(..)` behind it",
    note = "name its key: `policy.by(ClientIp::peer())`, `policy.by(Header::named(\"x-api-key\"))` or, for one budget of all \
            clients, `policy.by(Global)`, with `use portcullis::PolicyExt as _`",
    note = "a policy with the key of the limit before it goes to `.and(..)` of the layer"
)]
pub trait KeyedLimit: Into<Limit> {}

impl KeyedLimit for Limit {}
