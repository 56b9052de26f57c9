//! Looks up the quota of a key, and keeps it for a time.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use portcullis_core::{Key, Quota};

use crate::LookupCounts;
use portcullis_identity::KeyError;
use portcullis_identity::lookup_cache::{BoxedLookup, LookupCache, SharedLookup};

/// Looks up the quota of a caller whose key need not be looked up: the argument of
/// [`Limit::quota_by_async`](crate::Limit::quota_by_async).
///
/// The results are kept by the key of the policy: each for [60 s](Self::fresh_for), for up to [10 000 keys](Self::capacity), of
/// which the one that came first is replaced. Requests with one key share a look-up that runs. A failure is not kept.
///
/// Clones share what is kept. For keys that clients choose, add a policy by address: it bounds the look-ups that made-up keys
/// cause, and how many kept results they replace.
///
/// ```
/// use http::{Request, Response, request::Parts};
/// use portcullis::key::Header;
/// use portcullis::layer::QuotaLookup;
/// use portcullis::testing::{self, ManualClock};
/// use portcullis::{Policy, PolicyExt as _, Quota};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// async fn contract_of(user: &[u8]) -> Option<Quota> {
///     (user == b"ada").then(|| Quota::per_day(50_000))
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = testing::limiter(&ManualClock::default());
/// let contracts = QuotaLookup::new(|parts: &Parts| {
///     let user = parts.headers.get("x-user").cloned();
///     async move {
///         let Some(user) = user else { return Ok(None) };
///         Ok(contract_of(user.as_bytes()).await)
///     }
/// });
/// let daily = Policy::fixed_window("daily", Quota::per_day(1_000))
///     .caller_quotas(Quota::per_day(1_000), Quota::per_day(100_000));
/// let layer = limiter.layer(daily.by(Header::named("x-user")).quota_by_async(contracts));
/// let service = layer.layer(service_fn(async |_: Request<String>| {
///     Ok::<_, std::convert::Infallible>(Response::new(()))
/// }));
/// for (user, limit) in [("ada", "50000"), ("bob", "1000")] {
///     let request = Request::builder().header("x-user", user).body(String::new())?;
///     assert_eq!(service.clone().oneshot(request).await?.headers()["x-ratelimit-limit"], limit);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a look-up finds nothing until a layer has it"]
pub struct QuotaLookup {
    look_up: Arc<LookUp>,
    cache: Arc<LookupCache<Found>>,
}

type LookUp = dyn Fn(&Parts) -> BoxedLookup<Found> + Send + Sync;
/// `None` is the quota of the policy.
pub(crate) type Found = Result<Option<Quota>, KeyError>;

impl QuotaLookup {
    /// Uses the quota that `look_up` finds; `None` is the quota of the policy.
    ///
    /// The future owns its data: pass a closure `|parts: &Parts|` that copies what it needs and returns `async move { .. }`. A
    /// closure `async |parts: &Parts|` does not compile, because its future borrows `parts`.
    pub fn new<F, Fut>(look_up: F) -> Self
    where
        F: Fn(&Parts) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Quota>, KeyError>> + Send + 'static,
    {
        let look_up = Arc::new(move |parts: &Parts| Box::pin(look_up(parts)) as BoxedLookup<Found>);
        Self { look_up, cache: Arc::new(LookupCache::new(Result::is_ok, Result::is_err)) }
    }

    /// Sets for how long a result is used, 60 s by default. A change of a plan applies after this time at the latest. With zero,
    /// nothing is kept, and requests share only a look-up that runs.
    pub fn fresh_for(self, time: Duration) -> Self {
        let capacity = self.cache.capacity;
        self.with(time, capacity)
    }

    /// Sets the number of keys whose results are kept, 10 000 by default. Each takes about 200 bytes.
    pub fn capacity(self, keys: NonZeroUsize) -> Self {
        let fresh_for = self.cache.fresh_for;
        self.with(fresh_for, keys.get())
    }

    /// Returns this look-up with an empty cache.
    fn with(self, fresh_for: Duration, capacity: usize) -> Self {
        let mut cache = LookupCache::new(Result::is_ok, Result::is_err);
        (cache.fresh_for, cache.capacity) = (fresh_for, capacity);
        Self { cache: Arc::new(cache), ..self }
    }

    pub(crate) fn count_in(&self, counts: &LookupCounts) {
        self.cache.count_in(counts);
    }

    /// What was found for a key, if it is kept.
    pub(crate) fn kept(&self, key: Key) -> Option<Found> {
        self.cache.fresh(key.fingerprint())
    }

    /// Like `kept`, and not counted.
    pub(crate) fn peek(&self, key: Key) -> Option<Found> {
        self.cache.peek(key.fingerprint())
    }

    pub(crate) fn find(&self, key: Key, deadline: Duration, parts: &Parts) -> SharedLookup<Found> {
        self.cache.join(key.fingerprint(), deadline, || (self.look_up)(parts))
    }
}

impl fmt::Debug for QuotaLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuotaLookup")
            .field("fresh_for", &self.cache.fresh_for)
            .field("capacity", &self.cache.capacity)
            .finish_non_exhaustive()
    }
}
