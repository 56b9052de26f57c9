//! Keys that have to be looked up.

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{KeyWriter, Quota};

use super::{Identity, KeyError};
use crate::LookupCounts;

/// Looks up the identity that a request is charged to: the tenant of an API key, in a database or behind a cache.
///
/// The argument of `Limit::by_async`. Closures that return a future implement it. The
/// future owns its data, and is boxed; an extractor that need not wait should be a [`KeyExtractor`](crate::KeyExtractor), for
/// which nothing is boxed.
///
/// A look-up is started only if all policies of the layer with synchronous keys let the request pass, and has to complete
/// within the layer's deadline.
///
/// An error rejects the request. The response to [`KeyError::client`] is 400 or 401, as to a missing identity unless
/// `on_missing` is set. Return [`KeyError::server`] if the look-up fails because of the
/// server: the response is 503, as for a look-up that takes too long. An identity is missing only if the request has none:
/// [`Lookup::missing`] for a directory that is down would let unknown clients pass.
///
/// ```
/// use http::{Request, Response, request::Parts};
/// use portcullis::key::Lookup;
/// use portcullis::testing::{self, ManualClock};
/// use portcullis::{Policy, PolicyExt as _, Quota};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// async fn tenant_of(key: &[u8]) -> Option<String> {
///     key.starts_with(b"acme-").then(|| "acme".to_owned())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limit = Policy::gcra("all", Quota::per_minute(1)).by_async(|parts: &Parts| {
///     let key = parts.headers.get("x-api-key").cloned();
///     async move {
///         let Some(key) = key else { return Ok(Lookup::missing()) };
///         Ok(tenant_of(key.as_bytes()).await.map_or(Lookup::missing(), |tenant| Lookup::found("tenant", tenant)))
///     }
/// });
/// let service = testing::limiter(&ManualClock::default()).layer(limit).layer(service_fn(async |_: Request<String>| {
///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
/// }));
/// for (key, status) in [("acme-1", 200), ("acme-2", 429), ("made-up", 400)] {
///     let request = Request::builder().header("x-api-key", key).body(String::new())?;
///     assert_eq!(service.clone().oneshot(request).await?.status(), status);
/// }
/// # Ok(())
/// # }
/// ```
///
/// `Box<dyn AsyncKeyExtractor>` and `Arc<dyn AsyncKeyExtractor>` implement it too. A synchronous key does not:
///
/// ```compile_fail,E0277
/// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
///
/// let _ = Limiter::memory().layer(Policy::gcra("all", Quota::per_minute(1)).by_async(ClientIp::peer()));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a look-up of a key",
    label = "not an `AsyncKeyExtractor`",
    note = "pass a closure `|parts: &Parts|` that copies what it needs and returns `async move {{ .. }}`, a future that is \
            `Send`, owns its data, and has the output `Result<Lookup, KeyError>`",
    note = "a closure `async |parts: &Parts|` does not own its data, because its future borrows `parts`",
    note = "a key that need not be awaited, such as `ClientIp::peer()`, goes to `by`"
)]
pub trait AsyncKeyExtractor: Send + Sync + 'static {
    /// Starts a look-up.
    fn look_up(&self, parts: &Parts) -> LookupFuture;

    /// The challenge for a request whose identity is missing; see
    /// [`KeyExtractor::challenge`](crate::KeyExtractor::challenge).
    fn challenge(&self) -> Option<HeaderValue> {
        None
    }

    /// Returns what a client has to send. See [`KeyExtractor::expected`](crate::KeyExtractor::expected).
    fn expected(&self, parts: &Parts) -> Option<Cow<'static, str>> {
        let _ = parts;
        None
    }

    /// Returns what the key is, for people. See [`KeyExtractor::description`](crate::KeyExtractor::description). `lookup` by default.
    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed("lookup")
    }

    /// Is called with the counts of a limiter when one of its layers gets this look-up. Nothing is counted by default: an extractor
    /// that wraps another one, such as a [`CachedLookup`](crate::CachedLookup), calls the method of that one.
    fn count_in(&self, counts: &LookupCounts) {
        let _ = counts;
    }
}

/// A look-up in progress.
pub type LookupFuture = Pin<Box<dyn Future<Output = Result<Lookup, KeyError>> + Send>>;

// Without the attribute the compiler describes `Fn` in place of this trait.
#[diagnostic::do_not_recommend]
impl<F, Fut> AsyncKeyExtractor for F
where
    F: Fn(&Parts) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Lookup, KeyError>> + Send + 'static,
{
    fn look_up(&self, parts: &Parts) -> LookupFuture {
        Box::pin(self(parts))
    }
}

/// The result of a look-up.
///
/// ```
/// use portcullis::key::Lookup;
///
/// let found = Lookup::found("tenant", "acme").and("user", "ada");
/// assert_eq!(format!("{found:?}"), r#"Lookup { identity: Found, tags: ["tenant", "user"], .. }"#);
/// ```
#[derive(Clone, PartialEq, Eq)]
#[must_use]
pub struct Lookup {
    identity: Identity,
    parts: Vec<(&'static str, Vec<u8>)>,
    /// By the name of the policy.
    quotas: Vec<(Cow<'static, str>, Quota)>,
}

impl Lookup {
    /// An identity of one part, with a tag that distinguishes it from other identities.
    pub fn found(tag: &'static str, value: impl Into<Vec<u8>>) -> Self {
        Self { identity: Identity::Found, parts: vec![(tag, value.into())], quotas: Vec::new() }
    }

    /// Adds a part, if the identity is found.
    pub fn and(mut self, tag: &'static str, value: impl Into<Vec<u8>>) -> Self {
        self.parts.push((tag, value.into()));
        self
    }

    /// Sets the quota that the identity has under a policy whose key this is: that of a plan or a contract. It applies in place of
    /// the policy's own, and of what `Limit::quota` returns.
    ///
    /// It is one of the [quotas that the policy declares](portcullis_core::Policy::caller_quotas). For any other quota, or if the
    /// policy has another key, the policy's own quota applies, which is an event,
    /// `QuotaRefused`. A policy of another layer, whose look-up may be the same, is ignored here.
    ///
    /// ```
    /// use portcullis::Quota;
    /// use portcullis::key::Lookup;
    ///
    /// let found = Lookup::found("account", "acme").quota("daily", Quota::per_day(50_000));
    /// assert_eq!(format!("{found:?}"), r#"Lookup { identity: Found, tags: ["account"], .. }"#);
    /// ```
    pub fn quota(mut self, policy: impl Into<Cow<'static, str>>, quota: Quota) -> Self {
        self.quotas.push((policy.into(), quota));
        self
    }

    /// The request has no identity. The layer applies `OnMissing`.
    pub const fn missing() -> Self {
        Self { identity: Identity::Missing, parts: Vec::new(), quotas: Vec::new() }
    }

    /// The request is not limited by the policies that use this key. Decide it by what the look-up has verified.
    /// `except` exempts requests from the whole layer, without a look-up.
    pub const fn exempt() -> Self {
        Self { identity: Identity::Exempt, parts: Vec::new(), quotas: Vec::new() }
    }

    /// Whether the request has no identity.
    pub fn is_missing(&self) -> bool {
        self.identity == Identity::Missing
    }

    /// The quotas of the caller, by the names of policies.
    pub fn into_quotas(self) -> Vec<(Cow<'static, str>, Quota)> {
        self.quotas
    }

    /// Writes what was found into a key.
    pub fn write(&self, key: &mut KeyWriter<'_>) -> Identity {
        for (tag, value) in &self.parts {
            key.part(tag, value);
        }
        self.identity
    }
}

impl fmt::Debug for Lookup {
    /// Prints the kind of identity and the tags, but not the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tags: Vec<_> = self.parts.iter().map(|(tag, _)| tag).collect();
        f.debug_struct("Lookup")
            .field("identity", &self.identity)
            .field("tags", &tags)
            .finish_non_exhaustive()
    }
}
