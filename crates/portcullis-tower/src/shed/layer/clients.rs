//! Options that keep single clients from taking all places.

use super::ShedLayer;
use crate::body_rate::BodyRate;

impl ShedLayer {
    /// Sets the smallest rate at which the clients of requests in flight send their bodies, or `None` for any rate. A slower body ends with an
    /// error for its handler, which gives the place in flight back. By default 1 920 bytes in 30 s, which are 64 bytes per second, of the time
    /// in which a handler waits for the client. [`BodyRate`] has what is exempt.
    ///
    /// It applies to the body types of Axum and Tonic, and to `UnsyncBoxBody<Bytes, Box<dyn Error + Send + Sync>>`, which can have another body
    /// inside of them. A server with another type wraps its requests in front of the layer, by [`BodyRate::watch`].
    ///
    /// A layer in [shadow mode](Self::shadow) ends no body.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use portcullis_core::Secret;
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::shed::ShedLayer;
    /// use portcullis_tower::{BodyRate, Registry};
    ///
    /// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
    /// let layer = ShedLayer::new(&registry, 10..=500).body_rate(BodyRate::new(10_000, Duration::from_secs(10)));
    /// assert_eq!(layer.in_flight(), 0);
    /// ```
    #[must_use]
    pub fn body_rate(self, rate: impl Into<Option<BodyRate>>) -> Self {
        let rate = rate.into();
        self.with(|config| config.body_rate = rate)
    }
}
