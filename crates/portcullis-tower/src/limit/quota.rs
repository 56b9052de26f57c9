//! Quotas of the caller's own: where they come from, and why one is refused.

mod lookup;

use std::sync::Arc;

use http::request::Parts;
use portcullis_core::Quota;

use super::Limit;
pub use lookup::QuotaLookup;

/// The quota of the caller of a request: the argument of [`Limit::quota`](crate::Limit::quota).
///
/// All closures of this signature implement it, and no other type does:
///
/// ```compile_fail,E0277
/// use portcullis::key::Global;
/// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
///
/// let daily = Policy::fixed_window("daily", Quota::per_day(1_000));
/// let _ = Limiter::memory().layer(daily.by(Global).quota(Quota::per_day(10))); // write `|_| Some(..)`
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the quota of a caller",
    label = "not a closure that returns an `Option<Quota>`",
    note = "write `|parts| parts.extensions.get::<Account>().map(|account| account.plan.daily())`",
    note = "a quota that is known only after an `await` is found by `quota_by_async`, or by the look-up that finds the key"
)]
pub trait CallerQuota: Fn(&Parts) -> Option<Quota> + Send + Sync + 'static {}

// Without the attribute the compiler describes `Fn` in place of this trait.
#[diagnostic::do_not_recommend]
impl<F> CallerQuota for F where F: Fn(&Parts) -> Option<Quota> + Send + Sync + 'static {}

/// Where the quota of a caller comes from.
#[derive(Clone)]
pub(crate) enum QuotaSource {
    Function(Arc<dyn CallerQuota>),
    LookUp(QuotaLookup),
}

impl Limit {
    /// Sets the quota of the caller of a request: that of a plan or a contract. `None` is the quota of the policy.
    ///
    /// It is one of the [quotas that the policy declares](portcullis_core::Policy::caller_quotas), of the same period, and the units
    /// that a key has used stay when it changes. For any other quota the policy's own applies, which is an event and a line in the
    /// log: [`EventKind::QuotaRefused`](crate::EventKind::QuotaRefused).
    ///
    /// The function is called once per request, before the key is extracted. Read what the server has verified, such as an account
    /// that authentication has put into the extensions: a client that chooses its own plan is not limited. All callers with one key
    /// should have one quota.
    ///
    /// Everything that belongs to a request has the quota that it was admitted with: headers, the [`Charge`](crate::Charge),
    /// refunds and settlements, messages, waits, and the [part of the limit](Self::warn_at) from which it is marked. While the store
    /// cannot answer, its fallback decides with it as well. After `Limiter::set_policy` the function
    /// is asked again with the next request. What a [look-up](crate::Lookup::quota) has found goes before it.
    ///
    /// A request costs a look into a table of the quotas that callers have had, and callers of one plan share its policy. Layers without
    /// quotas of callers pay nothing.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Extension;
    /// use portcullis::testing::{self, ManualClock};
    /// use portcullis::{Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// /// Inserted by authentication.
    /// #[derive(Clone)]
    /// struct Account {
    ///     id: u64,
    ///     is_pro: bool,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (free, pro) = (Quota::per_day(1_000), Quota::per_day(50_000));
    /// let by_id = Extension::<Account>::with(|account, key| key.part("account", &account.id.to_be_bytes()));
    /// let daily = Policy::fixed_window("daily", free).caller_quotas(free, pro).by(by_id).quota(move |parts| {
    ///     let account = parts.extensions.get::<Account>()?;
    ///     Some(if account.is_pro { pro } else { free })
    /// });
    /// let layer = testing::limiter(&ManualClock::default()).layer(daily);
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(()))
    /// }));
    /// // The account is upgraded after its first request, and downgraded after the second.
    /// for (is_pro, remaining) in [(false, "999"), (true, "49998"), (false, "997")] {
    ///     let request = Request::builder().extension(Account { id: 17, is_pro }).body(String::new())?;
    ///     assert_eq!(service.clone().oneshot(request).await?.headers()["x-ratelimit-remaining"], remaining);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn quota(self, quota: impl CallerQuota) -> Self {
        Self { quota: Some(QuotaSource::Function(Arc::new(quota))), ..self }
    }

    /// Like [`quota`](Self::quota), for a quota that has to be looked up while the key has not.
    ///
    /// [`QuotaLookup`] keeps what it has found, so that most requests are decided at once. If a request has to wait for the look-up,
    /// the layer decides in two steps, as with [a key that is looked up](Self::by_async): the policies whose key and quota are known
    /// go first, and if one denies the request, nothing is looked up. Unlike there, a look-up that fails or exceeds the
    /// [deadline](crate::RateLimitLayer::lookup_deadline) does not reject the request: the policy's own quota applies, which is an event,
    /// [`EventKind::QuotaLookupFailed`](crate::EventKind::QuotaLookupFailed). Requests without an own key, and preflights, do not
    /// start a look-up.
    ///
    /// Where the key is looked up, the same look-up tells the quota: [`Lookup::quota`](crate::Lookup::quota).
    pub fn quota_by_async(self, look_up: QuotaLookup) -> Self {
        Self { quota: Some(QuotaSource::LookUp(look_up)), ..self }
    }
}
