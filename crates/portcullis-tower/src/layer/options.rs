//! Options of a layer that apply to all of its policies: what it leaves for handlers, and how it treats preflights.

use std::sync::Arc;

#[cfg(doc)]
use crate::Limit;
use crate::RateLimitLayer;
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
    /// With nested layers, the innermost that decided wins.
    /// `Limiter::decision_in_response` sets it for all layers of a limiter.
    pub fn decision_in_response(mut self) -> Self {
        Arc::make_mut(&mut self.config).change_responses(ResponseSettings::put_decision_in_extensions);
        self
    }

    /// Leaves the [`Charge`](crate::Charge) of each request that it counts in the extensions of the request, for the handler: to see
    /// what remains, to charge more, to refund and to settle. With the feature `axum`, the handler takes it as an extractor.
    ///
    /// A layer leaves it in any case if one of its policies is charged [by outcome](crate::Limit::charge_when),
    /// [reserves](crate::Limit::reserve) units or limits requests in flight. Without this option, a handler of Axum that takes a
    /// `Charge` responds with 500 from the first request on, and the log names the option. An `Option<Charge>` is then `None`, which
    /// the log says as well. Where an outer layer leaves a charge, a handler gets that one, of the policies of the outer layer.
    ///
    /// It is an option because each request pays for it: one in memory without headers then takes 37 % more instructions
    /// (`cargo xtask bench instructions`), and makes up to three allocations in place of none.
    ///
    /// A layer inside of one that leaves a charge keeps the figures of the outer one out of the response, even if it shows none
    /// itself. It reports a policy that both have for each request, and otherwise for the first 16 requests of the outer layer.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::{Charge, Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let rows = Policy::fixed_window("rows", Quota::per_day(100));
    /// let layer = Limiter::memory().layer(rows.by(Global)).with_charge();
    /// let service = layer.layer(service_fn(async |request: Request<String>| {
    ///     let charge = request.extensions().get::<Charge>().expect("this request is counted");
    ///     charge.settle(40).await.expect("the store answers");
    ///     Ok::<_, std::convert::Infallible>(Response::new(()))
    /// }));
    /// let response = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.headers()["x-ratelimit-remaining"], "60");
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_charge(mut self) -> Self {
        Arc::make_mut(&mut self.config).with_charge = true;
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
