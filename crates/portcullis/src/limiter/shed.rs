//! Load shedding.

use portcullis_core::{Mistakes, or_panic};
use portcullis_shed::{ShedError, ShedLayer, ShedSettings};

use super::Limiter;

impl Limiter {
    /// Makes a layer that rejects requests while the service is overloaded, the least important ones first: 503, with a spread
    /// `Retry-After`. It adapts its limit on requests in flight within this range, beginning at the floor; other settings are [`ShedSettings`](crate::shed::ShedSettings). See [`shed`](crate::shed) and
    /// [Shed load].
    ///
    #[doc = book!("Shed load", "how-to/service/shedding")]
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
    /// If the settings have mistakes, with all of them: [`try_shed`](Self::try_shed) returns them.
    #[track_caller]
    pub fn shed(&self, settings: impl Into<ShedSettings>) -> ShedLayer {
        or_panic(self.try_shed(settings))
    }

    /// Like [`shed`](Self::shed), for settings from configuration or input: it returns all their mistakes at once.
    ///
    /// # Errors
    ///
    /// As for [`ShedLayer::try_new`].
    pub fn try_shed(&self, settings: impl Into<ShedSettings>) -> Result<ShedLayer, Mistakes<ShedError>> {
        let layer = ShedLayer::try_new(&self.registry, settings)?;
        #[cfg(feature = "rules")]
        if let Some(rules) = &self.rules {
            return Ok(layer.share_per(rules.clients()));
        }
        Ok(layer)
    }
}
