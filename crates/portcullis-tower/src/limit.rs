//! A limit of a layer: a policy, the key that it is charged to, and its options.

mod apply;
pub(crate) mod cost;
mod description;
mod in_flight;
mod key;
mod lock_out;
mod mistakes;
mod outcome;
mod policy_ext;
pub(crate) mod quota;
pub(crate) mod response_outcome;
mod trial;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use portcullis_core::Policy;
use portcullis_core::overrides::LockOut;

use crate::{AsyncKeyExtractor, Cost, KeyExtractor, Mode, OnAbort, OnMissing};
use description::FunctionTexts;
pub use key::KeyedLimit;
pub(crate) use key::{KeySource, ResolvedKey, missing_message};
pub use policy_ext::PolicyExt;
use portcullis_engine::{HeldUntil, PolicyLockOut};
#[cfg(feature = "usage")]
use portcullis_usage::UsageReader;
use quota::QuotaSource;
use response_outcome::OutcomeRule;

/// A policy of a layer, the key that it is charged to, and its options. [`PolicyExt::by`] makes one as well, in fewer words.
///
/// It is a value: it can be returned from a function, kept, cloned, and given to any number of layers, which then share the budget of
/// the policy. What is wrong with it is found when it is given to a layer, all mistakes at once.
///
/// | | |
/// |---|---|
/// | the client | [`by`](Self::by), [`by_async`](Self::by_async), [`named`](Self::named), [`on_missing`](Self::on_missing), [`hide_key`](Self::hide_key), [`count_rejections`](Self::count_rejections) |
/// | the charge | [`cost`](Self::cost), [`cost_by`](Self::cost_by), [`charge_when`](Self::charge_when), [`charge_after`](Self::charge_after), [`refund_unanswered`](Self::refund_unanswered), [`reserve`](Self::reserve), [`reserve_by`](Self::reserve_by), `read_usage` (feature `usage`), [`quota`](Self::quota), [`quota_by_async`](Self::quota_by_async), [`release_at_headers`](Self::release_at_headers) |
/// | which requests | [`shadow`](Self::shadow), [`shadow_for`](Self::shadow_for), [`enforce`](Self::enforce), [`mode`](Self::mode), [`lock_out`](Self::lock_out) |
/// | the response | [`hide`](Self::hide), [`warn_at`](Self::warn_at) |
/// | a wait | [`Policy::wait_at_most`] |
/// | calls of a rate limit service | [`report`](Self::report) |
///
/// ```
/// use portcullis::key::{Global, Header};
/// use portcullis::{Limit, Limiter, Policy, PolicyExt as _, Quota};
///
/// let search = Policy::gcra("search", Quota::per_second(10)).by(Header::named("x-api-key"));
/// let total = Limit::new(Policy::gcra("total", Quota::per_second(5_000))).by(Global).hide();
/// let layer = Limiter::memory().layer(search).and(total);
/// assert_eq!(layer.policies().map(|name| name.as_str()).collect::<Vec<_>>(), ["search", "total"]);
/// ```
#[derive(Clone)]
#[must_use = "a limit limits nothing until it is in a layer"]
#[expect(clippy::struct_excessive_bools, reason = "each is an option")]
pub struct Limit {
    pub(crate) policy: Policy,
    pub(crate) key: KeySource,
    key_name: Option<Cow<'static, str>>,
    pub(crate) on_missing: OnMissing,
    /// Whether the response to a request without the key does not say what it is.
    hides_key: bool,
    pub(crate) cost: Option<Arc<dyn Cost>>,
    /// What an aborted response is charged, if the cost is a reservation.
    pub(crate) reservation: Option<OnAbort>,
    /// Where a response states what it has used of a reservation.
    #[cfg(feature = "usage")]
    pub(crate) usage: Option<UsageReader>,
    pub(crate) mode: Mode,
    /// Whether the headers of the budget leave the policy out.
    pub(crate) is_hidden: bool,
    /// Whether charges of requests that are rejected for their identity stay.
    counts_rejections: bool,
    /// Whether the calls that it counts report usage.
    pub(crate) is_report: bool,
    /// The part of the limit from which on requests are marked.
    pub(crate) warn_at: Option<f64>,
    /// Whether and how the outcome of a response decides about the charge.
    pub(crate) outcome: Option<Box<OutcomeRule>>,
    /// Where the quota of the caller comes from.
    pub(crate) quota: Option<QuotaSource>,
    held_until: HeldUntil,
    lock_out: Option<LockOut>,
    /// Blocks keys with many denials. All layers with the policy share it.
    pub(crate) shared_lock_out: Option<Arc<PolicyLockOut>>,
    texts: FunctionTexts,
}

impl Limit {
    /// A policy that is enforced and charged 1 unit for each request. [`by`](Self::by) sets its key. Without a key, it is charged to that
    /// of the limit before it in the layer, and cannot be the first.
    pub fn new(policy: impl Into<Policy>) -> Self {
        Self {
            policy: policy.into(),
            key: KeySource::Before,
            key_name: None,
            on_missing: OnMissing::default(),
            hides_key: false,
            cost: None,
            reservation: None,
            #[cfg(feature = "usage")]
            usage: None,
            mode: Mode::default(),
            is_hidden: false,
            counts_rejections: false,
            is_report: false,
            warn_at: None,
            outcome: None,
            quota: None,
            held_until: HeldUntil::default(),
            lock_out: None,
            shared_lock_out: None,
            texts: FunctionTexts::default(),
        }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Charges requests to this key.
    pub fn by(self, key: impl KeyExtractor) -> Self {
        Self { key: KeySource::Sync(Arc::new(key)), ..self }
    }

    /// Like [`by`](Self::by), for a key that has to be looked up.
    ///
    /// A layer with look-ups decides in two steps. First the store checks all policies whose keys are synchronous: if one denies, the
    /// response is 429, and nothing is looked up. Then all look-ups run concurrently, within a
    /// [deadline](crate::RateLimitLayer::lookup_deadline); if one fails or takes longer, the response is 503. Then the store checks the
    /// policies whose keys were looked up. If one of those denies, or the store cannot answer, the charges of the first step are
    /// refunded.
    ///
    /// Combine a policy that has a look-up with one [by address](crate::ClientIp): it limits the look-ups that an address
    /// starts, because its charge [stays](Self::count_rejections) when an unknown identity is rejected.
    ///
    /// [`CachedLookup`](crate::CachedLookup) keeps what was found. A look-up may tell the
    /// [quota](crate::Lookup::quota) of the identity as well, in place of [`quota_by_async`](Self::quota_by_async).
    pub fn by_async(self, key: impl AsyncKeyExtractor) -> Self {
        Self { key: KeySource::Async(Arc::new(key)), ..self }
    }

    /// Names the key for people: in the line that a layer logs when it starts, in the layers of a limiter and in the admin API. A
    /// closure is `custom` there without a name. The keys themselves stay as they are.
    ///
    /// ```
    /// use http::request::Parts;
    /// use portcullis::key::{Identity, KeyWriter};
    /// use portcullis::{Policy, PolicyExt as _, Quota};
    ///
    /// let user = |parts: &Parts, key: &mut KeyWriter<'_>| {
    ///     let Some(user) = parts.extensions.get::<u64>() else { return Ok(Identity::Missing) };
    ///     key.part("user", &user.to_be_bytes());
    ///     Ok(Identity::Found)
    /// };
    /// let search = Policy::gcra("search", Quota::per_second(10)).by(user).named("user");
    /// assert!(format!("{search:?}").contains(r#"key: "user""#));
    /// ```
    pub fn named(self, key: impl Into<Cow<'static, str>>) -> Self {
        Self { key_name: Some(key.into()), ..self }
    }

    /// Sets how the policy treats a request that has no identity.
    ///
    /// The default is [`OnMissing::Reject`].
    pub fn on_missing(self, on_missing: OnMissing) -> Self {
        Self { on_missing, ..self }
    }

    /// Keeps secret what a client has to send as its identity. By default the response to a request without it
    /// says it, such as `the request has no identity: it needs the header x-api-key`.
    ///
    /// A `WWW-Authenticate` of the key, as of [`Bearer`](crate::Bearer), is sent in any case.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use http_body_util::BodyExt as _;
    /// use portcullis::key::Header;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limit = Policy::gcra("search", Quota::per_second(10)).by(Header::named("x-internal-key"));
    /// let service = Limiter::memory().layer(limit.hide_key()).layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// let response = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.into_body().collect().await?.to_bytes(), "the request has no identity\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn hide_key(self) -> Self {
        Self { hides_key: true, ..self }
    }

    /// Keeps requests charged if they are rejected because their identity is missing or malformed under another policy of the layer
    /// (400, 401), or because its look-up fails (503).
    ///
    /// By default they stay charged under policies [by address](crate::ClientIp) only. So an address that guesses gets 429 once
    /// its budget is used up, and no client uses up the budget of others, or a shared one, with requests that are never
    /// admitted. Set it for another policy if the client cannot choose its key, or if the total of rejected requests should be
    /// limited. It has no effect where the key is looked up. See [`KeyExtractor::counts_rejections`].
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::{Bearer, Global};
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tokens = Policy::gcra("tokens", Quota::per_second(10));
    /// let all = Policy::sliding_window("all", Quota::per_minute(2));
    /// let layer = Limiter::memory().layer(tokens.by(Bearer)).and(all.by(Global).count_rejections());
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
        Self { counts_rejections: true, ..self }
    }

    /// Sets the cost of a request in units. [`cost_by`](Self::cost_by) sets one that depends on the request.
    ///
    /// The default is 1. A cost of 0 is always admitted and still reports what remains. For a cost that can never fit, the
    /// response is 400; no limit is above [`Quota::MAX_UNITS`](portcullis_core::Quota::MAX_UNITS).
    ///
    /// ```
    /// use portcullis::key::Global;
    /// use portcullis::{Policy, PolicyExt as _, Quota};
    ///
    /// let analyses = Policy::fixed_window("daily", Quota::per_day(200)).by(Global).cost(10);
    /// assert!(format!("{analyses:?}").contains("costs 10"));
    /// ```
    pub fn cost(self, units: u64) -> Self {
        self.cost_by(move |_: &http::request::Parts| units).describe_cost(&units.to_string())
    }

    /// Like [`cost`](Self::cost), by the request.
    ///
    /// ```
    /// use portcullis::key::Global;
    /// use portcullis::{Policy, PolicyExt as _, Quota};
    ///
    /// let daily = Policy::fixed_window("daily", Quota::per_day(200)).by(Global);
    /// let daily = daily.cost_by(|parts| if parts.uri.path() == "/analysis" { 10 } else { 1 });
    /// assert!(format!("{daily:?}").contains("costs by the request"));
    /// ```
    pub fn cost_by(mut self, cost: impl Cost) -> Self {
        self.texts.cost = None;
        Self { cost: Some(Arc::new(cost)), ..self }
    }

    /// Makes the policy a shadow policy: it decides and reports, and never rejects. The same as
    /// [`mode(Mode::Shadow)`](Self::mode).
    ///
    /// A request that the other policies of the layer let pass is charged under it separately: a request that it denies is
    /// charged under the others nevertheless, and a request that they deny is not charged under it. Its decision is in
    /// [`Shadow`](crate::Shadow), in the extensions of the request. The requests that it would have rejected are counted in the
    /// log, at most once a minute, and [`RateLimitHeaders::SHADOW`](crate::RateLimitHeaders::SHADOW) shows them to the client.
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

    /// Keeps the policy out of the headers of the [budget](crate::RateLimitLayer::headers), for a limit that clients should
    /// not see, such as one that protects the service as a whole. It decides like any other policy.
    ///
    /// The figures are then those of the decisive one among the other policies. A request that this policy rejects has
    /// `Retry-After`, its name in the body, and no figures. A layer whose policies are all hidden writes none at all, so that
    /// those of an outer layer are shown.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::headers::RateLimitHeaders;
    /// use portcullis::key::{Global, Header};
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let user = Policy::fixed_window("user", Quota::per_day(100));
    /// let total = Policy::gcra("total", Quota::per_second(500).burst(50));
    /// let layer = Limiter::memory().layer(user.by(Header::named("x-user")))
    ///     .and(total.by(Global).hide())
    ///     .headers(RateLimitHeaders::IETF);
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(()))
    /// }));
    /// let response = service.oneshot(Request::builder().header("x-user", "ada").body(String::new())?).await?;
    /// assert_eq!(response.headers()["ratelimit-policy"], r#""user";q=100;w=86400"#);
    /// assert_eq!(response.headers()["ratelimit"], r#""user";r=99"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn hide(self) -> Self {
        Self { is_hidden: true, ..self }
    }

    /// States that the calls that it counts report usage, also those of one hit: one that is denied charges what is left. It concerns
    /// calls of Envoy's rate limit service, which report usage after the response. A layer answers before.
    ///
    /// ```
    /// use portcullis::{ClientIp, Policy, PolicyExt as _, Quota};
    ///
    /// let tokens = Policy::fixed_window("tokens", Quota::per_hour(1_000)).by(ClientIp::peer()).report();
    /// assert_eq!(tokens.options(), ["calls report usage"]);
    /// ```
    pub fn report(self) -> Self {
        Self { is_report: true, ..self }
    }

    /// Marks the requests that pass with at least this part of the limit used, themselves included: a soft limit, which warns a client
    /// before it is rejected. No request is rejected because of it. The fraction is above 0 and below 1, and rounded to a billionth.
    ///
    /// The part used is `limit - remaining` of the [`Decision`](portcullis_core::Decision): of the burst of a token bucket, a GCRA
    /// or a leaky bucket, and of the limit of a window or log. With a burst of 1, the default of GCRA, each request uses all of
    /// it.
    ///
    /// - The response has the header [`X-RateLimit-Warning`](crate::headers::X_RATELIMIT_WARNING) with the name of the policy, by
    ///   the figures that the response shows: what a handler has charged or refunded counts. Nested layers each add theirs. It is
    ///   not written if the policy is [hidden](Self::hide), or if the [headers](crate::RateLimitLayer::headers) of the layer show no budget.
    /// - [`EventKind::SoftLimitReached`](crate::EventKind::SoftLimitReached) is emitted for each such request, by the figures at its
    ///   admission. The log counts them, at most once a minute.
    ///
    /// A [shadow](Self::shadow) policy does not warn, and neither does one that does not count the request, because it exempts it
    /// or the store could not answer. A policy that is decided locally meanwhile warns by its own figures.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::testing::{self, ManualClock};
    /// use portcullis::{Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let daily = Policy::fixed_window("daily", Quota::per_day(5));
    /// let layer = testing::limiter(&ManualClock::default()).layer(daily.by(Global).warn_at(0.8));
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// let mut warnings = Vec::new();
    /// for _ in 0..5 {
    ///     let response = service.clone().oneshot(Request::new(String::new())).await?;
    ///     warnings.push(response.headers().get("x-ratelimit-warning").cloned());
    /// }
    /// assert_eq!(warnings[..3], [None, None, None]);
    /// assert!(warnings[3..].iter().flatten().all(|warning| warning == r#""daily""#));
    /// # Ok(())
    /// # }
    /// ```
    pub fn warn_at(self, fraction: f64) -> Self {
        Self { warn_at: Some(fraction), ..self }
    }
}

/// By the key of the limit before it in the layer.
impl From<Policy> for Limit {
    fn from(policy: Policy) -> Self {
        Self::new(policy)
    }
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, mode, .. } = self;
        f.debug_struct("Limit")
            .field("policy", policy)
            .field("key", &self.key_description())
            .field("mode", mode)
            .field("options", &self.options())
            .finish_non_exhaustive()
    }
}
