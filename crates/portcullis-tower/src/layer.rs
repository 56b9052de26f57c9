//! Configures a layer: policies, keys, costs, headers and deadlines.

mod builder;
mod hints;
mod in_flight;
mod lists;
mod lock_out;
#[cfg(feature = "openapi")]
mod openapi;
mod options;
mod outcome;
mod quota;
mod rejection;
mod reserve;
mod trial;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use portcullis_core::store::Checks;
use portcullis_core::{Policy, PolicyName};
use tower_layer::Layer;

use crate::OnMissing;
use crate::RateLimitHeaders;
use crate::config::{LayerConfig, LiveConfig};
use crate::policy::{KeySource, LayerPolicy};
pub use builder::LayerBuilder;

use crate::{AsyncKeyExtractor, Cost, KeyExtractor, LayerError, Mode, RateLimit};

/// Limits the requests to a service. Made by [`LayerBuilder::by`](crate::LayerBuilder::by).
///
/// It has no type parameters and is cheap to clone: it can be returned from a function, kept in a struct and applied to
/// any number of services, which then share their budgets.
///
/// A layer has one policy or several, and [`and_policy`](Self::and_policy) adds one. A request is charged under all policies or under
/// none. Some methods apply to **the policy that was added last**, the others to the layer:
///
/// | | of the policy that was added last | of the layer |
/// |---|---|---|
/// | the client | [`by`](Self::by), [`by_async`](Self::by_async), [`on_missing`](Self::on_missing), [`count_rejections`](Self::count_rejections) | [`lookup_deadline`](Self::lookup_deadline) |
/// | the charge | [`release_at_headers`](Self::release_at_headers), [`cost`](Self::cost), [`charge_when`](Self::charge_when), [`charge_after`](Self::charge_after), [`refund_unanswered`](Self::refund_unanswered), [`reserve`](Self::reserve), [`quota`](Self::quota), [`quota_by_async`](Self::quota_by_async) | [`without_charge`](Self::without_charge) |
/// | which requests | [`shadow`](Self::shadow), [`enforce`](Self::enforce), [`mode`](Self::mode), [`lock_out`](Self::lock_out) | [`except`](Self::except), [`deny`](Self::deny), [`only`](Self::only), [`limit_preflights`](Self::limit_preflights) |
/// | the response | [`hide`](Self::hide), [`warn_at`](Self::warn_at) | [`headers`](Self::headers), [`reject_with`](Self::reject_with), [`spread_retries`](Self::spread_retries), [`discard_bodies`](Self::discard_bodies), [`decision_in_response`](Self::decision_in_response) |
/// | a wait | [`Policy::wait_at_most`] | [`ready_deadline`](Self::ready_deadline) |
///
/// ```
/// use std::sync::Arc;
/// use portcullis_core::{Policy, Quota, Secret};
/// use portcullis_memory::MemoryStore;
/// use portcullis_tower::{ClientIp, Global, Header, KeyExtractor as _, LayerBuilder, Registry};
///
/// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
/// let burst = Policy::gcra("burst", Quota::per_second(10).burst(20));
/// let daily = Policy::fixed_window("daily", Quota::per_day(10_000));
/// let total = Policy::gcra("total", Quota::per_second(5_000).burst(5_000));
///
/// let layer = LayerBuilder::new(registry, burst)
///     .by(Header::named("x-api-key").or(ClientIp::peer()))
///     .and_policy(daily) // by the same key
///     .cost(|parts| if parts.uri.path() == "/export" { 100 } else { 1 })
///     .and_policy(total)
///     .by(Global);
/// assert_eq!(layer.policies().map(|name| name.as_str()).collect::<Vec<_>>(), ["burst", "daily", "total"]);
/// ```
#[derive(Clone)]
#[must_use = "a layer limits nothing until it is applied"]
pub struct RateLimitLayer {
    pub(crate) config: Arc<LayerConfig>,
}

impl RateLimitLayer {
    pub(crate) fn new(config: LayerConfig) -> Self {
        Self { config: Arc::new(config) }
    }

    /// A layer that limits nothing: it rejects what its lists deny, and lets everything else through.
    #[doc(hidden)]
    pub fn without_policies(registry: &Arc<crate::Registry>) -> Self {
        Self::new(LayerConfig::without_policies(registry))
    }

    /// Adds a policy to the same decision, charged to the same key as the previous policy.
    ///
    /// A following [`by`](Self::by) gives it its own key. Nothing else of the previous policy is inherited, such as its
    /// [`on_missing`](Self::on_missing), [`cost`](Self::cost) and [`mode`](Self::mode).
    ///
    /// # Panics
    ///
    /// If [`try_and_policy`](Self::try_and_policy) returns an error.
    #[track_caller]
    pub fn and_policy(self, policy: Policy) -> Self {
        match self.try_and_policy(policy) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`and_policy`](Self::and_policy), for policies that are not literals.
    ///
    /// # Errors
    ///
    /// If the layer has a policy of this name already, the limiter has a different one of this name, the layer has
    /// [`Checks::MAX`] policies, the [work](portcullis_core::Strategy::work) of its policies, shadow policies included, exceeds
    /// [`Checks::MAX_WORK`], or the store refuses the policy.
    pub fn try_and_policy(mut self, policy: Policy) -> Result<Self, LayerError> {
        if self.policies().any(|name| name == policy.name()) {
            return Err(LayerError::Duplicate { policy: policy.name().clone() });
        }
        if self.policies().count() >= Checks::MAX {
            return Err(LayerError::TooMany);
        }
        let config = Arc::make_mut(&mut self.config);
        let key = config.last_key();
        config.push(LayerPolicy::new(policy, key))?;
        Ok(self)
    }

    /// Charges the policy that was added last to another key. The other policies keep theirs.
    ///
    /// # Panics
    ///
    /// If clients [choose](KeyExtractor::is_chosen_by_client) the key, and the policy is enforced for a [share](Self::enforce)
    /// of its keys. Set the key first: then [`try_mode`](Self::try_mode) returns this as an error. The same holds for a key that
    /// clients [share](KeyExtractor::is_shared), and a [lock-out](Self::lock_out).
    #[track_caller]
    pub fn by(self, key: impl KeyExtractor) -> Self {
        let layer = self.with_last(|last| last.key = KeySource::Sync(Arc::new(key)));
        let mode = layer.config.last().mode;
        layer.mode(mode)
    }

    /// Like [`by`](Self::by), for a key that has to be looked up.
    ///
    /// A layer with look-ups decides in two steps. First the store checks all policies whose keys are synchronous: if one
    /// denies, the response is 429, and nothing is looked up. Then all look-ups run concurrently, within a
    /// [deadline](Self::lookup_deadline); if one fails or takes longer, the response is 503. Then the store checks the policies
    /// whose keys were looked up. If one of those denies, or the store cannot answer, the charges of the first step are
    /// refunded.
    ///
    /// Combine a policy that has a look-up with one [by address](crate::ClientIp): it limits the look-ups that an address
    /// starts, because its charge [stays](Self::count_rejections) when an unknown identity is rejected.
    ///
    /// [`CachedLookup`](crate::CachedLookup) keeps what was found. A look-up may tell the
    /// [quota](crate::Lookup::quota) of the identity as well; it takes the place of [`quota_by_async`](Self::quota_by_async).
    pub fn by_async(self, key: impl AsyncKeyExtractor) -> Self {
        key.count_in(self.config.registry.lookup_counts());
        self.with_last(|last| last.look_up_key(Arc::new(key)))
    }

    /// Sets how the policy that was added last treats a request that has no identity.
    ///
    /// The default is [`OnMissing::Reject`].
    ///
    /// # Panics
    ///
    /// For [`OnMissing::Shared`], if the policy has a [lock-out](Self::lock_out): [`try_lock_out`](Self::try_lock_out) returns this
    /// as an error if it comes afterwards.
    #[track_caller]
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.with_last(|last| last.on_missing = on_missing)
    }

    /// Keeps requests charged under the policy that was added last if they are rejected because their identity is missing or
    /// malformed under another policy of the layer (400, 401), or because its look-up fails (503).
    ///
    /// By default they stay charged under policies [by address](crate::ClientIp) only. So an address that guesses gets 429 once
    /// its budget is used up, and no client uses up the budget of others, or a shared one, with requests that are never
    /// admitted. Set it for another policy if the client cannot choose its key, or if the total of rejected requests should be
    /// limited. It has no effect where the key is looked up. See [`KeyExtractor::counts_rejections`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use http::{Request, Response};
    /// use portcullis_core::{Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{Bearer, Global, LayerBuilder, Registry};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
    /// let tokens = Policy::gcra("tokens", Quota::per_second(10));
    /// let all = Policy::sliding_window("all", Quota::per_minute(2));
    /// let layer = LayerBuilder::new(registry, tokens).by(Bearer).and_policy(all).by(Global).count_rejections();
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// for status in [401, 401, 429] {
    ///     assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn count_rejections(self) -> Self {
        self.with_last(|last| last.counts_rejections = true)
    }

    /// Sets how long the look-ups of a request may take together, 1 s by default.
    ///
    /// If a look-up takes longer, the response is 503, in gRPC `UNAVAILABLE`; [`on_missing`](Self::on_missing) does not apply. A
    /// shadow policy whose look-up takes longer does not count the request. A look-up needs a tokio runtime with a timer, unless
    /// it completes when it is first polled.
    pub fn lookup_deadline(mut self, deadline: Duration) -> Self {
        Arc::make_mut(&mut self.config).lookup_deadline = deadline;
        self
    }

    /// Sets how long a request that had to wait, for its slot in a queue, a window or a look-up, waits afterwards until the inner
    /// service is ready, 5 s by default.
    ///
    /// A request that waits does not keep an instance of the inner service ready, so that it does not block other requests: an
    /// instance that was ready is released, and another is made ready after the wait. If that takes longer than `deadline`, the
    /// response is 503, in gRPC `UNAVAILABLE`, and the request is refunded. An error of the inner service while it gets ready is
    /// returned unchanged, and the request is refunded as well.
    pub fn ready_deadline(mut self, deadline: Duration) -> Self {
        Arc::make_mut(&mut self.config).ready_deadline = deadline;
        self
    }

    /// Sets how many bytes of the body of a rejected request are read, and discarded: 16 MiB by default, none with 0.
    ///
    /// The response leaves at once, and its body is read afterwards, in a task of the runtime. If it were not, a server would close a
    /// connection of HTTP/1 while the client still writes, which loses the response, and reset a stream of HTTP/2, which servers
    /// allow a limited number of times for a connection that other clients may share.
    ///
    /// A body is read for at most 5 s, and after the first second only if 64 KiB/s arrive. At the same time 1 024 bodies of
    /// a process are read, and 64 with one key, or from one peer if the request has none. A body that the client sends after
    /// `100 Continue` only is not read, in HTTP/1.1: the client gets the response in its place.
    pub fn discard_bodies(mut self, bytes: u64) -> Self {
        Arc::make_mut(&mut self.config).discarded_bytes = bytes;
        self
    }

    /// Sets the cost of a request in units, for the policy that was added last.
    ///
    /// The default is 1. A cost of 0 is always admitted and still reports what remains. For a cost that can never fit, the
    /// response is 400; no limit is above [`Quota::MAX_UNITS`](portcullis_core::Quota::MAX_UNITS).
    pub fn cost(self, cost: impl Cost) -> Self {
        self.with_last(|last| last.cost = Some(Arc::new(cost)))
    }

    /// Makes the policy that was added last a shadow policy: it decides and reports, and never rejects. The same as
    /// [`mode(Mode::Shadow)`](Self::mode).
    ///
    /// A request that the other policies of the layer let pass is charged under it separately: a request that it denies is
    /// charged under the others nevertheless, and a request that they deny is not charged under it. Its decision is in
    /// [`Shadow`](crate::Shadow), in the extensions of the request. The requests that it would have rejected are counted in the
    /// log, at most once a minute, and [`RateLimitHeaders::SHADOW`] shows them to the client.
    ///
    /// It is checked after the others: a layer that has both calls its store twice, sequentially, with all shadow policies
    /// checked concurrently. Redis delays a request by up to two deadlines in the first two of an outage, and by up
    /// to one while others are answered.
    ///
    /// A request without an identity for it passes as well. A delay in its decision is ignored.
    ///
    /// It leaves no [`Charge`](crate::Charge) in the request. In a layer that has only shadow policies, a handler that extracts
    /// `Charge` fails; it has to extract an `Option` of it.
    pub fn shadow(self) -> Self {
        self.mode(Mode::Shadow)
    }

    /// Keeps the policy that was added last out of the headers of the [budget](Self::headers), for a limit that clients should
    /// not see, such as one that protects the service as a whole. It decides like any other policy.
    ///
    /// The figures are then those of the decisive one among the other policies. A request that this policy rejects has
    /// `Retry-After`, its name in the body, and no figures. A layer whose policies are all hidden writes none at all, so that
    /// those of an outer layer are shown.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use http::{Request, Response};
    /// use portcullis_core::{Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{Global, Header, LayerBuilder, RateLimitHeaders, Registry};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
    /// let user = Policy::fixed_window("user", Quota::per_day(100));
    /// let total = Policy::gcra("total", Quota::per_second(500).burst(50));
    /// let layer = LayerBuilder::new(registry, user)
    ///     .by(Header::named("x-user"))
    ///     .and_policy(total).by(Global).hide()
    ///     .headers(RateLimitHeaders::IETF);
    /// let service = layer.layer(service_fn(async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(()))));
    /// let response = service.oneshot(Request::builder().header("x-user", "ada").body(String::new())?).await?;
    /// assert_eq!(response.headers()["ratelimit-policy"], r#""user";q=100;w=86400"#);
    /// assert_eq!(response.headers()["ratelimit"], r#""user";r=99"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn hide(self) -> Self {
        self.with_last(|last| last.is_hidden = true)
    }

    /// Sets the headers that show clients their budget, by default those of
    /// [the limiter](crate::Registry::headers). The default there is [`RateLimitHeaders::X_RATELIMIT`].
    ///
    /// They list only the policies that count the request. With nested layers, the innermost that decided writes all of its
    /// headers, and the others write none.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use http::{Request, Response};
    /// use portcullis_core::{Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{Global, LayerBuilder, RateLimitHeaders, Registry};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
    /// let burst = Policy::gcra("burst", Quota::per_second(10).burst(20));
    /// let layer = LayerBuilder::new(registry, burst).by(Global).headers(RateLimitHeaders::IETF);
    /// let service = layer.layer(service_fn(async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(()))));
    /// let response = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.headers()["ratelimit-policy"], r#""burst";q=20;w=2"#);
    /// assert_eq!(response.headers()["ratelimit"], r#""burst";r=19"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn headers(mut self, headers: RateLimitHeaders) -> Self {
        Arc::make_mut(&mut self.config).change_responses(|responses| responses.set_headers(headers));
        self
    }

    /// Returns the headers to expose to pages of other origins, including `Retry-After`. Pass them to `expose_headers` of the
    /// CORS layer, which belongs outside of this one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use portcullis_core::{Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{Global, LayerBuilder, Registry};
    ///
    /// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
    /// let layer = LayerBuilder::new(registry, Policy::gcra("search", Quota::per_second(10))).by(Global);
    /// let exposed = layer.exposed_headers();
    /// assert_eq!(exposed[0], "x-ratelimit-limit");
    /// assert!(exposed.iter().any(|name| name == "retry-after"));
    /// ```
    pub fn exposed_headers(&self) -> Vec<HeaderName> {
        self.config.responses.exposed()
    }

    /// Returns the names of the policies, in the order in which they were added.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyName> {
        self.config.policies().iter().map(|layer_policy| layer_policy.policy.name())
    }

    #[track_caller]
    fn with_last(mut self, change: impl FnOnce(&mut LayerPolicy)) -> Self {
        let config = Arc::make_mut(&mut self.config);
        config.change_last(change);
        if let Err(error) = lock_out::check(config.last()) {
            panic!("{error}");
        }
        self
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, LiveConfig::started(&self.config))
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies: Vec<_> = self.policies().collect();
        f.debug_struct("RateLimitLayer").field("policies", &policies).finish()
    }
}
