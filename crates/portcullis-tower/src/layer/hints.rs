//! Options of a layer for hints in responses: when to retry, and that a limit is near.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::or_panic;

use crate::RateLimitLayer;
use portcullis_engine::MAX_RETRY_SPREAD;
use portcullis_response::internal::RetrySpread;

impl RateLimitLayer {
    /// The longest time over which [retries](Self::spread_retries) can be spread: one hour.
    pub const MAX_RETRY_SPREAD: Duration = MAX_RETRY_SPREAD;

    /// Tells rejected clients to retry at different times: adds to the wait of each up to `spread`, which is rounded down to a
    /// microsecond. Off by default, and with zero.
    ///
    /// Without it all clients that a window rejects get the same `Retry-After`, the end of the window, and come back at once. The sum
    /// of wait and addition is in `Retry-After`, in the body, in the `t` of [`RateLimit`](crate::RateLimitHeaders::IETF), and in gRPC
    /// in `grpc-retry-pushback-ms` and `RetryInfo`. It is never less than the exact wait. The layer decides as before: a client that
    /// retries after the exact wait is admitted. `X-RateLimit-Reset`, `RateLimit-Reset` and the
    /// [`Decision`](portcullis_core::Decision) keep the exact figures. A rejection without `Retry-After` does not get one.
    ///
    /// The addition is computed from the narrowest [key](portcullis_core::store::Checks::narrowest_key) of the decision, and
    /// uniform over all keys: a client gets the same addition each time, so that asking again gains nothing. Where all
    /// keys are shared, as with [`Global`](crate::Global), the layer cannot tell clients apart, and consecutive rejections get
    /// additions that lie far from each other.
    ///
    /// ```
    /// use std::time::Duration;
    /// use http::{Request, Response};
    /// use portcullis::key::Header;
    /// use portcullis::store::MemoryStore;
    /// use portcullis::testing::ManualClock;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota, Secret};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryStore::builder().clock(ManualClock::default()).build();
    /// let limiter = Limiter::new(store, Secret::published());
    /// let hourly = Policy::fixed_window("hourly", Quota::per_hour(1)).by(Header::named("x-user"));
    /// let layer = limiter.layer(hourly).spread_retries(Duration::from_secs(60));
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// let request = |user: &str| Request::builder().header("x-user", user).body(String::new());
    ///
    /// let mut waits = Vec::new();
    /// for user in ["ada", "grace", "edsger"] {
    ///     assert_eq!(service.clone().oneshot(request(user)?).await?.status(), 200);
    ///     let rejected = service.clone().oneshot(request(user)?).await?;
    ///     waits.push(rejected.headers()["retry-after"].to_str()?.parse::<u64>()?);
    ///     assert_eq!(rejected.headers()["x-ratelimit-reset"], "3600");
    /// }
    /// assert!(waits.iter().all(|wait| (3_600..=3_660).contains(wait)));
    /// waits.dedup();
    /// assert_eq!(waits.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If `spread` is longer than [`MAX_RETRY_SPREAD`](Self::MAX_RETRY_SPREAD).
    #[track_caller]
    pub fn spread_retries(mut self, spread: Duration) -> Self {
        let spread = or_panic(RetrySpread::new(spread));
        Arc::make_mut(&mut self.config).change_responses(|responses| responses.set_retry_spread(spread));
        self
    }
}
