//! Load shedding.

use std::ops::RangeInclusive;

use portcullis_shed::{ShedError, ShedLayer};

use super::Limiter;

impl Limiter {
    /// Makes a layer that rejects requests while the service is overloaded, the least important ones first: 503, with a spread
    /// `Retry-After`. It adapts its limit on requests in flight within this range, beginning at the floor. See [`shed`](crate::shed) and
    /// [Load shedding](crate::guide::load_shedding).
    ///
    /// A limiter with [rules](Self::with_rules) whose files have the table `[client_ip]` shares the places [per client](ShedLayer::share_per), unless
    /// the table has `share_places = false`.
    ///
    /// It belongs outside of the layers that limit rates, so that a request that is shed is not charged.
    ///
    /// ```
    /// use axum::Router;
    /// use axum::routing::{get, post};
    /// use portcullis::layer::RequestPath;
    /// use portcullis::shed::Class;
    /// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let limiter = Limiter::memory();
    /// let shed = limiter.shed(20..=1_000).class(Class::Critical, RequestPath::exact("/payments"));
    /// let app: Router = Router::new()
    ///     .route("/payments", post(|| async { "paid" }))
    ///     .route("/search", get(|| async { "found" }))
    ///     .layer(limiter.layer(Policy::gcra("all", Quota::per_second(10)).by(ClientIp::peer())))
    ///     .layer(shed.clone()); // added last: the outermost
    /// assert_eq!((shed.limit(), shed.in_flight()), (20, 0));
    /// # drop(app);
    /// ```
    ///
    /// # Panics
    ///
    /// If the range is empty, or not within 1 and 1 000 000: [`try_shed`](Self::try_shed) returns an error.
    #[track_caller]
    pub fn shed(&self, limit: RangeInclusive<usize>) -> ShedLayer {
        match self.try_shed(limit) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`shed`](Self::shed), for a range that is not a literal.
    ///
    /// # Errors
    ///
    /// If the range is empty, or not within 1 and 1 000 000.
    pub fn try_shed(&self, limit: RangeInclusive<usize>) -> Result<ShedLayer, ShedError> {
        let layer = ShedLayer::try_new(&self.registry, limit)?;
        #[cfg(feature = "rules")]
        if let Some(rules) = &self.rules {
            return layer.try_share_per(rules.clients());
        }
        Ok(layer)
    }
}
