//! The units that a request costs, and reservations: charges that are settled when the response has ended.

use http::request::Parts;

use super::Limit;
use crate::OnAbort;
#[cfg(feature = "usage")]
use portcullis_usage::UsageReader;

/// The cost of a request in units, by the request: the argument of [`Limit::cost_by`](crate::Limit::cost_by).
///
/// A closure that compares paths by itself charges less for other spellings of a path, which a server behind may take for the same.
/// [`RequestPath`](crate::matching::RequestPath) knows them:
///
/// ```
/// use http::Request;
/// use portcullis::layer::{RequestMatcher as _, RequestPath};
///
/// let export = RequestPath::exact("/export");
/// let cost = move |parts: &http::request::Parts| if export.matches(parts) == Ok(false) { 1 } else { 100 };
/// for (path, units) in [("/export", 100), ("/EXPORT", 100), ("/%65xport", 100), ("/search", 1)] {
///     assert_eq!(cost(&Request::get(path).body(()).unwrap().into_parts().0), units);
/// }
/// ```
///
/// All closures of this signature implement it, and no other type does:
///
/// ```compile_fail,E0277
/// use portcullis::key::Global;
/// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
///
/// let all = Policy::gcra("all", Quota::per_minute(60).burst(10));
/// let _ = Limiter::memory().layer(all.by(Global).cost_by(5)); // write `.cost(5)`
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the cost of a request",
    label = "not a closure that returns units",
    note = "write `.cost_by(|parts| ..)` for a cost that depends on the request, or `.cost(5)` for a fixed one",
    note = "a cost that is known only after an `await` is charged in the handler, by `Charge::settle` or `Charge::charge_more`"
)]
pub trait Cost: Fn(&Parts) -> u64 + Send + Sync + 'static {}

// Without the attribute the compiler describes `Fn` in place of this trait.
#[diagnostic::do_not_recommend]
impl<F> Cost for F where F: Fn(&Parts) -> u64 + Send + Sync + 'static {}

impl Limit {
    /// Charges a request this number of units under the policy, which is an estimate, and settles the charge when the response body
    /// ends, at the units that the handler or its body has [counted](crate::Usage) by then. For units that are known only once
    /// they are streamed: tokens of a language model, bytes, rows.
    ///
    /// The estimate takes the place of a [`cost`](Self::cost): a request whose estimate does not fit is rejected, and one whose
    /// estimate can never fit is answered with 400. A handler finds the [`Usage`](crate::Usage) in the extensions of the request.
    /// When the body has ended, complete or not, one call of the store refunds what was not used, or charges what was used in
    /// addition, whether that fits or not. The headers of the response show the figures at the reservation.
    ///
    /// - **A response that states its usage**, as those of language models do, is read by `read_usage` (feature `usage`).
    /// - **A handler that does not count.** If nothing was added to the counter, not even 0, the reservation stays charged.
    /// - **An aborted response** is charged what was counted; [`reserve_or`](Self::reserve_or) chooses differently.
    /// - **A debt is bounded.** A settlement charges at most the largest [debt](portcullis_core::Policy::allow_debt) beyond the full
    ///   limit, by default one burst (limit). What exceeds that stays uncharged:
    ///   [`EventKind::DebtExceeded`](crate::EventKind::DebtExceeded). Parallel streams of one client can each use more
    ///   than they have reserved, so reserve what a response usually takes, not 1.
    /// - **Failures of the store.** If the store has [certainly not made](portcullis_core::StoreErrorKind::may_repeat) a settlement,
    ///   it waits in a queue of the limiter and is repeated up to 15 times, within about 90 s: after 100 ms, then after twice the
    ///   time before, at most 10 s. The queue has room for 1 024 settlements. A settlement whose result is unknown is never
    ///   repeated. What is given up is an event: [`EventKind::SettlementLost`](crate::EventKind::SettlementLost).
    /// - **Shutdown.** `Limiter::drain` waits for settlements. A process that is killed leaves its
    ///   reservations charged.
    /// - **A [`Charge`](crate::Charge)** is kept until the end. A handler that [settles](crate::Charge::settle) or refunds it itself
    ///   has settled it: there is no second settlement. The settlement after the end is not in its
    ///   [figures](crate::Charge::decision).
    /// - **By outcome.** With [`charge_when`](Self::charge_when) on the same policy, a response that is not charged refunds the
    ///   reservation; any other is settled at what it used.
    /// - **Without a body**, as with `HEAD` or 304, a response is complete with its head.
    /// - **Queues.** Under a leaky bucket, units are refunded only while no later request has its slot behind them.
    /// - A [shadow](Self::shadow) policy charges the estimate for good. After an upgrade, as to a WebSocket, the body ends at once.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use http_body_util::BodyExt as _;
    /// use portcullis::charge::Usage;
    /// use portcullis::key::Global;
    /// use portcullis::testing::{self, ManualClock};
    /// use portcullis::{Charge, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tokens = Policy::token_bucket("tokens", Quota::per_day(1_000));
    /// let layer = testing::limiter(&ManualClock::default()).layer(tokens.by(Global).reserve(100));
    /// let service = layer.layer(service_fn(async |request: Request<String>| {
    ///     let usage = request.extensions().get::<Usage>().expect("the layer reserves").clone();
    ///     usage.add(30); // a body adds while it streams
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::from("the answer")))
    /// }));
    /// let first = service.clone().oneshot(Request::new(String::new())).await?;
    /// assert_eq!(first.headers()["x-ratelimit-remaining"], "900");
    /// first.into_body().collect().await?; // settles at 30
    /// let second = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(second.headers()["x-ratelimit-remaining"], "870");
    /// # Ok(())
    /// # }
    /// ```
    pub fn reserve(self, estimate: u64) -> Self {
        self.reserve_or(estimate, OnAbort::Used)
    }

    /// Like [`reserve`](Self::reserve), with what is charged for a response that is aborted.
    pub fn reserve_or(self, estimate: u64, on_abort: OnAbort) -> Self {
        Self { reservation: Some(on_abort), ..self.cost(estimate) }
    }

    /// Like [`reserve`](Self::reserve), with an estimate that depends on the request.
    ///
    /// ```
    /// use portcullis::key::Global;
    /// use portcullis::{Policy, PolicyExt as _, Quota};
    ///
    /// let tokens = Policy::token_bucket("tokens", Quota::per_day(1_000)).by(Global);
    /// let tokens = tokens.reserve_by(|parts| if parts.uri.path() == "/summary" { 200 } else { 50 });
    /// assert!(format!("{tokens:?}").contains("reserves by the request"));
    /// ```
    pub fn reserve_by(self, estimate: impl Cost) -> Self {
        self.reserve_by_or(estimate, OnAbort::Used)
    }

    /// Like [`reserve_by`](Self::reserve_by), with what is charged for a response that is aborted.
    pub fn reserve_by_or(self, estimate: impl Cost, on_abort: OnAbort) -> Self {
        Self { reservation: Some(on_abort), ..self.cost_by(estimate) }
    }

    /// Reads from responses what they have used of a [reservation](Self::reserve), as they pass: the tokens that a language model
    /// states. Nothing is buffered, and the client gets the bytes as they are. Each number that is read replaces what was counted
    /// before, by a handler as well.
    ///
    /// | the response | is charged |
    /// |---|---|
    /// | states its usage | the last one that it states |
    /// | is cut off before it does | the reservation, or [what is known](UsageReader::ANTHROPIC) if it is more |
    /// | is cut off after that | the last one, or as [`reserve_or`](Self::reserve_or) says |
    /// | states none, has no body, or cannot be read: another content type, an encoding other than gzip | the reservation |
    /// | has an event or document of more than 16 MiB, decoded, or more than 100 decoded bytes for each compressed one | nothing is read from there on: the reservation, or what is known if it is more |
    /// | has a status of 300 or more, but for 504, and states none | nothing |
    ///
    /// Where a response ends without its whole usage, that is an event, [`EventKind::UsageLost`](crate::EventKind::UsageLost), which
    /// the log counts.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use http_body_util::{BodyExt as _, Full};
    /// use portcullis::key::Global;
    /// use portcullis::testing::{self, ManualClock};
    /// use portcullis::usage::UsageReader;
    /// use portcullis::{Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tokens = Policy::token_bucket("tokens", Quota::per_day(1_000));
    /// let tokens = tokens.by(Global).reserve(100).read_usage(UsageReader::OPENAI);
    /// let service = testing::limiter(&ManualClock::default()).layer(tokens).layer(service_fn(async |_: Request<String>| {
    ///     let body = Full::from(r#"{"choices": [], "usage": {"total_tokens": 30}}"#);
    ///     Response::builder().header("content-type", "application/json").body(body)
    /// }));
    /// let first = service.clone().oneshot(Request::new(String::new())).await?;
    /// assert_eq!(first.headers()["x-ratelimit-remaining"], "900");
    /// first.into_body().collect().await?; // settles at 30
    /// let second = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(second.headers()["x-ratelimit-remaining"], "870");
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "usage")]
    pub fn read_usage(self, reader: UsageReader) -> Self {
        Self { usage: Some(reader), ..self }
    }
}
