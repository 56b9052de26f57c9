//! What a registry reports about itself.

use std::any::Any;
use std::sync::{Arc, Weak};

use portcullis_core::store::Figure;

use super::Registry;
use crate::LookupCounts;

impl Registry {
    /// Visits the figures of the look-ups of all layers, and of those that shed load, in the form of those of a [store](portcullis_core::store::Store::figures). It
    /// does no I/O.
    ///
    /// | figure | kind | meaning |
    /// |---|---|---|
    /// | `lookup_hits` | counter | results that were taken from the cache of a [`CachedLookup`](crate::CachedLookup) or [`QuotaLookup`](crate::QuotaLookup) |
    /// | `lookups` | counter | look-ups that these have started: misses |
    /// | `lookups_joined` | counter | requests that joined a look-up that another request had started |
    /// | `lookups_failed` | counter | look-ups of these that ended by an [error of the server](crate::KeyError::server), or a panic |
    /// | `lookups_timed_out` | counter | waits of requests that were ended by the [deadline](crate::RateLimitLayer::lookup_deadline), also for look-ups without a cache |
    /// | `lookup_entries` | gauge | results that are kept, those included that are too old to be used |
    /// | `shed_limit` | gauge | requests in flight that the layers that shed load allow now; only with such a layer, as the next |
    /// | `shed_in_flight` | gauge | requests in flight in these layers |
    ///
    /// A look-up that layers of several registries share counts for the first of them.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use http::{Request, Response, request::Parts};
    /// use portcullis_core::{ManualClock, Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{CachedLookup, Header, Lookup, PolicyExt as _, RateLimitLayer, Registry};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryStore::builder().clock(ManualClock::default()).build();
    /// let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    /// let acme = |_: &Parts| async { Ok(Lookup::found("account", "acme")) };
    /// let accounts = CachedLookup::new(Header::named("x-api-key"), acme);
    /// let all = Policy::gcra("all", Quota::per_second(100).burst(100));
    /// let layer = RateLimitLayer::new(Arc::clone(&registry), all.by_async(accounts));
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(()))
    /// }));
    /// for _ in 0..5 {
    ///     let request = Request::builder().header("x-api-key", "k-1").body(String::new())?;
    ///     assert_eq!(service.clone().oneshot(request).await?.status(), 200);
    /// }
    /// let mut figures = Vec::new();
    /// registry.figures(&mut |figure| figures.push((figure.name, figure.value)));
    /// assert!(figures.contains(&("lookup_hits", 4)) && figures.contains(&("lookups", 1)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        self.lookup_counts.figures(visit);
        self.shed_layers.figures(visit);
    }

    /// Returns what identifies this registry, as long as it or a layer of it exists.
    // For the metrics, which add up the figures of several registries.
    #[doc(hidden)]
    pub fn instance(&self) -> Weak<dyn Any + Send + Sync> {
        let engine: Weak<_> = Arc::downgrade(&self.engine);
        engine
    }

    pub(crate) fn lookup_counts(&self) -> &LookupCounts {
        &self.lookup_counts
    }
}
