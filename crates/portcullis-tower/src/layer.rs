//! Configures a layer: policies, keys, costs, headers and deadlines.

mod hints;
mod lists;
#[cfg(feature = "openapi")]
mod openapi;
mod options;
mod rejection;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use portcullis_core::{Mistakes, PolicyName, or_panic};
#[cfg(doc)]
use portcullis_core::{Policy, store::Checks};
use tower_layer::Layer;

use crate::config::{LayerConfig, LiveConfig};
use crate::{HeaderRenameError, KeyedLimit, LayerError, Limit, RateLimit, RateLimitHeaders, Registry};

/// Limits the requests to a service by one [`Limit`] or several.
///
/// It has no type parameters and is cheap to clone: it can be returned from a function, kept in a struct and applied to
/// any number of services, which then share their budgets.
///
/// Its methods concern all requests alike, and what concerns one policy is an option of its [`Limit`]:
///
/// | | |
/// |---|---|
/// | the limits | [`new`](Self::new), [`and`](Self::and) |
/// | which requests | [`except`](Self::except), [`deny`](Self::deny), [`only`](Self::only), [`limit_preflights`](Self::limit_preflights) |
/// | the response | [`headers`](Self::headers), [`reject_with`](Self::reject_with), [`spread_retries`](Self::spread_retries), [`discard_bodies`](Self::discard_bodies) |
/// | the handler | [`decision_in_response`](Self::decision_in_response), [`with_charge`](Self::with_charge) |
/// | a wait | [`lookup_deadline`](Self::lookup_deadline), [`ready_deadline`](Self::ready_deadline) |
///
/// ```
/// use portcullis::key::{Global, Header, KeyExtractor as _};
/// use portcullis::{ClientIp, Limit, Limiter, Policy, PolicyExt as _, Quota};
///
/// let burst = Policy::gcra("burst", Quota::per_second(10).burst(20));
/// let daily = Policy::fixed_window("daily", Quota::per_day(10_000));
/// let total = Policy::gcra("total", Quota::per_second(5_000).burst(5_000));
///
/// let layer = Limiter::memory().layer(burst.by(Header::named("x-api-key").or(ClientIp::peer())))
///     // By the same key.
///     .and(Limit::new(daily).cost_by(|parts| if parts.uri.path() == "/export" { 100 } else { 1 }))
///     .and(total.by(Global));
/// assert_eq!(layer.policies().map(|name| name.as_str()).collect::<Vec<_>>(), ["burst", "daily", "total"]);
/// ```
#[derive(Clone)]
#[must_use = "a layer limits nothing until it is applied"]
pub struct RateLimitLayer {
    pub(crate) config: Arc<LayerConfig>,
}

impl RateLimitLayer {
    /// A layer with one limit, which is registered with the limiter. [`and`](Self::and) adds others.
    ///
    /// # Panics
    ///
    /// If [`try_new`](Self::try_new) returns an error.
    #[track_caller]
    pub fn new(registry: Arc<Registry>, limit: impl KeyedLimit) -> Self {
        or_panic(Self::try_new(registry, [limit.into()]))
    }

    /// A layer with these limits, for those that are not literals. Without any, it rejects what its lists deny, and lets everything else
    /// through.
    ///
    /// ```
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let [one, other] = [5, 6].map(|limit| Policy::fixed_window("daily", Quota::per_day(limit)).by(Global));
    /// let errors = Limiter::memory().try_layer([one.warn_at(1.5), other.release_at_headers()]).unwrap_err();
    /// assert_eq!(errors.iter().count(), 3); // each has a mistake, and both have one name
    /// ```
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the limits: the first has no key; an option has an invalid value, or does not fit the policy or
    /// another option; two have one name; the limiter has a different policy of a name; there are more than [`Checks::MAX`](portcullis_core::store::Checks::MAX); the
    /// [work](portcullis_core::Strategy::work) of all, shadow policies included, exceeds [`Checks::MAX_WORK`](portcullis_core::store::Checks::MAX_WORK); the store refuses a
    /// policy.
    pub fn try_new(
        registry: Arc<Registry>,
        limits: impl IntoIterator<Item = Limit>,
    ) -> Result<Self, Mistakes<LayerError>> {
        let mut config = LayerConfig::new(registry);
        config.add(limits)?;
        Ok(Self { config: Arc::new(config) })
    }

    /// Adds a limit to the same decision: a request is charged under all limits of a layer or under none. A [`Policy`](portcullis_core::Policy) is charged to
    /// the key of the limit before it, and so is a limit without a key.
    ///
    /// # Panics
    ///
    /// If [`try_new`](Self::try_new) with all limits returns an error.
    #[track_caller]
    pub fn and(mut self, limit: impl Into<Limit>) -> Self {
        or_panic(Arc::make_mut(&mut self.config).add([limit.into()]));
        self
    }

    /// Sets how long the look-ups of a request may take together, 1 s by default.
    ///
    /// If a look-up takes longer, the response is 503, in gRPC `UNAVAILABLE`; [`on_missing`](crate::Limit::on_missing) does not apply. A
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
    /// response is 503, in gRPC `UNAVAILABLE`, and the request is refunded, also under shadow policies. An error of the inner service
    /// while it gets ready is returned unchanged, and the request is refunded as well.
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

    /// Sets the headers that show clients their budget, by default those of
    /// the limiter. The default there is [`RateLimitHeaders::X_RATELIMIT`].
    ///
    /// They list only the policies that count the request. With nested layers, the innermost that decided writes all of its
    /// headers, and the others write none.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::headers::RateLimitHeaders;
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let burst = Policy::gcra("burst", Quota::per_second(10).burst(20));
    /// let layer = Limiter::memory().layer(burst.by(Global)).headers(RateLimitHeaders::IETF);
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(()))
    /// }));
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

    /// Gives one of the [headers](Self::headers) another name, such as `x-rate-limit-remaining` in place of `x-ratelimit-remaining`, for
    /// clients that know it by that name. `Retry-After` keeps its own. `Limiter::rename_header` does so for all layers and checks of a
    /// limiter; a layer with a name of its own has none of these.
    ///
    /// ```
    /// use http::{HeaderName, Request, Response};
    /// use portcullis::headers::X_RATELIMIT_REMAINING;
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let own = HeaderName::from_static("x-rate-limit-remaining");
    /// let burst = Policy::gcra("burst", Quota::per_second(10).burst(20)).by(Global);
    /// let layer = Limiter::memory().layer(burst).rename_header(&X_RATELIMIT_REMAINING, own)?;
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(()))
    /// }));
    /// let response = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.headers()["x-rate-limit-remaining"], "19");
    /// assert!(!response.headers().contains_key("x-ratelimit-remaining"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the header shows no budget, or the name is that of another header, such as `content-type`.
    pub fn rename_header(mut self, from: &HeaderName, to: HeaderName) -> Result<Self, HeaderRenameError> {
        let mut renamed = Ok(());
        Arc::make_mut(&mut self.config)
            .change_responses(|responses| renamed = responses.rename_header(from.clone(), to));
        renamed.map(|()| self)
    }

    /// Returns the headers to expose to pages of other origins, including `Retry-After`. Pass them to `expose_headers` of the
    /// CORS layer, which belongs outside of this one.
    ///
    /// ```
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let layer = Limiter::memory().layer(Policy::gcra("search", Quota::per_second(10)).by(Global));
    /// let exposed = layer.exposed_headers();
    /// assert_eq!(exposed[0], "x-ratelimit-limit");
    /// assert!(exposed.iter().any(|name| name == "retry-after"));
    /// ```
    pub fn exposed_headers(&self) -> Vec<HeaderName> {
        self.config.responses.exposed()
    }

    /// Returns the names of the policies, in the order in which they were added.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyName> {
        self.config.policies().iter().map(|limit| limit.policy.name())
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
