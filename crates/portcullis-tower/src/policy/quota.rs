//! Quotas of the caller's own: where they come from, and why one is refused.

mod lookup;

use std::sync::Arc;

use http::request::Parts;
use portcullis_core::Quota;

pub use lookup::QuotaLookup;

/// The quota of the caller of a request: the argument of [`RateLimitLayer::quota`](crate::RateLimitLayer::quota).
///
/// All closures of this signature implement it, and no other type does:
///
/// ```compile_fail,E0277
/// use std::sync::Arc;
///
/// use portcullis_core::{Policy, Quota, Secret};
/// use portcullis_memory::MemoryStore;
/// use portcullis_tower::{Global, LayerBuilder, Registry};
///
/// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
/// let daily = Policy::fixed_window("daily", Quota::per_day(1_000));
/// let _ = LayerBuilder::new(registry, daily).by(Global).quota(Quota::per_day(10)); // write `|_| Some(..)`
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
