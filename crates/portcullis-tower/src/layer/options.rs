//! Options of a layer that apply to all of its policies: what it leaves for handlers, and how it treats preflights.

use std::sync::Arc;

#[cfg(doc)]
use crate::Limit;
use crate::{LayerError, RateLimitLayer};
use portcullis_response::internal::ResponseSettings;

impl RateLimitLayer {
    /// Names the route that the layer is on, such as `GET /search`: for the lines that the layer logs, and for
    /// `Limiter::layers`. It matches no requests.
    ///
    /// In a router of Axum a layer learns its routes by itself, from the first request to each (`MatchedPath`), and shows up to eight of
    /// them, unless this names one. That needs the feature `axum`.
    ///
    /// ```
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::Layer as _;
    ///
    /// let limiter = Limiter::memory();
    /// let search = Policy::gcra("search", Quota::per_second(10));
    /// let service = limiter.layer(search.by(Global)).route("GET /search").layer(());
    /// assert_eq!(limiter.layers()[0].route(), Some("GET /search"));
    /// # drop(service);
    /// ```
    pub fn route(mut self, route: impl Into<Box<str>>) -> Self {
        Arc::make_mut(&mut self.config).set_route(&route.into());
        self
    }

    /// Puts the [`Decision`](portcullis_core::Decision) into the extensions of every response too, allowed or rejected.
    ///
    /// A rejection of a request whose key cannot be determined has its [`KeyError`](crate::KeyError) there instead.
    ///
    /// The request's extensions have it in any case, unless the layer is [without charges](Self::without_charge). With nested
    /// layers, the innermost that decided wins.
    /// `Limiter::decision_in_response` sets it for all layers of a limiter.
    pub fn decision_in_response(mut self) -> Self {
        Arc::make_mut(&mut self.config).change_responses(ResponseSettings::put_decision_in_extensions);
        self
    }

    /// Leaves no [`Charge`](crate::Charge) in the extensions of requests. Where the store answers at once without an allocation, a
    /// layer without [headers](Self::headers) then admits a request without an allocation.
    ///
    /// A handler then cannot see what remains, and cannot charge more, refund or settle. In Axum a handler that takes a `Charge`
    /// responds with 500 from the first request on, and the log names the reason; an `Option<Charge>` is `None`. Where an outer
    /// layer leaves a charge, a handler gets that one, which is of the policies of the outer layer. Headers,
    /// [`Shadow`](crate::Shadow), events and the [decision in responses](Self::decision_in_response) do not change.
    ///
    /// It is for layers whose handlers never ask: with headers switched off, a request in memory then takes 28 % fewer instructions
    /// (`cargo xtask bench instructions`), and makes no allocation in place of three.
    ///
    /// A layer inside of this one does not notice it: a policy that both have is not reported as charged twice, and where the inner
    /// layer shows no headers, those of this one are written.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::{Charge, Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let all = Policy::fixed_window("all", Quota::per_day(100));
    /// let layer = Limiter::memory().layer(all.by(Global)).without_charge();
    /// let service = layer.layer(service_fn(async |request: Request<String>| {
    ///     assert!(request.extensions().get::<Charge>().is_none());
    ///     Ok::<_, std::convert::Infallible>(Response::new(()))
    /// }));
    /// let response = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.headers()["x-ratelimit-remaining"], "99");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If a limit needs the charge afterwards: [by outcome](crate::Limit::charge_when), or as it [reserves](crate::Limit::reserve).
    #[track_caller]
    pub fn without_charge(mut self) -> Self {
        if let Some(limit) = self.config.policies().iter().find(|limit| limit.needs_charge()) {
            panic!("{}", LayerError::NeedsCharge { policy: limit.policy.name().clone() });
        }
        Arc::make_mut(&mut self.config).without_charge = true;
        self
    }

    /// Counts CORS preflights of browsers like all other requests.
    ///
    /// By default a preflight is charged to a separate preflight budget of each policy, with the same quota and
    /// [`cost`](crate::Limit::cost), under the key of the request with a fixed part added. A browser sends at most one preflight
    /// before a request, so preflights do not limit it earlier. A client that sends its guesses as preflights is limited
    /// like one that sends requests, and has at most both budgets. The response has the figures of the preflight budget,
    /// and the [`Charge`](crate::Charge) of the request changes that budget.
    ///
    /// A preflight is an `OPTIONS` request with one `Origin` and one `Access-Control-Request-Method`, neither of them
    /// empty, without `Content-Type` and `Transfer-Encoding`, whose body has ended
    /// (`is_end_stream` of `http_body::Body`). With a body whose end is unknown it is an ordinary request.
    ///
    /// Preflights carry no identity, so the requirements are lower:
    ///
    /// - A policy that finds no key does not count a preflight, regardless of its [`on_missing`](crate::Limit::on_missing).
    ///   Look-ups ([`by_async`](crate::Limit::by_async)) are not started, and [`shadow`](crate::Limit::shadow) policies are not checked.
    /// - If no policy finds a key, a preflight passes uncounted if it has no `Authorization`, `Proxy-Authorization` and
    ///   `Cookie`. A preflight with one of these headers is counted like any other request. A second policy, by address, finds a
    ///   key for every preflight.
    /// - A malformed identity is rejected as on any request.
    ///
    /// Count preflights like all other requests if the inner service executes such requests and the key is a credential: with
    /// a handler for `any` method, or a Tonic server with methods that take a stream, since Tonic runs a call regardless of its
    /// HTTP method.
    pub fn limit_preflights(mut self) -> Self {
        Arc::make_mut(&mut self.config).limits_preflights = true;
        self
    }
}
