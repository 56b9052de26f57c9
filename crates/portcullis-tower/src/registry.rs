//! The state that all layers of one limiter share.

mod conflict;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::Response;
use portcullis_core::store::Store;
use portcullis_core::{Policy, PolicyName, Receipt, Secret};

use crate::answer::Answers;
use crate::detached::Detached;
use crate::event::{Observer, Observers};
use crate::queues::Queues;
use crate::waiters::Waiters;
use crate::{LayerError, RateLimitHeaders, Rejection};

pub use conflict::PolicyConflict;

/// The store, the secret and the policies that all layers of one limiter share.
///
/// A policy is identified by its name: the same policy in two layers shares one budget per key. A different policy of a
/// registered name is refused, because the two would charge each other's state.
///
/// ```
/// # mod support { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support.rs")); }
/// # use portcullis_tower::Registry;
/// use portcullis_core::{Policy, Quota};
/// use portcullis_tower::LayerError;
///
/// # let registry: std::sync::Arc<Registry> = support::registry();
/// let login = Policy::gcra("login", Quota::per_minute(5));
/// assert!(registry.register(&login).is_ok());
/// assert!(registry.register(&login).is_ok());
///
/// let other = Policy::gcra("login", Quota::per_minute(6));
/// let Err(LayerError::Conflict(conflict)) = registry.register(&other) else { unreachable!() };
/// assert_eq!((conflict.registered(), conflict.refused()), (&login, &other));
/// ```
pub struct Registry {
    store: Arc<dyn Store>,
    secret: Secret,
    policies: Mutex<HashMap<PolicyName, Policy>>,
    observers: Observers,
    /// Those of layers that are made from now on.
    default_answers: Mutex<Answers>,
    detached: Detached,
    waiters: Waiters,
    queues: Queues,
}

impl Registry {
    /// Makes a registry without policies.
    pub fn new(store: Arc<dyn Store>, secret: Secret) -> Self {
        Self {
            store,
            secret,
            policies: Mutex::default(),
            observers: Observers::default(),
            default_answers: Mutex::new(Answers::new()),
            detached: Detached::default(),
            waiters: Waiters::default(),
            queues: Queues::default(),
        }
    }

    /// Returns the store that keeps the state.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns the secret that keys the fingerprints.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Sets how many requests may wait at the same time, in all layers together: for their slot in a queue
    /// ([`LeakyBucket`](portcullis_core::LeakyBucket)), for a [look-up](crate::RateLimitLayer::by_async), or afterwards for the
    /// inner service. 4 096 by default; with 0, every request that would have to wait is rejected.
    ///
    /// At most one sixteenth of them, and at least one, may have the same key. Requests are counted by the narrowest key of
    /// the decision, never by a key that clients share, such as [`Global`](crate::Global). Requests beyond the limit are
    /// rejected with 503, without `Retry-After`, and charged nothing.
    pub fn set_max_waiting_requests(&self, requests: usize) {
        self.waiters.set_limit(requests);
    }

    /// Adds an observer of the events in all layers of this registry, those that exist already included. Observers are called
    /// in the order in which they were added, and cannot be removed.
    pub fn add_observer(&self, observer: Arc<dyn Observer>) {
        self.observers.add(observer);
    }

    /// Sets the [headers](crate::RateLimitLayer::headers) of all layers that are made from now on and do not set their own.
    pub fn set_headers(&self, headers: RateLimitHeaders) {
        lock(&self.default_answers).set_headers(headers);
    }

    /// Sets the closure for [rejections](crate::RateLimitLayer::reject_with) of all layers that are made from now on and do not
    /// set their own. A layer returns to the default response by `reject_with(|rejection| rejection.response())`.
    ///
    /// ```
    /// # mod support { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support.rs")); }
    /// use http::{Request, Response};
    /// use portcullis_core::{Policy, Quota};
    /// use portcullis_tower::{Global, LayerBuilder, RateLimitHeaders};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let registry = support::registry();
    /// registry.set_headers(RateLimitHeaders::NONE);
    /// registry.set_rejection(|rejection| {
    ///     let mut response = Response::new("slow down".into());
    ///     *response.status_mut() = rejection.status();
    ///     response
    /// });
    /// let layer = LayerBuilder::new(registry, Policy::gcra("all", Quota::per_minute(1))).by(Global);
    /// let service = layer.layer(service_fn(async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(String::new()))));
    /// assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), 200);
    /// let rejected = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(rejected.status(), 429);
    /// assert!(rejected.headers().contains_key("retry-after") && !rejected.headers().contains_key("x-ratelimit-limit"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_rejection<F>(&self, response: F)
    where
        F: Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync + 'static,
    {
        lock(&self.default_answers).set_custom(Arc::new(response));
    }

    /// Makes all layers that are made from now on put the [decision](crate::RateLimitLayer::decision_in_response) into the
    /// extensions of responses. A layer cannot revert it.
    pub fn put_decision_in_responses(&self) {
        lock(&self.default_answers).put_decision_in_extensions();
    }

    pub(crate) fn default_answers(&self) -> Answers {
        lock(&self.default_answers).clone()
    }

    /// Registers a policy, here and [at the store](Store::register). Layers register their policies.
    ///
    /// # Errors
    ///
    /// If a different policy has the same name, or the store refuses the policy.
    pub fn register(&self, policy: &Policy) -> Result<(), LayerError> {
        if let Some(registered) = self.policy(policy.name()) {
            return PolicyConflict::check(&registered, policy);
        }
        // Not under the lock, because the store may block or call back.
        let refused = |error| LayerError::Refused { policy: policy.name().clone(), error };
        self.store.register(policy).map_err(refused)?;
        // Another thread may have registered a policy of this name meanwhile.
        let registered =
            lock(&self.policies).entry(policy.name().clone()).or_insert_with(|| policy.clone()).clone();
        PolicyConflict::check(&registered, policy)
    }

    /// Returns the registered policy of this name.
    pub fn policy(&self, name: &PolicyName) -> Option<Policy> {
        lock(&self.policies).get(name).cloned()
    }

    /// Returns the receipt with the policy as it is registered now: its quota may have changed since the charge.
    pub fn as_of_now(&self, receipt: Receipt) -> Receipt {
        match self.policy(receipt.policy().name()) {
            Some(policy) => receipt.with_policy(&policy),
            None => receipt,
        }
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    pub(crate) fn queues(&self) -> &Queues {
        &self.queues
    }

    pub(crate) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// Tasks that refund requests whose clients have disconnected.
    pub(crate) fn detached(&self) -> &Detached {
        &self.detached
    }
}

impl fmt::Debug for Registry {
    /// Prints the id of the secret and the names of the policies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = lock(&self.policies).keys().cloned().collect();
        names.sort_by(|left, right| left.as_str().cmp(right.as_str()));
        f.debug_struct("Registry")
            .field("secret", &self.secret)
            .field("policies", &names)
            .finish_non_exhaustive()
    }
}

/// The values are consistent between any two statements, so a poisoned lock is safe to use.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
