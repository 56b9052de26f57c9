//! Options of a layer for hints in responses: when to retry, and that a limit is near.

use std::sync::Arc;
use std::time::Duration;

use crate::{LayerOptionError, RateLimitLayer};
use portcullis_engine::MAX_RETRY_SPREAD;
use portcullis_response::internal::Fraction;
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
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use http::{Request, Response};
    /// use portcullis_core::{ManualClock, Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{Header, LayerBuilder, Registry};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryStore::builder().clock(ManualClock::default()).build();
    /// let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    /// let layer = LayerBuilder::new(registry, Policy::fixed_window("hourly", Quota::per_hour(1)))
    ///     .by(Header::named("x-user"))
    ///     .spread_retries(Duration::from_secs(60));
    /// let service = layer.layer(service_fn(async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(String::new()))));
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
    pub fn spread_retries(self, spread: Duration) -> Self {
        match self.try_spread_retries(spread) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`spread_retries`](Self::spread_retries), for a time that is not a constant.
    ///
    /// # Errors
    ///
    /// If `spread` is longer than [`MAX_RETRY_SPREAD`](Self::MAX_RETRY_SPREAD).
    pub fn try_spread_retries(mut self, spread: Duration) -> Result<Self, LayerOptionError> {
        let spread = RetrySpread::new(spread)?;
        Arc::make_mut(&mut self.config).change_responses(|responses| responses.set_retry_spread(spread));
        Ok(self)
    }

    /// Marks the requests that pass with at least this part of the limit used under the policy that was added last, themselves
    /// included: a soft limit, which warns a client before it is rejected. No request is rejected because of it.
    ///
    /// The part used is `limit - remaining` of the [`Decision`](portcullis_core::Decision): of the burst of a token bucket, a GCRA
    /// or a leaky bucket, and of the limit of a window or log. With a burst of 1, the default of GCRA, each request uses all of
    /// it.
    ///
    /// - The response has the header [`X-RateLimit-Warning`](crate::headers::X_RATELIMIT_WARNING) with the name of the policy, by
    ///   the figures that the response shows: what a handler has charged or refunded counts. Nested layers each add theirs. It is
    ///   not written if the policy is [hidden](Self::hide), or if the [headers](Self::headers) of the layer show no budget.
    /// - [`EventKind::SoftLimitReached`](crate::EventKind::SoftLimitReached) is emitted for each such request, by the figures at its
    ///   admission. The log counts them, at most once a minute.
    ///
    /// A [shadow](Self::shadow) policy does not warn, and neither does one that does not count the request, because it exempts it
    /// or the store could not answer. A policy that is decided locally meanwhile warns by its own figures.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use http::{Request, Response};
    /// use portcullis_core::{ManualClock, Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{Global, LayerBuilder, Registry};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let store = MemoryStore::builder().clock(ManualClock::default()).build();
    /// let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    /// let layer = LayerBuilder::new(registry, Policy::fixed_window("daily", Quota::per_day(5))).by(Global).warn_at(0.8);
    /// let service = layer.layer(service_fn(async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(String::new()))));
    /// let mut warnings = Vec::new();
    /// for _ in 0..5 {
    ///     let response = service.clone().oneshot(Request::new(String::new())).await?;
    ///     warnings.push(response.headers().get("x-ratelimit-warning").cloned());
    /// }
    /// assert_eq!(warnings[..3], [None, None, None]);
    /// assert!(warnings[3..].iter().flatten().all(|warning| warning == r#""daily""#));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If `fraction` is not above 0 and below 1.
    #[track_caller]
    pub fn warn_at(self, fraction: f64) -> Self {
        match self.try_warn_at(fraction) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`warn_at`](Self::warn_at), for a fraction that is not a constant. It is rounded to a billionth.
    ///
    /// # Errors
    ///
    /// If `fraction` is not above 0 and below 1.
    pub fn try_warn_at(self, fraction: f64) -> Result<Self, LayerOptionError> {
        let fraction = Fraction::new(fraction)?;
        Ok(self.with_last(|last| last.warn_at = Some(fraction)))
    }
}
