//! Callers that have to be looked up.

use std::fmt;
use std::pin::Pin;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError};

/// Finds out who is calling where that takes waiting: the tenant of an API key, in a database or behind a cache.
///
/// Given to [`LayerBuilder::by_async`](crate::LayerBuilder::by_async). Closures that return a future are such extractors.
/// The future owns what it needs of the request, and is boxed; an extractor that need not wait is better a
/// [`KeyExtractor`](crate::KeyExtractor), for which nothing is.
///
/// A look-up is started only if all policies of the layer with synchronous keys let the request pass, and has until the
/// layer's [deadline](crate::RateLimitLayer::lookup_deadline).
///
/// An error is the end of the request. [`KeyError::client`] is answered 400 or 401, and so is a missing identity unless
/// [`on_missing`](crate::RateLimitLayer::on_missing) says otherwise. A look-up that fails by the server's fault is
/// [`KeyError::server`] and answered 503, as one that takes too long. An identity is missing only if the request has none:
/// [`Lookup::missing`] for a directory that is down would let callers pass who are not known.
///
/// ```
/// # mod support { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support.rs")); }
/// use http::{Request, Response, request::Parts};
/// use portcullis_core::{Policy, Quota};
/// use portcullis_tower::{LayerBuilder, Lookup};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// async fn tenant_of(key: &[u8]) -> Option<String> {
///     key.starts_with(b"acme-").then(|| "acme".to_owned())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let registry = support::registry();
/// let layer = LayerBuilder::new(registry, Policy::gcra("all", Quota::per_minute(1))).by_async(|parts: &Parts| {
///     let key = parts.headers.get("x-api-key").cloned();
///     async move {
///         let Some(key) = key else { return Ok(Lookup::missing()) };
///         Ok(tenant_of(key.as_bytes()).await.map_or(Lookup::missing(), |tenant| Lookup::found("tenant", tenant)))
///     }
/// });
/// let service = layer.layer(service_fn(async |_: Request<String>| {
///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
/// }));
/// for (key, status) in [("acme-1", 200), ("acme-2", 429), ("made-up", 400)] {
///     let request = Request::builder().header("x-api-key", key).body(String::new())?;
///     assert_eq!(service.clone().oneshot(request).await?.status(), status);
/// }
/// # Ok(())
/// # }
/// ```
pub trait AsyncKeyExtractor: Send + Sync + 'static {
    /// Starts to look the caller up.
    fn look_up(&self, parts: &Parts) -> LookupFuture;

    /// What to ask of a request whose identity is missing; see
    /// [`KeyExtractor::challenge`](crate::KeyExtractor::challenge).
    fn challenge(&self) -> Option<HeaderValue> {
        None
    }
}

/// A look-up on its way.
pub type LookupFuture = Pin<Box<dyn Future<Output = Result<Lookup, KeyError>> + Send>>;

impl<F, Fut> AsyncKeyExtractor for F
where
    F: Fn(&Parts) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Lookup, KeyError>> + Send + 'static,
{
    fn look_up(&self, parts: &Parts) -> LookupFuture {
        Box::pin(self(parts))
    }
}

/// What a look-up found.
///
/// ```
/// use portcullis_tower::Lookup;
///
/// let found = Lookup::found("tenant", "acme").and("user", "ada");
/// assert_eq!(format!("{found:?}"), r#"Lookup { identity: Found, tags: ["tenant", "user"], .. }"#);
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub struct Lookup {
    identity: Identity,
    parts: Vec<(&'static str, Vec<u8>)>,
}

impl Lookup {
    /// An identity of one part, under a tag that tells it from other identities.
    pub fn found(tag: &'static str, value: impl Into<Vec<u8>>) -> Self {
        Self { identity: Identity::Found, parts: vec![(tag, value.into())] }
    }

    /// Adds a part, if the identity is found.
    pub fn and(mut self, tag: &'static str, value: impl Into<Vec<u8>>) -> Self {
        self.parts.push((tag, value.into()));
        self
    }

    /// The request has no identity. The layer goes by [`OnMissing`](crate::OnMissing).
    pub const fn missing() -> Self {
        Self { identity: Identity::Missing, parts: Vec::new() }
    }

    /// This request is not limited by the policies that use this key.
    pub const fn exempt() -> Self {
        Self { identity: Identity::Exempt, parts: Vec::new() }
    }

    pub(crate) fn write(&self, key: &mut KeyWriter<'_>) -> Identity {
        for (tag, value) in &self.parts {
            key.part(tag, value);
        }
        self.identity
    }
}

impl fmt::Debug for Lookup {
    /// Says what was found and under which tags, never the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tags: Vec<_> = self.parts.iter().map(|(tag, _)| tag).collect();
        f.debug_struct("Lookup")
            .field("identity", &self.identity)
            .field("tags", &tags)
            .finish_non_exhaustive()
    }
}
