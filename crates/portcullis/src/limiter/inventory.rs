//! What a limiter limits.

use portcullis_core::Policy;
use portcullis_tower::LayerSummary;

use super::Limiter;

impl Limiter {
    /// Returns the layers that limit services now, with their policies, modes and keys, and the rules of files, in the
    /// order in which they were applied. At most 10 000; layers beyond that number limit and are not listed.
    ///
    /// ```
    /// use axum::Router;
    /// use axum::routing::get;
    /// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let limiter = Limiter::memory();
    /// let search = Policy::token_bucket("search", Quota::per_second(10).burst(20));
    /// let app: Router = Router::new()
    ///     .route("/search", get(|| async { "found" }))
    ///     .layer(limiter.layer(search.by(ClientIp::peer())).route("GET /search"));
    ///
    /// let layers = limiter.layers();
    /// assert_eq!(layers[0].route(), Some("GET /search"));
    /// let expected = "search: token_bucket 10/s burst 20 by client_ip, enforce, if the store fails: local, whole limit";
    /// assert_eq!(layers[0].policies()[0].to_string(), expected);
    /// # drop(app);
    /// ```
    pub fn layers(&self) -> Vec<LayerSummary> {
        self.registry.layers()
    }

    /// Returns all policies of this limiter as they are now, in alphabetical order of their names.
    pub fn policies(&self) -> Vec<Policy> {
        self.registry.policies()
    }
}
