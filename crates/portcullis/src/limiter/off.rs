//! Limiters that are switched off.

use portcullis_tower::Registry;

use super::Limiter;

impl Limiter {
    /// Creates a limiter whose limits are switched off, for development and for tests of something else: every request passes,
    /// nothing is charged, and no store is asked. One line is logged when it is created.
    ///
    /// - Its layers look for no key, so that they need no address and no credential, and write no headers. They leave the inner service
    ///   as it is.
    /// - Handlers run unchanged. A layer [`.with_charge()`](crate::RateLimitLayer::with_charge) leaves a [`Charge`](crate::Charge)
    ///   whose operations succeed and change nothing: it shows the full limit, and its decision is not
    ///   [metered](crate::Decision::is_metered).
    /// - [`peek`](Self::peek), [`store`](Self::store), refunds and resets answer the same.
    /// - Shadow policies are not checked, and an observer gets [`Admitted`](crate::event::EventKind::Admitted) without decisions.
    /// - Two different policies of one name are an error as otherwise.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use axum::{Router, body::Body, http::Request, routing::get};
    /// use portcullis::{Charge, ClientIp, Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::ServiceExt as _;
    ///
    /// async fn search(charge: Charge) -> String {
    ///     let more = charge.charge_more(40).await.expect("limits are off");
    ///     format!("{} left", more.remaining())
    /// }
    ///
    /// let policy = Policy::token_bucket("search", Quota::per_hour(1));
    /// let app: Router = Router::new().route("/", get(search)).layer(Limiter::off().layer(policy.by(ClientIp::peer())).with_charge());
    /// for _ in 0..3 {
    ///     let response = app.clone().oneshot(Request::new(Body::empty())).await?;
    ///     assert_eq!(response.status(), 200);
    ///     assert!(!response.headers().contains_key("x-ratelimit-limit"));
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn off() -> Self {
        Self::of(Registry::off())
    }
}
