//! Quotas of the caller's own: plans, tiers and contracts.

use std::sync::Arc;

use crate::policy::KeySource;
use crate::policy::quota::{CallerQuota, QuotaLookup, QuotaSource};
use crate::{LayerError, RateLimitLayer};

impl RateLimitLayer {
    /// Sets the quota of the caller of a request, under the policy that was added last: that of a plan or a contract. `None` is the
    /// quota of the policy.
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
    /// cannot answer, its fallback decides with it as well. After [`Registry::set_policy`](crate::Registry::set_policy) the function
    /// is asked again with the next request. What a [look-up](crate::Lookup::quota) has found goes before it.
    ///
    /// A request costs a look into a table. For each combination of quotas the layer keeps a configuration with rendered headers, up
    /// to 256; a service with more combinations makes some of them again, which allocates a few kilobytes. Layers without quotas of
    /// callers pay nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use http::{Request, Response};
    /// use portcullis_core::{ManualClock, Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{Extension, LayerBuilder, Registry};
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
    /// let store = MemoryStore::builder().clock(ManualClock::default()).build();
    /// let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    /// let (free, pro) = (Quota::per_day(1_000), Quota::per_day(50_000));
    /// let layer = LayerBuilder::new(registry, Policy::fixed_window("daily", free).caller_quotas(free, pro))
    ///     .by(Extension::<Account>::with(|account, key| key.part("account", &account.id.to_be_bytes())))
    ///     .quota(move |parts| parts.extensions.get::<Account>().map(|account| if account.is_pro { pro } else { free }));
    /// let service = layer.layer(service_fn(async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(()))));
    /// // The account is upgraded after its first request, and downgraded after the second.
    /// for (is_pro, remaining) in [(false, "999"), (true, "49998"), (false, "997")] {
    ///     let request = Request::builder().extension(Account { id: 17, is_pro }).body(String::new())?;
    ///     assert_eq!(service.clone().oneshot(request).await?.headers()["x-ratelimit-remaining"], remaining);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If the policy declares no quotas of callers: [`try_quota`](Self::try_quota) returns an error.
    #[track_caller]
    pub fn quota(self, quota: impl CallerQuota) -> Self {
        super::outcome::or_panic(self.try_quota(quota))
    }

    /// Like [`quota`](Self::quota), for layers that are not literals.
    ///
    /// # Errors
    ///
    /// If the policy declares no [quotas of callers](portcullis_core::Policy::caller_quotas): all would be refused.
    pub fn try_quota(self, quota: impl CallerQuota) -> Result<Self, LayerError> {
        self.check_declared()?;
        Ok(self.with_last(|last| last.quota = Some(QuotaSource::Function(Arc::new(quota)))))
    }

    /// Like [`quota`](Self::quota), for a quota that has to be looked up while the key has not.
    ///
    /// [`QuotaLookup`] keeps what it has found, so that most requests are decided at once. If a request has to wait for the look-up,
    /// the layer decides in two steps, as with [a key that is looked up](Self::by_async): the policies whose key and quota are known
    /// go first, and if one denies the request, nothing is looked up. Unlike there, a look-up that fails or exceeds the
    /// [deadline](Self::lookup_deadline) does not reject the request: the policy's own quota applies, which is an event,
    /// [`EventKind::QuotaLookupFailed`](crate::EventKind::QuotaLookupFailed). Requests without an own key, and preflights, do not
    /// start a look-up.
    ///
    /// Where the key is looked up, the same look-up tells the quota: [`Lookup::quota`](crate::Lookup::quota).
    ///
    /// # Panics
    ///
    /// If [`try_quota_by_async`](Self::try_quota_by_async) returns an error.
    #[track_caller]
    pub fn quota_by_async(self, look_up: QuotaLookup) -> Self {
        super::outcome::or_panic(self.try_quota_by_async(look_up))
    }

    /// Like [`quota_by_async`](Self::quota_by_async), for layers that are not literals.
    ///
    /// # Errors
    ///
    /// If the key of the policy is looked up.
    pub fn try_quota_by_async(self, look_up: QuotaLookup) -> Result<Self, LayerError> {
        let last = self.config.last();
        if matches!(last.key, KeySource::Async(_)) {
            return Err(LayerError::TwoLookups { policy: last.policy.name().clone() });
        }
        self.check_declared()?;
        look_up.count_in(self.config.registry.lookup_counts());
        Ok(self.with_last(|last| last.quota = Some(QuotaSource::LookUp(look_up))))
    }

    fn check_declared(&self) -> Result<(), LayerError> {
        let policy = &self.config.last().policy;
        match policy.quota_range() {
            Some(_) => Ok(()),
            None => Err(LayerError::QuotasNotDeclared { policy: policy.name().clone() }),
        }
    }
}
