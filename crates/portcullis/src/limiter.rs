//! The limiter.

#[cfg(feature = "admin")]
mod admin;
mod changes;
mod events;
mod instances;
mod inventory;
#[cfg(feature = "metrics")]
mod metrics;
mod off;
#[cfg(feature = "outgoing")]
mod outgoing;
mod overrides;
#[cfg(feature = "rules")]
mod rules;
mod shed;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use portcullis_core::store::{Checks, Store, StoreFuture};
use portcullis_core::{
    Decision, Key, KeyWriteError, KeyWriter, Mistakes, Policy, Receipt, Secret, Settlement, StoreError,
};
use portcullis_engine::Engine;
use portcullis_log::UnsaidLines;
use portcullis_memory::{Fallback, MemoryStore};
use portcullis_tower::{
    CheckBuilder, Drained, GrpcRejection, HeaderRenameError, KeyedLimit, LayerError, Limit, Observer,
    RateLimitHeaders, RateLimitLayer, Registry, Rejection, RejectionFormat, RejectionResponse,
};

/// A store, the secret for the fingerprints of clients, and the policies in use. Clones share everything.
///
/// ```
/// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
///
/// let limiter = Limiter::memory();
/// let layer = limiter.layer(Policy::gcra("search", Quota::per_second(10)).by(ClientIp::peer()));
/// # let _ = layer;
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    registry: Arc<Registry>,
    #[cfg(feature = "rules")]
    rules: Option<crate::rules::LiveRules>,
    /// Set once, and shared by clones.
    #[cfg(feature = "metrics")]
    metrics: Arc<std::sync::OnceLock<crate::metrics::Metrics>>,
}

impl Limiter {
    /// Creates a limiter that keeps its state in this process, for up to 250 000 keys of each of up to 64 policies, with a
    /// random secret. For other bounds, use [`MemoryStore::builder`] and [`Limiter::new`].
    ///
    /// # Panics
    ///
    /// If the operating system provides no random bytes.
    pub fn memory() -> Self {
        Self::in_process(MemoryStore::new())
    }

    /// A limiter with a random secret on a store in memory. Such a store does not fail, except for a policy that does not fit, which
    /// would not fit into a fallback either.
    pub(crate) fn in_process(store: impl Store) -> Self {
        let mut entropy = [0; 16];
        getrandom::fill(&mut entropy).expect("the operating system provides random bytes");
        let secret = Secret::random_for_this_process(entropy);
        Self::of(Registry::new(Arc::new(store), secret))
    }

    /// Creates a limiter on any store, with a [`Fallback`]: memory for 100 000 keys of each policy, in which each instance
    /// enforces the limits on its own while the store fails, unless a policy
    /// [sets another failure mode](portcullis_core::FailureMode). For more or fewer keys, pass a store that is wrapped in a
    /// `Fallback` already; the inner one decides first.
    ///
    /// ```
    /// use portcullis::store::MemoryStore;
    /// use portcullis::{Limiter, Secret};
    ///
    /// let secret: Secret = "2026:8f4e3d2c1b0a99887766554433221100".parse()?;
    /// let limiter = Limiter::new(MemoryStore::builder().capacity(10_000).build(), secret);
    /// # let _ = limiter;
    /// # Ok::<(), portcullis::SecretError>(())
    /// ```
    pub fn new(store: impl Store, secret: Secret) -> Self {
        Self::with_fallback(Fallback::new(store), secret)
    }

    pub(crate) fn with_fallback(store: Fallback<impl Store>, secret: Secret) -> Self {
        Self::of(Registry::new(Arc::new(store), secret))
    }

    fn of(registry: Registry) -> Self {
        Self {
            registry: Arc::new(registry),
            #[cfg(feature = "rules")]
            rules: None,
            #[cfg(feature = "metrics")]
            metrics: Arc::default(),
        }
    }

    /// Sets the maximum number of requests that wait at the same time in all layers of this limiter: for their slot in the queue
    /// of a leaky bucket, under a policy that lets them [wait](crate::Policy::wait_at_most), for a look-up, or afterwards for the
    /// inner service. 4 096 by default, and one sixteenth of that per key. Requests beyond that are rejected
    /// with 503 and not charged. With 0, every request that would have to wait is rejected.
    ///
    /// It also applies to clones of this limiter, and to layers that it has built already.
    ///
    /// ```
    /// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let limiter = Limiter::memory().max_waiting_requests(1_000);
    /// let layer = limiter.layer(Policy::leaky_bucket("exports", Quota::per_second(5)).by(ClientIp::peer()));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn max_waiting_requests(self, requests: usize) -> Self {
        self.registry.max_waiting_requests(requests);
        self
    }

    /// Adds an observer of the events in all layers: what is admitted, rejected, refunded, and how the store answers. The log is
    /// written all the same. See [`Observer`] for what an observer may do, and [Observe decisions].
    ///
    #[doc = book!("Observe decisions", "how-to/service/observers")]
    ///
    /// It also applies to clones of this limiter, and to layers that it has built already.
    /// ```
    /// use std::sync::mpsc::sync_channel;
    ///
    /// use portcullis::event::{Event, EventKind};
    /// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// // Called inline: it must not wait, so it hands over to a thread, and drops what the channel has no room for.
    /// let (sender, rejections) = sync_channel(10_000);
    /// let limiter = Limiter::memory().observe(move |event: &Event<'_>| {
    ///     if let EventKind::Rejected { reason, .. } = event.kind {
    ///         let _ = sender.try_send(reason);
    ///     }
    /// });
    /// std::thread::spawn(move || rejections.iter().for_each(|reason| println!("rejected: {reason:?}")));
    /// let layer = limiter.layer(Policy::gcra("search", Quota::per_second(10)).by(ClientIp::peer()));
    /// # let _ = layer;
    /// ```
    #[must_use]
    pub fn observe(self, observer: impl Observer) -> Self {
        self.registry.observe(Arc::new(observer));
        self
    }

    /// Sets the headers that show clients their budget in all layers that are made from now on, by this limiter or a clone of
    /// it. A layer overrides them by [`RateLimitLayer::headers`](crate::RateLimitLayer::headers).
    ///
    /// ```
    /// use portcullis::headers::RateLimitHeaders;
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let limiter = Limiter::memory().headers(RateLimitHeaders::IETF);
    /// let search = limiter.layer(Policy::gcra("search", Quota::per_second(10)).by(Global));
    /// assert_eq!(search.exposed_headers()[0], "ratelimit");
    /// let images = limiter.layer(Policy::gcra("images", Quota::per_second(50)).by(Global)).headers(RateLimitHeaders::NONE);
    /// assert_eq!(images.exposed_headers(), ["retry-after"]);
    /// ```
    #[must_use]
    pub fn headers(self, headers: RateLimitHeaders) -> Self {
        self.registry.headers(headers);
        self
    }

    /// Gives one of the [headers](Self::headers) another name in the responses of all layers that are made from now on, by this limiter or a
    /// clone of it, of its [checks](Self::check) and of its rules. A layer that [renames](crate::RateLimitLayer::rename_header) headers by
    /// itself, or rules with `header_names`, have their own names alone.
    ///
    /// ```
    /// use http::HeaderName;
    /// use portcullis::headers::X_RATELIMIT_LIMIT;
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let limiter = Limiter::memory().rename_header(&X_RATELIMIT_LIMIT, HeaderName::from_static("acme-limit"))?;
    /// let search = limiter.layer(Policy::gcra("search", Quota::per_second(10)).by(Global));
    /// assert_eq!(search.exposed_headers()[0], "acme-limit");
    /// # Ok::<(), portcullis::headers::HeaderRenameError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the header shows no budget, or the name is that of another header, such as `content-type`.
    pub fn rename_header(self, from: &HeaderName, to: HeaderName) -> Result<Self, HeaderRenameError> {
        self.registry.rename_header(from, to)?;
        Ok(self)
    }

    /// Sets the closure that makes the response to rejected HTTP requests in all layers that are made from now on, by this
    /// limiter or a clone of it. A layer overrides it by [`RateLimitLayer::reject_with`](crate::RateLimitLayer::reject_with),
    /// which describes it.
    ///
    /// ```
    /// use portcullis::{Limiter, Reason};
    ///
    /// let limiter = Limiter::memory().reject_with(|rejection| {
    ///     let mut response = rejection.response();
    ///     if rejection.reason() == Reason::Limited {
    ///         *response.body_mut() = "slow down, please".into();
    ///     }
    ///     response
    /// });
    /// # let _ = limiter;
    /// ```
    #[must_use]
    pub fn reject_with<R: RejectionResponse>(
        self,
        response: impl Fn(&Rejection<'_>) -> R + Send + Sync + 'static,
    ) -> Self {
        self.registry.reject_with(response);
        self
    }

    /// Sets the format of the body of rejections for clients without a preference, plain text by default, of all layers that are made
    /// from now on, by this limiter or a clone of it. See [`RateLimitLayer::reject_as`](crate::RateLimitLayer::reject_as).
    #[must_use]
    pub fn reject_as(self, format: RejectionFormat) -> Self {
        self.registry.reject_as(format);
        self
    }

    /// Sets a closure that changes rejections in gRPC, of all layers that are made from now on, by this limiter or a clone of it. See
    /// [`RateLimitLayer::reject_grpc_with`](crate::RateLimitLayer::reject_grpc_with).
    #[must_use]
    pub fn reject_grpc_with(
        self,
        change: impl Fn(&Rejection<'_>, &mut GrpcRejection) + Send + Sync + 'static,
    ) -> Self {
        self.registry.reject_grpc_with(change);
        self
    }

    /// Puts the [`Decision`] into the extensions of every response of all layers that are made from now on, by this limiter or
    /// a clone of it. See [`RateLimitLayer::decision_in_response`](crate::RateLimitLayer::decision_in_response).
    #[must_use]
    pub fn decision_in_response(self) -> Self {
        self.registry.decision_in_response();
        self
    }

    /// Returns a layer with one limit; [`and`](RateLimitLayer::and) adds others. A policy becomes a limit when it has a key:
    /// [`PolicyExt::by`](crate::PolicyExt::by).
    ///
    /// The same policy in two layers shares one budget per key.
    ///
    /// # Panics
    ///
    /// If [`try_layer`](Self::try_layer) returns an error for the limit.
    #[track_caller]
    pub fn layer(&self, limit: impl KeyedLimit) -> RateLimitLayer {
        RateLimitLayer::new(Arc::clone(&self.registry), limit)
    }

    /// Returns a layer with limits that are not literals, such as those of a configuration file.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the limits, or that this limiter refuses: see [`RateLimitLayer::try_new`].
    pub fn try_layer(
        &self,
        limits: impl IntoIterator<Item = Limit>,
    ) -> Result<RateLimitLayer, Mistakes<LayerError>> {
        RateLimitLayer::try_new(Arc::clone(&self.registry), limits)
    }

    /// Starts a check under `policy` in a handler; [`by`](CheckBuilder::by) sets its key, and it is decided when it is awaited.
    ///
    /// It answers as a layer does: failure modes apply, events are emitted, and [`Limited`](crate::check::Limited) is the
    /// response. See [`Check`](crate::check::Check).
    ///
    /// ```
    /// use portcullis::check::Limited;
    /// use portcullis::{Limiter, Policy, Quota};
    ///
    /// static MAILS: Policy = Policy::sliding_window("mails", Quota::per_hour(3));
    ///
    /// async fn forgot_password(limiter: &Limiter, email: &str) -> Result<(), Limited> {
    ///     limiter.check(&MAILS).by(|key| key.part("email", email.to_lowercase().as_bytes())).await?;
    ///     // Send the mail.
    ///     Ok(())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let limiter = Limiter::memory();
    /// for _ in 0..3 {
    ///     assert!(forgot_password(&limiter, "Ada@example.com").await.is_ok());
    /// }
    /// let limited = forgot_password(&limiter, "ada@example.com").await.expect_err("three mails per hour");
    /// assert_eq!(limited.status(), 429);
    /// # }
    /// ```
    pub fn check<'a>(&'a self, policy: &'a Policy) -> CheckBuilder<'a> {
        CheckBuilder::new(&self.registry, policy)
    }

    /// Computes the key of an identity that is written part by part. The parts that an extractor writes give the same key here.
    ///
    /// # Errors
    ///
    /// If nothing is written, or more than a key may contain.
    pub fn key(&self, write: impl FnOnce(&mut KeyWriter<'_>)) -> Result<Key, KeyWriteError> {
        let mut hasher = self.registry.secret().hasher();
        write(&mut hasher.writer());
        hasher.finish()
    }

    /// Returns what `key` has left under `policy`. Charges nothing.
    ///
    /// Under a policy with [quotas of callers](Policy::caller_quotas), the quota is that of a grant, or the one that a
    /// [look-up](crate::Limit::quota_by_async) of a layer keeps for the key. Otherwise it is that of the policy, although the caller may have
    /// another: `policy.with_quota(quota)?` has the quota that you know.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use portcullis::{Limiter, Policy, Quota};
    ///
    /// let limiter = Limiter::memory();
    /// let exports = Policy::fixed_window("exports", Quota::per_day(5));
    /// let ada = limiter.key(|key| key.part("user", b"ada"))?;
    /// assert_eq!(limiter.peek(&exports, ada).await?.remaining(), 5);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the store cannot answer.
    pub async fn peek(&self, policy: &Policy, key: Key) -> Result<Decision, StoreError> {
        // The given one may lack what its checks read.
        let registered = self.registry.policy(policy.name()).filter(Policy::reads_overrides);
        let policy = registered.unwrap_or_else(|| policy.clone());
        let policy = self.registry.caller_policy(&policy, key).unwrap_or(policy);
        Ok(self.engine().check(Checks::one(policy, key, 0)).await?.into_decision())
    }

    /// Refunds a charge, as far as the state still holds it, and peeks.
    pub fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.store().refund(self.registry.as_of_now(receipt, 0))
    }

    /// Settles a charge at `cost`: the difference is refunded, or charged whether it fits or not.
    pub fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.store().settle(self.registry.as_of_now(receipt, cost), cost)
    }

    /// Resets `key` under `policy`: the full limit is available again. A [block](Self::block) or a [grant](Self::grant) of the key
    /// stays.
    pub fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.store().reset(policy, key)
    }

    /// Waits until the settlements of all [reservations](crate::Limit::reserve) whose responses have ended, and the releases
    /// of all [permits](crate::RateLimitLayer::and), are made or given up, then returns the leases of this process, all at most
    /// for `deadline`. Then the log gets the events that no line has counted yet. Returns the settlements that are left. For the end of a process, after its server has ended all responses. With a
    /// deadline of zero it returns at once and tries nothing, so that the figures may be polled.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    ///
    /// use portcullis::Limiter;
    ///
    /// let limiter = Limiter::memory();
    /// // After `axum::serve(..).with_graceful_shutdown(..)`:
    /// let drained = limiter.drain(Duration::from_secs(5)).await;
    /// assert_eq!((drained.left, drained.units), (0, 0));
    /// # }
    /// ```
    pub async fn drain(&self, deadline: Duration) -> Drained {
        let drained = self.registry.drain(deadline).await;
        if !deadline.is_zero() {
            UnsaidLines::of_process().write();
        }
        drained
    }

    /// The engine, for doors of other kinds than layers and [checks](Self::check): it decides about calls of a function as well, without HTTP.
    /// See the crate `portcullis-engine`.
    pub fn engine(&self) -> &Arc<Engine> {
        self.registry.engine()
    }

    /// The store, for decisions without the failure modes, events and responses of a layer or of a [`check`](Self::check).
    pub fn store(&self) -> &Arc<dyn Store> {
        self.registry.store()
    }
}
