//! Limits on requests in flight.

use portcullis_core::Concurrency;

use super::Limit;
use portcullis_engine::HeldUntil;

/// A limit on requests in flight: a request takes a permit, and is rejected with 429 if all permits of its key are held. Without
/// [`by`](Limit::by), the key is that of the limit before it.
///
/// A request is charged under the rates of its layer and takes its permits in one call of the store, or does neither. Its
/// [`cost`](Limit::cost), 1 by default, is its number of permits.
///
/// - **How long.** The permit is held until the body of the response ends, with or without trailers, or is dropped half-way; until
///   the client disconnects before the response, or the inner service fails or panics; or [until the
///   headers](Limit::release_at_headers). A request holds it while it waits, as for its slot in a queue of another policy. A handler can
///   move it into a task: [`Charge::take_permit`](crate::Charge::take_permit).
/// - **Release.** In the background, once. One that the store has not made, or whose fate is unknown, is repeated for about 90
///   seconds. `Limiter::drain` waits for it. The queue has room for 65 536 releases.
/// - **Lease.** A task renews all permits of a limiter every third of the shortest lease, as long as there are some. So a permit
///   comes back within its lease if its process crashes, and also if it cannot be released. If the store does not answer for
///   longer than a lease, the permit lapses, which is an event ([`PermitLapsed`](crate::EventKind::PermitLapsed)), and the
///   request goes on. A permit that is taken outside of a tokio runtime is not renewed.
///   With several runtimes, the task runs in one of them, and moves when that one ends: it has to be driven, and needs its timer.
/// - **Rejections** have no `Retry-After`, because it is unknown when a permit becomes free, and no time of a reset in the
///   [headers](crate::RateLimitLayer::headers). A client should back off.
/// - **Upgrades.** After 101, or a 2xx to `CONNECT`, the connection outlives the response, and no layer can see its end. The permit
///   is then held by the task that keeps it ([`take_permit`](crate::Charge::take_permit)) or the `Charge`. If neither is kept, it
///   is released, which is an event ([`UpgradeReleased`](crate::EventKind::UpgradeReleased)).
/// - **Outages.** Under [`FailureMode::Local`](portcullis_core::FailureMode), the limit or its share applies to each instance, and a
///   permit is renewed and released where it was taken. Under an open mode requests pass without a permit.
/// - **Shadow** policies take permits as well, and never reject. Refunds and settlements of the
///   [`Charge`](crate::Charge), and its later checks, do not affect permits. A rejected request holds none.
///
/// ```
/// use http::{Request, Response};
/// use portcullis::key::Global;
/// use portcullis::layer::Concurrency;
/// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let requests = Policy::gcra("requests", Quota::per_second(10).burst(20));
/// let layer = Limiter::memory().layer(requests.by(Global)).and(Concurrency::new("exports", 1));
/// let service = layer.layer(service_fn(async |_: Request<String>| {
///     Ok::<_, std::convert::Infallible>(Response::new(String::from("a long export")))
/// }));
/// let first = service.clone().oneshot(Request::new(String::new())).await?;
/// let second = service.clone().oneshot(Request::new(String::new())).await?;
/// assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 429));
/// assert!(!second.headers().contains_key("retry-after"));
/// drop(first); // or its body has ended
/// assert_eq!(service.oneshot(Request::new(String::new())).await?.status(), 200);
/// # Ok(())
/// # }
/// ```
impl From<Concurrency> for Limit {
    fn from(concurrency: Concurrency) -> Self {
        Self::new(concurrency)
    }
}

impl Limit {
    /// Releases the permit of the policy when the headers of the response are made, instead of when its body has
    /// ended: for a limit on the work that makes a response, where it does not matter how fast a client reads it.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::layer::Concurrency;
    /// use portcullis::{Limiter, PolicyExt as _};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let layer = Limiter::memory().layer(Concurrency::new("queries", 1).by(Global).release_at_headers());
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::from("rows")))
    /// }));
    /// let _first = service.clone().oneshot(Request::new(String::new())).await?;
    /// assert_eq!(service.oneshot(Request::new(String::new())).await?.status(), 200);
    /// # Ok(())
    /// # }
    /// ```
    pub fn release_at_headers(self) -> Self {
        Self { held_until: HeldUntil::Headers, ..self }
    }
}
