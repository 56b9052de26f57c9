//! Which requests a layer limits, denies and exempts.

use std::sync::Arc;

use crate::RateLimitLayer;
use crate::matching::RequestMatcher;
use portcullis_identity::lists::Lists;

/// Exemptions and lists.
///
/// They apply to the whole layer, shadow policies included, not to the policy. They are decided before any
/// look-up and any call of the store. Several calls of one kind add up: a request has to match one of the matchers.
/// [`deny`](Self::deny) is applied first, then [`only`](Self::only), then [`except`](Self::except). The module
/// of [`RequestMatcher`](crate::matching::RequestMatcher) has the matchers.
///
/// They apply to [preflights](Self::limit_preflights) as they are sent: with the address and the path of the request that
/// follows, and the method `OPTIONS`. A preflight that they do not limit is not charged to its budget either.
impl RateLimitLayer {
    /// Does not limit requests that match, like those of an exempt identity: they are not charged, get no headers and no
    /// [`Charge`](crate::Charge) of this layer, and start no look-up.
    ///
    /// A request that the matcher [cannot compare](crate::matching::Undecided) is not exempt.
    ///
    /// A client chooses everything in a request except its address and its extensions. An exemption by a path is safe, because the
    /// path determines the handler; one by a header exempts every client that sends it.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::layer::RequestPath;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let policy = Policy::fixed_window("all", Quota::per_day(1));
    /// let layer = Limiter::memory().layer(policy.by(Global)).except(RequestPath::exact("/health"));
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// for (path, status) in
    ///     [("/search", 200), ("/search", 429), ("/health", 200), ("/health", 200), ("//health", 429)]
    /// {
    ///     let request = Request::get(path).body(String::new())?;
    ///     assert_eq!(service.clone().oneshot(request).await?.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the matcher is [chosen by the client](RequestMatcher::is_chosen_by_client), which would exempt itself.
    #[track_caller]
    pub fn except(self, matcher: impl RequestMatcher) -> Self {
        assert!(!matcher.is_chosen_by_client(), "a client that writes what is exempt exempts itself");
        self.with_lists(|lists| lists.except(matcher))
    }

    /// Rejects requests that match: 403, in gRPC `PERMISSION_DENIED`, as other rejections are made
    /// ([`reject_with`](Self::reject_with)), with [`Reason::Denied`](crate::Reason::Denied). They are not charged. The log counts
    /// them, at most once a minute, without a value of a request.
    ///
    /// A request that the matcher [cannot compare](crate::matching::Undecided) is rejected too: with 403 if it is
    /// ambiguous; if its identity cannot be determined, with the response to that error, and it stays charged as with any
    /// identity that is malformed ([`count_rejections`](crate::Limit::count_rejections)).
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use http::{Request, Response};
    /// use portcullis::layer::Network;
    /// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let clients = ClientIp::peer();
    /// let all = Policy::gcra("all", Quota::per_minute(60).burst(10));
    /// let layer = Limiter::memory().layer(all.by(clients.clone()))
    ///     .deny(Network::of(&clients, ["198.51.100.0/24"]))
    ///     .except(Network::of(&clients, ["10.0.0.0/8"]));
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// for (peer, status, is_limited) in
    ///     [([192, 0, 2, 1], 200, true), ([10, 0, 0, 1], 200, false), ([198, 51, 100, 1], 403, false)]
    /// {
    ///     let request = Request::builder().extension(SocketAddr::from((peer, 1024))).body(String::new())?;
    ///     let response = service.clone().oneshot(request).await?;
    ///     assert_eq!(response.status(), status);
    ///     assert_eq!(response.headers().contains_key("x-ratelimit-remaining"), is_limited);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn deny(self, matcher: impl RequestMatcher) -> Self {
        self.with_lists(|lists| lists.deny(matcher))
    }

    /// Limits only requests that match; the others pass as those that are [exempt](Self::except).
    ///
    /// A request that the matcher [cannot compare](crate::matching::Undecided) is limited.
    ///
    /// Prefer a layer around the routes that are to be limited, or [`except`](Self::except): a route that is added later is then
    /// limited unless it is named.
    ///
    /// # Panics
    ///
    /// If the matcher is [chosen by the client](RequestMatcher::is_chosen_by_client), which would leave it out.
    #[track_caller]
    pub fn only(self, matcher: impl RequestMatcher) -> Self {
        assert!(!matcher.is_chosen_by_client(), "a client that leaves out what is limited is not limited");
        self.with_lists(|lists| lists.only(matcher))
    }

    fn with_lists(mut self, change: impl FnOnce(&mut Lists)) -> Self {
        change(Arc::make_mut(&mut self.config).lists.get_or_insert_default());
        self
    }
}
