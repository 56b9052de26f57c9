//! The state that all layers of one limiter share.

mod changes;
mod clients;
#[cfg(test)]
mod event_log_tests;
mod events;
mod figures;
mod install;
mod inventory;
pub(crate) mod layers;
mod overrides;
pub(crate) mod policy_sets;
mod shed;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::HeaderName;
use portcullis_core::store::{NoStore, Store};
use portcullis_core::{Policy, PolicyName, Receipt, Secret};
use portcullis_log::codes;
use tokio::time::{Instant, timeout};

use crate::registry::layers::Inventory;
use crate::registry::policy_sets::PolicySets;
use crate::{
    GrpcRejection, HeaderRenameError, LayerError, LookupCounts, RateLimitHeaders, Rejection, RejectionFormat,
    RejectionResponse,
};
use portcullis_engine::Engine;
use portcullis_engine::Observer;
use portcullis_engine::engine::settler::Drained;
use portcullis_response::internal::ResponseSettings;

pub use install::Installation;
pub use overrides::GrantBuilder;
pub use shed::ListedShed;

/// The store, the secret and the policies that all layers of one limiter share.
///
/// A policy is identified by its name: the same policy in two layers shares one budget per key. A different policy of a
/// registered name is refused, because the two would charge each other's state.
///
/// ```
/// use std::sync::Arc;
///
/// use portcullis_core::{Policy, Quota, Secret};
/// use portcullis_memory::MemoryStore;
/// use portcullis_tower::LayerError;
/// use portcullis_tower::Registry;
///
/// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
/// let login = Policy::gcra("login", Quota::per_minute(5));
/// assert!(registry.register(&login).is_ok());
/// assert!(registry.register(&login).is_ok());
///
/// let other = Policy::gcra("login", Quota::per_minute(6));
/// let Err(LayerError::Conflict(conflict)) = registry.register(&other) else { unreachable!() };
/// assert_eq!((conflict.registered(), conflict.refused()), (&login, &other));
/// ```
pub struct Registry {
    engine: Arc<Engine>,
    secret: Secret,
    /// The responses of layers that are made from now on.
    default_responses: Mutex<ResponseSettings>,
    policy_sets: PolicySets,
    is_off: bool,
    lookup_counts: LookupCounts,
    shed_layers: shed::ShedLayers,
    /// The layers that limit services.
    inventory: Arc<Inventory>,
}

impl Registry {
    /// Makes a registry without policies.
    pub fn new(store: Arc<dyn Store>, secret: Secret) -> Self {
        let (engine, inventory) = (Arc::new(Engine::new(store)), Arc::<Inventory>::default());
        engine.follow_clients();
        let in_use: Weak<Inventory> = Arc::downgrade(&inventory);
        engine.name_in_outages(in_use);
        Self {
            engine,
            secret,
            default_responses: Mutex::new(ResponseSettings::default()),
            policy_sets: PolicySets::default(),
            is_off: false,
            lookup_counts: LookupCounts::default(),
            shed_layers: shed::ShedLayers::default(),
            inventory,
        }
    }

    /// Makes a registry whose layers let every request pass, without a store: limits are switched off. One line is logged.
    ///
    /// A layer looks for no key and writes no headers. It leaves a [`Charge`](crate::Charge) as it does otherwise, whose operations
    /// succeed and change nothing, so that handlers run unchanged. The [store](Self::store) allows everything and keeps nothing.
    /// Shadow policies are not checked.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Bearer;
    /// use portcullis::{Charge, Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let policy = Policy::fixed_window("daily", Quota::per_day(1));
    /// let layer = Limiter::off().layer(policy.by(Bearer)).with_charge();
    /// let service = layer.layer(service_fn(async |request: Request<String>| {
    ///     let charge = request.extensions().get::<Charge>().expect("it is there if limits are off as well");
    ///     assert_eq!(charge.settle(40).await.expect("limits are off").decision.remaining(), 1);
    ///     Ok::<_, std::convert::Infallible>(Response::new(()))
    /// }));
    /// for _ in 0..2 {
    ///     let response = service.clone().oneshot(Request::new(String::new())).await?;
    ///     assert!(response.status() == 200 && response.headers().is_empty());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn off() -> Self {
        tracing::warn!(code = %codes::LIMITS_OFF, "the rate limiter is switched off: every request passes");
        let mut registry = Self::new(Arc::new(NoStore), Secret::published());
        registry.is_off = true;
        registry
    }

    /// Returns whether limits are switched [off](Self::off).
    #[inline]
    pub fn is_off(&self) -> bool {
        self.is_off
    }

    /// Returns the store that keeps the state.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.engine.store()
    }

    /// Returns the secret that keys the fingerprints.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Sets how many requests may wait at the same time, in all layers together: for their slot in a queue
    /// ([`LeakyBucket`](portcullis_core::LeakyBucket)), under a policy that lets them
    /// [wait](portcullis_core::Policy::wait_at_most), for a [look-up](crate::Limit::by_async), or afterwards for the
    /// inner service. 4 096 by default; with 0, every request that would have to wait is rejected.
    ///
    /// At most one sixteenth of them, and at least one, may have the same key. Requests are counted by the narrowest key of
    /// the decision, never by a key that clients share, such as [`Global`](crate::Global). Requests beyond the limit are
    /// rejected with 503, without `Retry-After`, and charged nothing.
    pub fn max_waiting_requests(&self, requests: usize) {
        self.engine.backlog.wait_limit.set_limit(requests);
    }

    /// Returns how many requests wait now, in all layers together. See [`max_waiting_requests`](Self::max_waiting_requests).
    pub fn waiting_requests(&self) -> usize {
        self.engine.backlog.wait_limit.held()
    }

    /// Adds an observer of the events in all layers of this registry, those that exist already included. Observers are called
    /// in the order in which they were added, and cannot be removed.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        self.engine.observers().add(observer);
    }

    /// Sets the [headers](crate::RateLimitLayer::headers) of all layers that are made from now on and do not set their own.
    pub fn headers(&self, headers: RateLimitHeaders) {
        self.default_responses_mut().set_headers(headers);
    }

    /// Gives a header [another name](crate::RateLimitLayer::rename_header) in all layers that are made from now on and rename none by
    /// themselves.
    ///
    /// # Errors
    ///
    /// If the header shows no budget, or the name is that of another header.
    pub fn rename_header(&self, from: &HeaderName, to: HeaderName) -> Result<(), HeaderRenameError> {
        self.default_responses_mut().rename_header(from.clone(), to)
    }

    /// Sets the closure for [rejections](crate::RateLimitLayer::reject_with) of all layers that are made from now on and do not
    /// set their own. A layer returns to the default response by `reject_with(|rejection| rejection.response())`.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::headers::RateLimitHeaders;
    /// use portcullis::key::Global;
    /// use portcullis::testing::{self, ManualClock};
    /// use portcullis::{Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = testing::limiter(&ManualClock::default()).headers(RateLimitHeaders::NONE);
    /// let limiter = limiter.reject_with(|rejection| {
    ///     let mut response = Response::new("slow down".into());
    ///     *response.status_mut() = rejection.status();
    ///     response
    /// });
    /// let layer = limiter.layer(Policy::gcra("all", Quota::per_minute(1)).by(Global));
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), 200);
    /// let rejected = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(rejected.status(), 429);
    /// let headers = rejected.headers();
    /// assert!(headers.contains_key("retry-after") && !headers.contains_key("x-ratelimit-limit"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reject_with<R: RejectionResponse>(
        &self,
        response: impl Fn(&Rejection<'_>) -> R + Send + Sync + 'static,
    ) {
        self.default_responses_mut().set_custom(response);
    }

    /// Sets the [format](crate::RateLimitLayer::reject_as) of the body of rejections for clients without a preference, of all layers that
    /// are made from now on and do not set their own.
    pub fn reject_as(&self, format: RejectionFormat) {
        self.default_responses_mut().set_format(format);
    }

    /// Sets the closure that [changes rejections in gRPC](crate::RateLimitLayer::reject_grpc_with), of all layers that are made from now on
    /// and do not set their own.
    pub fn reject_grpc_with(
        &self,
        change: impl Fn(&Rejection<'_>, &mut GrpcRejection) + Send + Sync + 'static,
    ) {
        self.default_responses_mut().set_grpc(change);
    }

    /// Makes all layers that are made from now on put the [decision](crate::RateLimitLayer::decision_in_response) into the
    /// extensions of responses. A layer cannot revert it.
    pub fn decision_in_response(&self) {
        self.default_responses_mut().put_decision_in_extensions();
    }

    /// Waits until the settlements of all [reservations](crate::Limit::reserve) whose responses have ended, and the releases
    /// of all [permits](crate::RateLimitLayer::and), are made or given up, then [returns](Store::drain) what the store holds
    /// in advance, such as leases, and ends what it does in the background: at most for `deadline`. Then the log gets the events of this
    /// limiter that no line has counted yet. Returns what settlements are left and were given up. With a deadline of
    /// zero, it returns at once and tries nothing, so that the figures may be polled.
    ///
    /// For the end of a process, after its server has ended all responses. Settlements that wait to be repeated are tried at once,
    /// and again every 100 ms. What is left is still repeated while the process runs.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing is lost.
    ///
    /// # Panics
    ///
    /// If there is no tokio runtime with a timer.
    pub async fn drain(&self, deadline: Duration) -> Drained {
        let start = Instant::now();
        let drained = self.engine.backlog.settler.drain(deadline).await;
        if !deadline.is_zero() {
            // What is not returned expires.
            let _ = timeout(deadline.saturating_sub(start.elapsed()), self.store().drain()).await;
            self.engine.backlog.unsaid_lines.write();
        }
        drained
    }

    /// Returns what layers that are made from now on render responses by.
    pub fn default_responses(&self) -> ResponseSettings {
        self.default_responses_mut().inherited()
    }

    /// They are consistent between any two statements, so a poisoned lock is safe to use.
    fn default_responses_mut(&self) -> MutexGuard<'_, ResponseSettings> {
        self.default_responses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a policy, here and [at the store](Store::register), for as long as the registry exists. Layers register their
    /// policies by themselves, for as long as one of them, or a service or a request of theirs, exists.
    ///
    /// # Errors
    ///
    /// If a different policy has the same name, or the store refuses the policy.
    pub fn register(&self, policy: &Policy) -> Result<(), LayerError> {
        let is_new = self.policy(policy.name()).is_none();
        self.engine.register(policy)?;
        if is_new {
            self.inventory.log_registered(policy);
        }
        Ok(())
    }

    /// Returns the policy that is registered under this name, as it is now.
    pub fn policy(&self, name: &PolicyName) -> Option<Policy> {
        self.engine.policies().policy(name)
    }

    /// Returns the receipt to settle at `cost`, 0 for a refund, with the policy as it is registered now where that applies: its quota may
    /// have changed since the charge.
    // For the limiter of the facade, whose refunds and settlements have no layer.
    #[doc(hidden)]
    pub fn as_of_now(&self, receipt: Receipt, cost: u64) -> Receipt {
        self.engine.as_of_now(receipt, cost)
    }

    pub(crate) fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The engine of the limiter, for doors of other kinds than the layer.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The sets of policies that handlers check.
    pub(crate) fn policy_sets(&self) -> &PolicySets {
        &self.policy_sets
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.engine.backlog.settler.abandon();
    }
}

impl fmt::Debug for Registry {
    /// Prints the id of the secret, the names of the policies, and whether limits are off.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Registry");
        fields.field("secret", &self.secret).field("policies", &self.engine.policies().names());
        if self.is_off {
            fields.field("limits", &"off");
        }
        fields.finish_non_exhaustive()
    }
}
