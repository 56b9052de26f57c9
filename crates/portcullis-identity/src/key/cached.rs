//! Keeps what look-ups have found.

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{Key, Secret};

use super::combine::is_missing;
use super::{AsyncKeyExtractor, Identity, KeyError, KeyExtractor, Lookup, LookupFuture};
use crate::LookupCounts;
use crate::lookup_cache::LookupCache;

/// A look-up whose results are kept by what it looks up, such as an API key: the argument of
/// `Limit::by_async`.
///
/// A result is used for [60 s](Self::fresh_for), the quotas in it as well. Up to [10 000](Self::capacity) are kept, of which the
/// one that came first is replaced. Requests with one API key share a look-up that runs, unless it has run for longer than a
/// [deadline](Self::deadline). What is kept are identities that were found or are exempt. A missing identity and an error are not:
/// a new API key works at once, and made-up ones replace nothing that was found.
///
/// The API keys themselves are not kept, but their fingerprints by a secret of this value.
/// The metrics of a limiter count hits, look-ups and failures.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use http::{Request, Response, request::Parts};
/// use portcullis::key::{CachedLookup, Header, Lookup};
/// use portcullis::testing::{self, ManualClock};
/// use portcullis::{Policy, PolicyExt as _, Quota};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queries = Arc::new(AtomicUsize::new(0));
/// let database = Arc::clone(&queries);
/// let accounts = CachedLookup::new(Header::named("x-api-key"), move |_: &Parts| {
///     let database = Arc::clone(&database);
///     async move {
///         database.fetch_add(1, Ordering::Relaxed);
///         Ok(Lookup::found("account", "acme").quota("daily", Quota::per_day(50_000)))
///     }
/// });
/// let daily = Policy::fixed_window("daily", Quota::per_day(1_000))
///     .caller_quotas(Quota::per_day(1_000), Quota::per_day(100_000));
/// let layer = testing::limiter(&ManualClock::default()).layer(daily.by_async(accounts));
/// let service = layer.layer(service_fn(async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(()))));
/// for remaining in ["49999", "49998"] {
///     let request = Request::builder().header("x-api-key", "k-1").body(String::new())?;
///     assert_eq!(service.clone().oneshot(request).await?.headers()["x-ratelimit-remaining"], remaining);
/// }
/// assert_eq!(queries.load(Ordering::Relaxed), 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "a look-up finds nothing until a layer has it"]
pub struct CachedLookup {
    by: Box<dyn KeyExtractor>,
    look_up: Box<dyn AsyncKeyExtractor>,
    deadline: Duration,
    secret: Secret,
    cache: Arc<LookupCache<Result<Lookup, KeyError>>>,
}

impl CachedLookup {
    /// Keeps the results of `look_up` by what `by` extracts from a request. `by` has to extract all that the look-up depends on.
    /// If `by` finds no identity, nothing is looked up, and the identity is missing; likewise if it is exempt or malformed.
    pub fn new(by: impl KeyExtractor, look_up: impl AsyncKeyExtractor) -> Self {
        let random = || RandomState::new().build_hasher().finish();
        let entropy = (u128::from(random()) << 64 | u128::from(random())).to_le_bytes();
        Self {
            by: Box::new(by),
            look_up: Box::new(look_up),
            deadline: DEADLINE,
            secret: Secret::random_for_this_process(entropy),
            cache: Arc::new(LookupCache::new(is_kept, is_failed)),
        }
    }

    /// Sets for how long a result is used, 60 s by default. A change of a plan applies after this time at the latest, and a revoked
    /// key works for as long. With zero, nothing is kept, and requests share only a look-up that runs.
    pub fn fresh_for(mut self, time: Duration) -> Self {
        self.cache_mut().fresh_for = time;
        self
    }

    /// Sets how many results are kept, 10 000 by default. Each takes about 300 bytes, and its identity.
    pub fn capacity(mut self, results: NonZeroUsize) -> Self {
        self.cache_mut().capacity = results.get();
        self
    }

    /// Sets for how long requests join a look-up that runs, 1 s by default; a later one starts another. Use the
    /// deadline of the layer, after which requests wait no longer.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    fn cache_mut(&mut self) -> &mut LookupCache<Result<Lookup, KeyError>> {
        Arc::get_mut(&mut self.cache).expect("only look-ups share it, and none was started")
    }

    /// What the results are kept by; otherwise the result of the look-up.
    fn key(&self, parts: &Parts) -> Result<Key, Result<Lookup, KeyError>> {
        let mut hasher = self.secret.hasher();
        match self.by.extract(parts, &mut hasher.writer()) {
            Ok(Identity::Found) => hasher.finish().map_err(|error| Err(error.into())),
            Ok(Identity::Missing) => Err(Ok(Lookup::missing())),
            Ok(Identity::Exempt) => Err(Ok(Lookup::exempt())),
            Err(error) => Err(Err(error)),
        }
    }
}

impl AsyncKeyExtractor for CachedLookup {
    fn look_up(&self, parts: &Parts) -> LookupFuture {
        let key = match self.key(parts) {
            Ok(key) => key,
            Err(result) => return Box::pin(std::future::ready(result)),
        };
        let shared = self.cache.join(key.fingerprint(), self.deadline, || self.look_up.look_up(parts));
        Box::pin(async move {
            shared
                .await
                .unwrap_or_else(|| Err(KeyError::server("a look-up has panicked for another request")))
        })
    }

    fn challenge(&self) -> Option<HeaderValue> {
        self.look_up.challenge().or_else(|| self.by.challenge())
    }

    /// That of what is looked up, if it is missing. What is there and was not found is no key.
    fn expected(&self, parts: &Parts) -> Option<Cow<'static, str>> {
        let is_missing = is_missing(&*self.by, parts);
        if is_missing { self.by.expected(parts) } else { self.look_up.expected(parts) }
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Owned(format!("lookup by {}", self.by.description()))
    }

    fn count_in(&self, counts: &LookupCounts) {
        self.cache.count_in(counts);
        self.look_up.count_in(counts);
    }
}

impl fmt::Debug for CachedLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedLookup")
            .field("fresh_for", &self.cache.fresh_for)
            .field("capacity", &self.cache.capacity)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

fn is_kept(result: &Result<Lookup, KeyError>) -> bool {
    result.as_ref().is_ok_and(|found| !found.is_missing())
}

fn is_failed(result: &Result<Lookup, KeyError>) -> bool {
    result.as_ref().is_err_and(|error| !error.is_client_fault())
}

/// The default deadline of a layer.
const DEADLINE: Duration = Duration::from_secs(1);
