//! Events: everything that happens to requests, charges and the store.
//!
//! A layer emits each event once, to its log and to the observers of its `Registry`.

mod class;
mod fingerprint;
mod keys;
mod kind;
#[cfg(feature = "runtime")]
mod log;
mod observers;
mod reason;
mod route;
mod settlement;
mod spans;
mod uncounted;
mod usage;

use std::fmt;
use std::sync::Arc;

#[cfg(feature = "runtime")]
use portcullis_core::Policy;
use portcullis_core::PolicyName;

use crate::Mode;
use crate::limit::Limit;

pub use class::Class;
pub use fingerprint::{Fingerprint, FingerprintError};
pub use keys::{EventKeys, FoundKeys};
pub use kind::EventKind;
#[cfg(feature = "runtime")]
pub(crate) use kind::logs_decisions;
pub(crate) use kind::logs_rejections;
#[cfg(feature = "runtime")]
pub use log::EventLog;
pub use observers::Observers;
pub use reason::Reason;
pub use route::Route;
pub use settlement::SettlementLoss;
pub use spans::SpanFields;
pub use uncounted::Uncounted;
pub use usage::UsageLoss;

/// Observes what the layers of a `Registry` do, for metrics and diagnostics.
///
/// Closures implement it. The log of a layer is an observer as well, which is always present; an observer that is added
/// by `Limiter::observe` does not replace it.
///
/// An observer is called inline, by the task that handles the request, so it must not block: it should count, or hand over
/// what it needs through a bounded channel by `try_send`, and return. One that blocks delays the request, and all others that its thread would
/// run. It cannot change what happens to the request. A panic of an observer is caught, where panics unwind: the
/// request goes on, the other observers are called, and the observer gets further events. The first panic of each observer is logged.
/// Without an observer, an event costs no allocation and no reading of a clock.
///
/// No event contains an identity: no address and no value of a header. An observer that [asks](Self::wants_fingerprints) gets
/// [fingerprints](Event::fingerprints) of keys.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use http::{Request, Response};
/// use portcullis::event::{Event, EventKind};
/// use portcullis::key::Global;
/// use portcullis::testing::{self, ManualClock};
/// use portcullis::{Policy, PolicyExt as _, Quota};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rejected = Arc::new(AtomicU64::new(0));
/// let counter = Arc::clone(&rejected);
/// let limiter = testing::limiter(&ManualClock::default()).observe(move |event: &Event<'_>| {
///     if let EventKind::Rejected { .. } = event.kind {
///         counter.fetch_add(1, Ordering::Relaxed);
///     }
/// });
/// let service = limiter.layer(Policy::gcra("all", Quota::per_minute(1)).by(Global)).layer(service_fn(
///     async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(String::new())),
/// ));
/// for status in [200, 429, 429] {
///     assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), status);
/// }
/// assert_eq!(rejected.load(Ordering::Relaxed), 2);
/// # Ok(())
/// # }
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Called once for each event, when it happens.
    fn on_event(&self, event: &Event<'_>);

    /// Whether events should have the [fingerprints](Event::fingerprints) of keys. Asked once, when the observer is
    /// added by `Limiter::observe`. `false` by default, as for closures.
    ///
    /// If one observer of a registry asks, all of them get the fingerprints. Each request then makes an allocation or two.
    fn wants_fingerprints(&self) -> bool {
        false
    }

    /// Whether [`EventKind::Charged`] and [`EventKind::PermitAcquired`] are emitted. Asked once, when the observer is
    /// added by `Limiter::observe`. `false` by default, as for closures.
    ///
    /// If one observer of a registry asks, all of them get these events.
    fn wants_charges(&self) -> bool {
        false
    }
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn on_event(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Something that happened in a layer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The policies of the layer, except for those that are [off](crate::Mode::Off).
    pub policies: LayerPolicies<'a>,
    /// What happened.
    pub kind: EventKind<'a>,
    keys: EventKeys<'a>,
    uncounted: Uncounted<'a>,
    route: Option<&'a Route>,
}

/// The policies of a layer, in the order in which they were added. Displayed with their failure modes.
#[derive(Clone, Copy)]
pub struct LayerPolicies<'a>(&'a [Limit]);

impl<'a> LayerPolicies<'a> {
    /// Returns the names of the policies, shadow policies included.
    pub fn names(self) -> impl Iterator<Item = &'a PolicyName> {
        self.0.iter().map(|limit| limit.policy.name())
    }

    /// The names with commas between, for the log.
    #[cfg(feature = "runtime")]
    fn joined(self) -> String {
        self.names().map(PolicyName::as_str).collect::<Vec<_>>().join(", ")
    }
}

impl<'a> Event<'a> {
    /// An event without keys.
    pub fn new(policies: &'a [Limit], kind: EventKind<'a>) -> Self {
        let (keys, uncounted, route) = (EventKeys::None, Uncounted::None, None);
        Self { policies: LayerPolicies(policies), kind, keys, uncounted, route }
    }

    pub(crate) fn on_route(self, route: &'a Route) -> Self {
        Self { route: Some(route), ..self }
    }

    /// Returns the route of the layer, for people: the one that it was given (`RateLimitLayer::route`), or those that Axum has found
    /// for its requests. `None` if neither is known, and for events of no layer.
    pub fn route(&self) -> Option<Arc<str>> {
        self.route.and_then(Route::text)
    }

    /// Sets the keys that the event has [fingerprints](Self::fingerprints) of.
    #[must_use]
    pub fn with_keys(self, keys: EventKeys<'a>) -> Self {
        Self { keys, ..self }
    }

    /// Visits the policies of the layer with their modes.
    #[cfg(feature = "runtime")]
    pub(crate) fn each_policy(&self, mut visit: impl FnMut(&Policy, Mode)) {
        self.policies.0.iter().for_each(|limit| visit(&limit.policy, limit.mode));
    }

    pub(crate) fn with_kind(self, kind: EventKind<'a>) -> Self {
        Self { kind, ..self }
    }

    pub(crate) fn with_uncounted(self, uncounted: Uncounted<'a>) -> Self {
        Self { uncounted, ..self }
    }

    /// Returns the fingerprint of the key of each policy that has found one for the request, shadow policies included.
    ///
    /// Empty unless an observer of the registry [asks](Observer::wants_fingerprints); then nothing is computed or kept. Events of a
    /// request, until it is admitted or rejected, have the fingerprints that were found so far: the key of a look-up is known once it is
    /// done. The events of a lock-out, and of a charge that a handler changes, have the fingerprints that they are about. Events of the
    /// store and of rules have none, and neither have events after the response.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use http::{Request, Response};
    /// use portcullis::event::{Event, EventKind, Fingerprint, Observer};
    /// use portcullis::key::Header;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// /// Keeps who was rejected last.
    /// #[derive(Clone, Default)]
    /// struct LastRejected(Arc<Mutex<Option<Fingerprint>>>);
    ///
    /// impl Observer for LastRejected {
    ///     fn on_event(&self, event: &Event<'_>) {
    ///         if let EventKind::Rejected { .. } = event.kind {
    ///             *self.0.lock().expect("no observer panics") = event.fingerprints().map(|(_, key)| key).next();
    ///         }
    ///     }
    ///
    ///     fn wants_fingerprints(&self) -> bool {
    ///         true
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let last = LastRejected::default();
    /// let limiter = Limiter::memory().observe(last.clone());
    /// let by_user = Header::named("x-user");
    /// let service = limiter
    ///     .layer(Policy::fixed_window("daily", Quota::per_day(1)).by(by_user.clone()))
    ///     .layer(service_fn(async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(()))));
    /// let request = || Request::builder().header("x-user", "mallory").body(String::new());
    /// for status in [200, 429] {
    ///     assert_eq!(service.clone().oneshot(request()?).await?.status(), status);
    /// }
    /// let rejected = last.0.lock().expect("no observer panics").expect("a request was rejected");
    /// assert_eq!(rejected.key(), limiter.key_of(&by_user, request()?)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn fingerprints(&self) -> impl Iterator<Item = (&'a PolicyName, Fingerprint)> + use<'a> {
        let (policies, keys) = (self.policies.0, self.keys);
        let found = if let EventKeys::Found(found) = keys { Some(found) } else { None };
        let checks = if let EventKeys::Checks(checks) = keys { checks } else { &[] };
        let one = if let EventKeys::One(policy, key) = keys { Some((policy, key)) } else { None };
        let found = found.into_iter().flat_map(FoundKeys::iter).filter_map(|(index, key)| {
            let limit = policies.get(index)?;
            Some((limit.policy.name(), key))
        });
        let checked = checks.iter().map(|check| (check.policy.name(), check.key));
        found.chain(checked).chain(one).map(|(policy, key)| (policy, Fingerprint::from(key)))
    }
}

impl fmt::Display for LayerPolicies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Limit { policy, mode, .. }) in self.0.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{}: {}", policy.name(), policy.failure_mode())?;
            if *mode != Mode::Enforce {
                write!(f, " ({mode})")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for LayerPolicies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
