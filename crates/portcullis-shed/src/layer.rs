//! The layer, and its options.

mod clients;
mod settings;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, StatusCode};
use portcullis_core::or_panic;
use portcullis_engine::Class;
use portcullis_identity::matching::RequestMatcher;
use portcullis_response::{Rejection, RejectionResponse};
use portcullis_tower::Registry;
use portcullis_tower::internal::ListedShed as _;
use tower_layer::Layer;

use crate::config::ShedConfig;
use crate::limit::WHOLE;
use crate::service::Shed;

pub use settings::ShedSettings;

/// A layer that rejects requests because the service is overloaded, not because a client is over its quota: the least important ones
/// first.
///
/// Its clones, and all services that it makes, share one limit and count the same requests.
///
/// ```
/// use http::{Request, Response};
/// use portcullis::Limiter;
/// use portcullis::layer::RequestPath;
/// use portcullis::shed::Class;
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let layer = Limiter::memory().shed(2..=500).class(Class::Critical, RequestPath::prefix("/pay"));
/// let service = layer.layer(service_fn(async |_: Request<String>| {
///     Ok::<_, std::convert::Infallible>(Response::new(String::from("done")))
/// }));
/// let response = service.oneshot(Request::get("/search").body(String::new())?).await?;
/// assert_eq!(layer.in_flight(), 1);
/// drop(response); // or its body has ended
/// assert_eq!(layer.in_flight(), 0);
/// # Ok(())
/// # }
/// ```
///
/// # The limit
///
/// A request is in flight from its call until the body of its response has ended or is dropped, its client has left, or the inner
/// service has failed or panicked. A layer allows a number of requests in flight that follows the service: after each window of at least 100
/// ms and 100 requests it compares the mean time to the response head with that without load, which it has learned while few requests were in
/// flight. It allows more while nearly nothing waits inside of the service, and fewer once the time exceeds
/// [what is tolerated](ShedLayer::tolerate_latency). It changes by one step per window, and only requests that began after a change are
/// measured for the next one, as in congestion control of TCP; so it does not swing. A limit that is used by less than half does not change.
///
/// - **What is measured** ends with the response head, so that long bodies do not count as slow, and neither do requests that take
///   longer than a window beside faster ones. Errors, status 400 and above or a gRPC status in the head, and clients that leave count only
///   if they took longer than tolerated: a fast error is no sign of health, and a timeout is one of overload.
/// - **A service that becomes slower for another reason** looks overloaded. The limit falls to its floor, where the new latency is learned,
///   and grows again.
/// - **A stall.** If requests are rejected and no response head has come for a second, or five times the latency without load, the limit grows by
///   a step.
/// - **No deadlock.** A request is always admitted if no other one waits for its response head, whatever is in flight and whatever its class.
/// - **No queue.** What exceeds the limit is rejected at once. The requests that wait for an inner service that is not ready are in flight.
/// - **Upgrades.** A connection that outlives its response, as of a WebSocket, is not in flight after the head, as no layer sees its end, unless
///   the handler keeps [the permit](ShedLayer::leave_permit).
///
/// Nothing runs while there are no requests: no task and no timer.
///
/// # Single clients
///
/// A request body that arrives [too slowly](ShedLayer::body_rate) ends, and gives its place back. With
/// [`share_per`](ShedLayer::share_per) each caller has a share of the places.
///
/// # Rejections
///
/// 503 with `Retry-After`, in gRPC `UNAVAILABLE` with `grpc-retry-pushback-ms`, made as those of a
/// [`RateLimitLayer`](portcullis_tower::RateLimitLayer), with [`Reason::Shed`](portcullis_tower::Reason::Shed). Waits are
/// [spread](ShedLayer::retry_after). Admitted requests get no header. Each is an [`EventKind::Shed`](portcullis_tower::EventKind::Shed), and an
/// [`EventKind::Rejected`](portcullis_tower::EventKind::Rejected). The metrics of the limiter have the limit.
///
/// # Position in the stack
///
/// Outside of layers that limit rates, so that a request that is shed is not charged; a request that these reject has been in flight for a moment.
/// Inside of tracing, CORS and compression. Around all routes of a service, since they share its capacity. Outside of a timeout, so that requests that
/// time out are seen. A layer of a limiter that is switched off admits everything.
#[derive(Clone)]
pub struct ShedLayer {
    config: Arc<ShedConfig>,
}

impl ShedLayer {
    /// Makes a layer whose limit on requests in flight stays within this range, or by [`ShedSettings`]. It begins at the floor, and doubles
    /// until requests wait inside of the service.
    ///
    /// The floor is a number of requests that the service always copes with: at the floor, a latency that stays longer is taken for that
    /// of the service. The ceiling bounds the requests that wait for their response heads; bodies that stream can exceed it, because a
    /// request is always admitted if no other one waits for its head.
    ///
    /// # Panics
    ///
    /// If the settings have mistakes, with all of them: [`try_new`](Self::try_new) returns them.
    #[track_caller]
    pub fn new(registry: &Arc<Registry>, settings: impl Into<ShedSettings>) -> Self {
        or_panic(Self::try_new(registry, settings))
    }

    /// Gives requests that match a class. Of several rules, the first that matches determines the class; what none matches has the
    /// class [`Default`](Class::Default).
    ///
    /// A request that the matcher [cannot compare](portcullis_tower::matching::Undecided) gets no higher class than this one, and none by this rule: later rules
    /// and the header can still give it the same class or a lower one.
    ///
    /// A client chooses its path, its method and its headers. A path is safe, because it determines the handler; a closure that reads a header lets every
    /// client that sends it into the class. The caller is safe where authentication has found it:
    /// [`ExtensionValue`](portcullis_tower::matching::ExtensionValue), [`Network`](portcullis_tower::matching::Network).
    ///
    /// ```
    /// use http::Method;
    /// use portcullis::Limiter;
    /// use portcullis::layer::{RequestMatcher, RequestPath};
    /// use portcullis::shed::Class;
    ///
    /// let layer = Limiter::memory().shed(10..=500)
    ///     .class(Class::Critical, [RequestPath::prefix("/payments"), RequestPath::exact("/health")])
    ///     .class(Class::Background, RequestPath::prefix("/reports").and(Method::GET));
    /// assert_eq!(layer.limit(), 10);
    /// ```
    #[must_use]
    pub fn class(self, class: Class, matcher: impl RequestMatcher) -> Self {
        self.with(|config| config.classes.add(class, matcher))
    }

    /// Lets requests pass whatever is in flight, and does not count them: probes of the service, so that an orchestrator does not restart what
    /// is only busy.
    ///
    /// A request that the matcher [cannot compare](portcullis_tower::matching::Undecided) is counted as others are.
    ///
    /// ```
    /// use portcullis::Limiter;
    /// use portcullis::layer::RequestPath;
    ///
    /// let layer = Limiter::memory().shed(10..=500).except(RequestPath::exact("/health"));
    /// assert_eq!(layer.in_flight(), 0);
    /// ```
    #[must_use]
    pub fn except(self, matcher: impl RequestMatcher) -> Self {
        self.with(|config| config.except.push(Arc::new(matcher)))
    }

    /// Takes the class of a request that no rule matches from a header: `critical`, `default` or `background`. Another value, or more than
    /// one, counts as none.
    ///
    /// **Every client can send the header.** Trust it only if a proxy in front removes or overwrites it, or if all clients are services
    /// of your own; otherwise all requests are soon critical, and nothing is set aside any more.
    #[must_use]
    pub fn trust_class_header(self, header: HeaderName) -> Self {
        self.with(|config| config.classes.trust_header(header))
    }

    /// Sets aside a fraction of the limit for [critical](Class::Critical) requests: others are rejected once the rest is in flight.
    /// 0.2 by default.
    ///
    /// # Panics
    ///
    /// If the fraction is negative, 1 or more.
    #[must_use]
    #[track_caller]
    pub fn reserve_for_critical(self, fraction: f64) -> Self {
        let reserved = or_panic(settings::thousandths(fraction));
        self.with(|config| config.reserved = reserved)
    }

    /// Sets aside a fraction of the limit that [background](Class::Background) requests may not fill: they are rejected once the rest is
    /// in flight. 0.5 by default. They are never treated better than [default](Class::Default) ones.
    ///
    /// # Panics
    ///
    /// If the fraction is negative, 1 or more.
    #[must_use]
    #[track_caller]
    pub fn reserve_from_background(self, fraction: f64) -> Self {
        let reserved = or_panic(settings::thousandths(fraction));
        self.with(|config| config.background = WHOLE - reserved)
    }

    /// Sets how long the mean time to the response head may become, as a ratio to that without load. 2 by default, which leaves
    /// room for the usual variation. A smaller ratio keeps latency shorter, and rejects more where it varies by itself.
    ///
    /// # Panics
    ///
    /// If the ratio is not from 1.1 to 10.
    #[must_use]
    #[track_caller]
    pub fn tolerate_latency(self, ratio: f64) -> Self {
        let tolerance = or_panic(settings::tolerance(ratio));
        self.with(|config| config.tolerance = tolerance)
    }

    /// Takes responses of the inner service for reports of overload, by their status: those of a full queue or a timeout inside. The
    /// limit falls by a tenth for each window in which they are a tenth of all responses. None by default.
    ///
    /// ```
    /// use http::StatusCode;
    /// use portcullis::Limiter;
    ///
    /// let layer = Limiter::memory().shed(10..=500)
    ///     .overload_status(|status| status == StatusCode::GATEWAY_TIMEOUT);
    /// assert_eq!(layer.in_flight(), 0);
    /// ```
    #[must_use]
    pub fn overload_status(self, is_overload: impl Fn(StatusCode) -> bool + Send + Sync + 'static) -> Self {
        self.with(|config| config.overload_status = Arc::new(is_overload))
    }

    /// Sets the shortest and the longest `Retry-After` of rejections, between which they are spread evenly. From 1 s to 10 s by
    /// default.
    ///
    /// # Panics
    ///
    /// If the range is empty, or longer than an hour.
    #[must_use]
    #[track_caller]
    pub fn retry_after(self, waits: RangeInclusive<Duration>) -> Self {
        let (shortest, spread) = or_panic(settings::waits(waits));
        self.with(|config| (config.shortest_wait, config.spread) = (shortest, spread))
    }

    /// Sets how many bytes of the body of a rejected request are read, and discarded, as
    /// [`RateLimitLayer::discard_bodies`](portcullis_tower::RateLimitLayer::discard_bodies) does. What is read so is not in flight.
    #[must_use]
    pub fn discard_bodies(self, bytes: u64) -> Self {
        self.with(|config| config.discarded_bytes = bytes)
    }

    /// Counts a request as in flight until its response head is made, instead of until its body has ended: for services whose
    /// responses stream for long and cost little meanwhile, such as server-sent events.
    #[must_use]
    pub fn release_at_headers(self) -> Self {
        self.with(|config| config.until_head = true)
    }

    /// Leaves a [`ShedPermit`](crate::ShedPermit) in the extensions of each request: a handler that upgrades the connection, or goes on in a task,
    /// moves it there, and the request is in flight until then. It takes two allocations per request.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::Limiter;
    /// use portcullis::shed::ShedPermit;
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let layer = Limiter::memory().shed(10..=500).leave_permit();
    /// let (permits, mut tasks) = tokio::sync::mpsc::channel(1);
    /// let service = layer.layer(service_fn(move |mut request: Request<String>| {
    ///     let permit = request.extensions_mut().remove::<ShedPermit>().expect("the layer leaves one");
    ///     permits.try_send(permit).expect("the channel has room");
    ///     async { Ok::<_, std::convert::Infallible>(Response::new(String::from("accepted"))) }
    /// }));
    /// drop(service.oneshot(Request::new(String::new())).await?);
    /// let permit = tasks.recv().await; // by the task that does the work
    /// assert_eq!(layer.in_flight(), 1);
    /// drop(permit);
    /// assert_eq!(layer.in_flight(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn leave_permit(self) -> Self {
        self.with(|config| config.leaves_permit = true)
    }

    /// Rejects nothing, and emits [`EventKind::Shed`](portcullis_tower::EventKind::Shed) for each request that it would have rejected. The limit
    /// moves all the same; as nothing is rejected, it falls further than it would.
    #[must_use]
    pub fn shadow(self) -> Self {
        self.with(|config| config.is_shadow = true)
    }

    /// Sets a closure that makes the response to every rejected HTTP request, as
    /// [`RateLimitLayer::reject_with`](portcullis_tower::RateLimitLayer::reject_with) does. `Retry-After` and `Cache-Control: no-store` are
    /// written over its response.
    #[must_use]
    pub fn reject_with<R: RejectionResponse>(
        self,
        response: impl Fn(&Rejection<'_>) -> R + Send + Sync + 'static,
    ) -> Self {
        self.with(|config| config.responses.set_custom(response))
    }

    /// Returns the limit as it is now.
    pub fn limit(&self) -> usize {
        usize::try_from(self.config.shared.limit()).unwrap_or(usize::MAX)
    }

    /// Returns how many requests are in flight now.
    pub fn in_flight(&self) -> usize {
        usize::try_from(self.config.shared.in_flight()).unwrap_or(usize::MAX)
    }

    fn with(mut self, change: impl FnOnce(&mut ShedConfig)) -> Self {
        change(Arc::make_mut(&mut self.config));
        self
    }
}

impl<S> Layer<S> for ShedLayer {
    type Service = Shed<S>;

    fn layer(&self, inner: S) -> Shed<S> {
        Shed::new(inner, Arc::clone(&self.config))
    }
}

impl fmt::Debug for ShedLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limit, in_flight) = (self.limit(), self.in_flight());
        f.debug_struct("ShedLayer")
            .field("limit", &limit)
            .field("in_flight", &in_flight)
            .finish_non_exhaustive()
    }
}
