//! The shortest way from a policy to a limit.

use std::borrow::Cow;

use portcullis_core::Policy;
use portcullis_core::overrides::LockOut;

use super::Limit;
use crate::{
    AsyncKeyExtractor, CallerQuota, Cost, KeyExtractor, Mode, OnAbort, OnMissing, Percent, QuotaLookup,
    ResponseOutcome,
};

/// The options of a [`Limit`], for a policy whose key is named afterwards.
macro_rules! options {
    ($($option:ident($($argument:ident: $kind:ty),*);)*) => {$(
        #[doc = concat!("[`Limit::", stringify!($option), "`], before the key.")]
        fn $option(self, $($argument: $kind),*) -> Limit {
            Limit::new(self).$option($($argument),*)
        }
    )*};
}

/// Makes a [`Limit`] of a policy, by naming its key.
///
/// ```
/// use portcullis::key::Header;
/// use portcullis::{Limit, Policy, PolicyExt as _, Quota};
///
/// let search: Limit = Policy::gcra("search", Quota::per_second(10).burst(20)).by(Header::named("x-api-key"));
/// assert_eq!(search.policy().name().as_str(), "search");
/// ```
///
/// The options of a limit may stand before its key as well:
///
/// ```
/// use portcullis::key::Global;
/// use portcullis::layer::Mode;
/// use portcullis::{Policy, PolicyExt as _, Quota};
///
/// let search = Policy::gcra("search", Quota::per_second(10)).shadow().by(Global);
/// assert!(format!("{search:?}").contains("mode: Shadow"));
/// ```
pub trait PolicyExt: Into<Policy> {
    /// Charges requests to this key: [`Limit::by`].
    fn by(self, key: impl KeyExtractor) -> Limit {
        Limit::new(self).by(key)
    }

    /// Charges requests to this key, which has to be looked up: [`Limit::by_async`].
    fn by_async(self, key: impl AsyncKeyExtractor) -> Limit {
        Limit::new(self).by_async(key)
    }

    options! {
        named(key: impl Into<Cow<'static, str>>);
        on_missing(on_missing: OnMissing);
        hide_key();
        count_rejections();
        cost(units: u64);
        cost_by(cost: impl Cost);
        charge_when(charges: impl Fn(&ResponseOutcome<'_>) -> bool + Send + Sync + 'static);
        refund_unanswered();
        charge_after();
        charge_after_at_most(requests: usize);
        reserve(estimate: u64);
        reserve_or(estimate: u64, on_abort: OnAbort);
        reserve_by(estimate: impl Cost);
        reserve_by_or(estimate: impl Cost, on_abort: OnAbort);
        quota(quota: impl CallerQuota);
        quota_by_async(look_up: QuotaLookup);
        release_at_headers();
        shadow();
        shadow_for(share: Percent);
        enforce(share: Percent);
        mode(mode: Mode);
        lock_out(lock_out: LockOut);
        hide();
        report();
        warn_at(fraction: f64);
    }
}

/// A policy, and what becomes one, such as a [`Concurrency`](portcullis_core::Concurrency).
impl<P: Into<Policy>> PolicyExt for P {}
