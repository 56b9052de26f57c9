//! Names the route of a layer, for people.

use std::sync::Arc;

use crate::RateLimitLayer;

impl RateLimitLayer {
    /// Names the route that the layer is on, such as `GET /search`: for the line that the layer logs when it starts, and for
    /// [`Registry::layers`](crate::Registry::layers). It matches no requests.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use portcullis_core::{Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{Global, LayerBuilder, Registry};
    /// use tower::Layer as _;
    ///
    /// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
    /// let search = Policy::gcra("search", Quota::per_second(10));
    /// let service = LayerBuilder::new(Arc::clone(&registry), search).by(Global).route("GET /search").layer(());
    /// assert_eq!(registry.layers()[0].route(), Some("GET /search"));
    /// # drop(service);
    /// ```
    pub fn route(mut self, route: impl Into<Box<str>>) -> Self {
        Arc::make_mut(&mut self.config).route = Some(Arc::from(route.into()));
        self
    }
}
