//! The layer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, Response};
use portcullis_core::{Checks, Policy, PolicyName, StoreError, TooMuchWork};
use tower_layer::Layer;

use crate::answer::{self, RateLimitHeaders, Rejection};
use crate::registry::PolicyConflict;
use crate::rules::{KeySource, LayerConfig, LayerPolicy, OnMissing};
use crate::{AsyncKeyExtractor, KeyExtractor, RateLimit};

/// Limits the requests to a service. Made by [`LayerBuilder::by`](crate::LayerBuilder::by).
///
/// It has no type parameters and is cheap to clone: it can be returned from a function, kept in a struct and applied to
/// any number of services, which then share their budgets.
///
/// A layer has one policy or several. [`and_policy`](Self::and_policy) adds one; [`by`](Self::by),
/// [`on_missing`](Self::on_missing), [`cost`](Self::cost) and [`shadow`](Self::shadow) speak of **the policy that was added
/// last**. A request is charged under all of them or under none.
///
/// ```
/// # mod support { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support.rs")); }
/// use portcullis_core::{Policy, Quota};
/// use portcullis_tower::{ClientIp, Global, Header, KeyExtractor as _, LayerBuilder};
///
/// # let registry = support::registry();
/// let burst = Policy::gcra("burst", Quota::per_second(10).burst(20));
/// let daily = Policy::fixed_window("daily", Quota::per_day(10_000));
/// let everybody = Policy::gcra("everybody", Quota::per_second(5_000).burst(5_000));
///
/// let layer = LayerBuilder::new(registry, burst)
///     .by(Header::named("x-api-key").or(ClientIp::peer()))
///     .and_policy(daily) // by the same key
///     .cost(|parts| if parts.uri.path() == "/export" { 100 } else { 1 })
///     .and_policy(everybody)
///     .by(Global);
/// assert_eq!(layer.policies().map(|name| name.as_str()).collect::<Vec<_>>(), ["burst", "daily", "everybody"]);
/// ```
#[derive(Clone)]
#[must_use = "a layer limits nothing until it is applied"]
pub struct RateLimitLayer {
    rules: Arc<LayerConfig>,
}

impl RateLimitLayer {
    pub(crate) fn new(rules: LayerConfig) -> Self {
        Self { rules: Arc::new(rules) }
    }

    /// Adds a policy to the same decision, charged to the same key as the policy before it.
    ///
    /// A following [`by`](Self::by) gives it a key of its own. What [`on_missing`](Self::on_missing),
    /// [`cost`](Self::cost) and [`shadow`](Self::shadow) said of the policy before is not inherited.
    ///
    /// # Panics
    ///
    /// If [`try_and_policy`](Self::try_and_policy) refuses the policy.
    #[track_caller]
    pub fn and_policy(self, policy: Policy) -> Self {
        match self.try_and_policy(policy) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`and_policy`](Self::and_policy), for policies that come from elsewhere.
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
        TooMuchWork::check(self.rules.iter().map(|rule| &rule.policy).chain([&policy]))?;
        self.rules.registry().register(&policy)?;
        let rules = Arc::make_mut(&mut self.rules);
        let key = rules.last_key();
        rules.push(LayerPolicy::new(policy, key));
        Ok(self)
    }

    /// Charges the policy that was added last to another key. The other policies keep theirs.
    pub fn by(self, key: impl KeyExtractor) -> Self {
        self.with_last(|rule| rule.key = KeySource::Sync(Arc::new(key)))
    }

    /// Like [`by`](Self::by), for a key that has to be looked up.
    ///
    /// A layer with look-ups decides in two steps. First the store is asked about all policies whose keys are synchronous: if
    /// one denies, the answer is 429, and nothing is looked up. Then all look-ups run at once, within a
    /// [deadline](Self::lookup_deadline); one that fails or takes longer is answered 503. Then the store is asked about the
    /// policies whose keys were looked up. If one of those denies, or the store cannot answer, what the first step has charged
    /// is refunded.
    ///
    /// Put a policy [by address](crate::ClientIp) beside one with a look-up: it limits the look-ups that an address starts,
    /// because its charge [stays](Self::counts_rejections) when a made-up identity is rejected.
    pub fn by_async(self, key: impl AsyncKeyExtractor) -> Self {
        self.with_last(|rule| rule.key = KeySource::Async(Arc::new(key)))
    }

    /// Says what becomes of a request that has no identity, for the policy that was added last.
    ///
    /// The default is [`OnMissing::Reject`].
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        self.with_last(|rule| rule.on_missing = on_missing)
    }

    /// Has requests stay charged under the policy that was added last when they are rejected because another policy of the
    /// layer finds their identity missing or broken (400, 401), or because its look-up fails (503).
    ///
    /// By default they are charged under policies [by address](crate::ClientIp) only, so that an address that guesses is
    /// answered 429 once its budget is used up, and nobody uses up the budget of others, or that of everybody, by requests that
    /// are never admitted. Say it of another policy where its key cannot be chosen by the caller, or where so many rejected
    /// requests in all are worth a limit. It has no effect where the key is looked up. See
    /// [`KeyExtractor::counts_rejections`].
    ///
    /// ```
    /// # mod support { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support.rs")); }
    /// use http::{Request, Response};
    /// use portcullis_core::{Policy, Quota};
    /// use portcullis_tower::{Bearer, Global, LayerBuilder};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let registry = support::registry();
    /// let tokens = Policy::gcra("tokens", Quota::per_second(10));
    /// let all = Policy::fixed_window("all", Quota::per_minute(2));
    /// let layer = LayerBuilder::new(registry, tokens).by(Bearer).and_policy(all).by(Global).counts_rejections();
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// for status in [401, 401, 429] {
    ///     assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn counts_rejections(self) -> Self {
        self.with_last(|rule| rule.counts_rejections = true)
    }

    /// Sets how long the look-ups of a request may take together, 1 s by default.
    ///
    /// What is not found by then is answered 503, in gRPC `UNAVAILABLE`, never by [`on_missing`](Self::on_missing). A shadow
    /// policy whose look-up takes longer does not count the request. A look-up takes a tokio runtime with a timer, unless it
    /// is done when it is first polled.
    pub fn lookup_deadline(mut self, deadline: Duration) -> Self {
        Arc::make_mut(&mut self.rules).set_lookup_deadline(deadline);
        self
    }

    /// Sets how long a request that had to wait, for its slot in a queue or for a look-up, waits afterwards until the inner
    /// service is ready, 5 s by default.
    ///
    /// A request that waits holds no readiness of the inner service, so that it keeps no other from it: an instance that was
    /// ready is given back, and another is made ready after the wait. If that takes longer than this, the answer is 503, in
    /// gRPC `UNAVAILABLE`, and the request is refunded. An error of the inner service while it gets ready is the answer as it
    /// is, and the request is refunded as well.
    pub fn ready_deadline(mut self, deadline: Duration) -> Self {
        Arc::make_mut(&mut self.rules).set_ready_deadline(deadline);
        self
    }

    /// Says how many units a request costs, for the policy that was added last.
    ///
    /// The default is 1. A cost of 0 is always admitted and still reports what remains; one that can never fit is
    /// answered with 400.
    pub fn cost(self, cost: impl Fn(&Parts) -> u32 + Send + Sync + 'static) -> Self {
        self.with_last(|rule| rule.cost = Some(Arc::new(cost)))
    }

    /// Puts the [`Decision`](portcullis_core::Decision) into the extensions of every response too, allowed or rejected.
    ///
    /// The request's extensions have it in any case. Of layers inside each other the innermost that decided is heard.
    pub fn decision_in_response(mut self) -> Self {
        Arc::make_mut(&mut self.rules).change_answers(answer::Answers::put_decision_in_extensions);
        self
    }

    /// Has the policy that was added last decide and report, and never refuse.
    ///
    /// A request that the other policies of the layer let pass is charged under it by itself: what it denies is charged
    /// under the others all the same, and what they deny is not charged under it. What it has to say is
    /// [`Shadow`](crate::Shadow), in the extensions of the request; the log counts what it would have refused, at most once
    /// a minute; and [`RateLimitHeaders::SHADOW`] tells the client.
    ///
    /// It is asked after the others: a layer that has both asks its store twice, one after the other, and all shadow
    /// policies at once. A store that does not answer delays a request by no more than its deadline.
    ///
    /// A request whose caller it cannot tell passes as well. A delay that it would have asked for is not waited for.
    ///
    /// It leaves no [`Charge`](crate::Charge) and no [`Decision`](portcullis_core::Decision) in the request. Where a layer
    /// has only shadow policies, a handler that insists on either fails: it takes an `Option` of it.
    pub fn shadow(self) -> Self {
        self.with_last(|rule| rule.is_shadow = true)
    }

    /// Says which headers tell clients about their budget. The default is [`RateLimitHeaders::X_RATELIMIT`].
    ///
    /// Of layers inside each other the innermost that decided writes all of its own, and the others none.
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
        Arc::make_mut(&mut self.rules).change_answers(|answers| answers.set_headers(headers));
        self
    }

    /// The headers that a page of another origin has to be allowed to read, `Retry-After` included: hand them to
    /// `expose_headers` of the CORS layer, which belongs outside of this one.
    ///
    /// ```
    /// # mod support { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support.rs")); }
    /// use portcullis_core::{Policy, Quota};
    /// use portcullis_tower::{Global, LayerBuilder};
    ///
    /// # let registry = support::registry();
    /// let layer = LayerBuilder::new(registry, Policy::gcra("search", Quota::per_second(10))).by(Global);
    /// let exposed = layer.exposed_headers();
    /// assert_eq!(exposed[0], "x-ratelimit-limit");
    /// assert!(exposed.iter().any(|name| name == "retry-after"));
    /// ```
    pub fn exposed_headers(&self) -> Vec<HeaderName> {
        answer::exposed(self.rules.answers().headers())
    }

    /// Makes the response to every rejected HTTP request. gRPC has a form of its own and does not come here.
    ///
    /// The closure decides on status, body and headers; [`Rejection::response`] is what the layer would have said, to start
    /// from. Written over whatever it returns, so that they cannot be lost: `Cache-Control: no-store`, `Retry-After` where
    /// a wait cures it, the [`headers`](Self::headers) of the budget, and `WWW-Authenticate` on a missing credential unless
    /// the closure has one.
    ///
    /// ```
    /// # mod support { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support.rs")); }
    /// use http::{Request, Response};
    /// use portcullis_core::{Policy, Quota};
    /// use portcullis_tower::{Global, LayerBuilder, Reason};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let registry = support::registry();
    /// let layer = LayerBuilder::new(registry, Policy::gcra("all", Quota::per_minute(1))).by(Global).reject_with(|rejection| {
    ///     if rejection.reason() != Reason::Limited {
    ///         return rejection.response();
    ///     }
    ///     let wait = rejection.retry_after().unwrap_or_default().as_secs();
    ///     let page = format!("<p>{} is busy, come back in {wait} s", rejection.parts().uri.path());
    ///     let mut response = Response::new(page.into());
    ///     *response.status_mut() = rejection.status();
    ///     response
    /// });
    /// let service = layer.layer(service_fn(async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(String::new()))));
    /// assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), 200);
    /// let refused = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &60.into()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reject_with<F>(mut self, response: F) -> Self
    where
        F: Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync + 'static,
    {
        Arc::make_mut(&mut self.rules).change_answers(|answers| answers.set_custom(Arc::new(response)));
        self
    }

    /// Counts the CORS preflights of browsers like all other requests.
    ///
    /// By default a preflight is charged to a preflight budget beside each policy: the same quota and the policy's
    /// [`cost`](Self::cost), under the key of the request with a fixed part added. A browser sends at most one preflight
    /// before a request, so it is not limited earlier by them. A client that sends its guesses as preflights is limited
    /// like one that sends requests, and has both budgets at most. The response tells the figures of the preflight budget,
    /// and the [`Charge`](crate::Charge) of the request changes it.
    ///
    /// A preflight is an `OPTIONS` request with one `Origin` and one `Access-Control-Request-Method`, neither of them
    /// empty, without `Content-Type` and `Transfer-Encoding`, whose body has ended
    /// ([`is_end_stream`](http_body::Body::is_end_stream)). A body that does not know its end makes it an ordinary request.
    ///
    /// Preflights carry no identity, so less is asked of them:
    ///
    /// - A policy that finds no key does not count a preflight, whatever its [`on_missing`](Self::on_missing) is.
    ///   Look-ups ([`by_async`](Self::by_async)) are not started, and [`shadow`](Self::shadow) policies are not asked.
    /// - Where no policy finds a key, a preflight passes uncounted if it has no `Authorization`, `Proxy-Authorization` and
    ///   `Cookie`. With one of them it is counted like any request. A policy by address beside the others finds a key for
    ///   every preflight.
    /// - A broken identity is rejected as on any request.
    ///
    /// Count them like all others where the inner service does more for such a request than to answer it, and a key is
    /// meant to keep strangers out: a handler for `any` method, or a Tonic server with methods that take a stream, since
    /// Tonic runs a call whatever its HTTP method is.
    pub fn limit_preflights(mut self) -> Self {
        Arc::make_mut(&mut self.rules).limit_preflights();
        self
    }

    /// The names of the policies, in the order they were added.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyName> {
        self.rules.iter().map(|rule| rule.policy.name())
    }

    fn with_last(mut self, change: impl FnOnce(&mut LayerPolicy)) -> Self {
        Arc::make_mut(&mut self.rules).change_last(change);
        self
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, Arc::clone(&self.rules))
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies: Vec<_> = self.policies().collect();
        f.debug_struct("RateLimitLayer").field("policies", &policies).finish()
    }
}

/// Why a layer cannot have a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The layer has a policy of this name already.
    #[error("policy {policy} is in the layer already: its headers could not say which of the two they mean")]
    Duplicate {
        /// The name.
        policy: PolicyName,
    },
    /// More policies than a decision may have.
    #[error("a layer may have at most {} policies", Checks::MAX)]
    TooMany,
    /// The policies are more work for the server of the store than one decision may have.
    #[error(transparent)]
    TooMuchWork(#[from] TooMuchWork),
    /// The limiter knows a different policy of this name.
    #[error(transparent)]
    Conflict(#[from] PolicyConflict),
    /// The store cannot keep the policy's states: it has no room for another policy.
    #[error("{error}")]
    Refused {
        /// The name.
        policy: PolicyName,
        /// What the store says, and what has to be changed.
        error: StoreError,
    },
}
