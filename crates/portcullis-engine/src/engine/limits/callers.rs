//! The quota of the caller of a request: it travels in the checks, as a policy of the same name.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use portcullis_core::{Policy, Quota, TooMuchWork};
use smallvec::SmallVec;

use super::Limits;
use crate::QuotaRefusal;
use crate::event::{EventKeys, EventKind};

/// Quotas of one caller, by the indexes of the policies.
pub type CallerQuotas = SmallVec<[(usize, Quota); 2]>;

/// The policies that have the quota of a caller, by their indexes. Empty for most requests.
#[derive(Clone, Debug, Default)]
pub struct CallerPolicies(Option<Arc<Own>>);

type Own = SmallVec<[(usize, Policy); 1]>;

/// The policies that were made for callers, so that callers of one plan share them. They belong to the policies as they are now.
#[derive(Default)]
pub(super) struct KnownCallers(RwLock<HashMap<CallerQuotas, CallerPolicies>>);

impl CallerPolicies {
    /// The policies of a caller with these quotas. One that cannot be used is refused, which is an event: the caller keeps the policy's
    /// own.
    pub fn of(limits: &Limits, quotas: &[(usize, Quota)]) -> Self {
        if quotas.is_empty() {
            return Self::default();
        }
        if let Some(known) = limits.known_callers().get(quotas) {
            return known;
        }
        let mut policies = Self::default();
        let refused = quotas.iter().filter(|(index, quota)| !policies.set(limits, *index, *quota)).count();
        if refused == 0 {
            limits.known_callers().keep(quotas, &policies);
        }
        policies
    }

    /// Adds quotas of the caller that became known later.
    #[must_use]
    pub fn and(self, limits: &Limits, quotas: &[(usize, Quota)]) -> Self {
        if quotas.is_empty() {
            return self;
        }
        let own = self.0.iter().flat_map(|own| own.iter());
        let before = own.filter_map(|(index, policy)| Some((*index, policy.caller_quota()?)));
        let before = before.filter(|(index, _)| !quotas.iter().any(|(other, _)| other == index));
        let mut all: CallerQuotas = before.chain(quotas.iter().copied()).collect();
        all.sort_unstable_by_key(|(index, _)| *index);
        Self::of(limits, &all)
    }

    /// Returns whether the quota is accepted.
    fn set(&mut self, limits: &Limits, index: usize, quota: Quota) -> bool {
        let own = &limits.policies()[index].policy;
        let with_quota = own.with_quota(quota).map_err(QuotaRefusal::from);
        let fitting = with_quota.and_then(|policy| {
            let others = (0..limits.policies().len()).filter(|other| *other != index);
            TooMuchWork::check(others.map(|other| self.policy(limits, other)).chain([&policy]))?;
            Ok(policy)
        });
        match fitting {
            Ok(policy) => {
                self.put(index, policy);
                true
            }
            Err(error) => {
                let refused = EventKind::QuotaRefused { policy: own.name(), quota, error: &error };
                limits.emit(refused, || EventKeys::None);
                false
            }
        }
    }

    fn put(&mut self, index: usize, policy: Policy) {
        let policies = Arc::make_mut(self.0.get_or_insert_default());
        policies.retain(|(other, _)| *other != index);
        policies.push((index, policy));
    }

    /// Adds the quotas of another request, whose policies begin at `offset`.
    pub(crate) fn join(&mut self, other: &Self, offset: usize) {
        for (index, policy) in other.0.iter().flat_map(|policies| policies.iter()) {
            self.put(offset + index, policy.clone());
        }
    }

    /// Whether the caller has no quota of its own.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The policy at `index` with the quota of the caller, if it has one.
    pub(crate) fn own(&self, index: usize) -> Option<&Policy> {
        let policies = self.0.as_deref()?;
        policies.iter().find(|(other, _)| *other == index).map(|(_, policy)| policy)
    }

    /// The policy at `index`, with the quota of the caller if it has one.
    #[inline]
    pub fn policy<'a>(&'a self, limits: &'a Limits, index: usize) -> &'a Policy {
        self.own(index).unwrap_or_else(|| &limits.policies()[index].policy)
    }
}

impl KnownCallers {
    fn get(&self, quotas: &[(usize, Quota)]) -> Option<CallerPolicies> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(quotas).cloned()
    }

    /// If there are as many as can be kept, all are made again when they are needed.
    fn keep(&self, quotas: &[(usize, Quota)], policies: &CallerPolicies) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= CAPACITY {
            known.clear();
        }
        known.insert(quotas.into(), policies.clone());
    }
}

/// More than a service has plans.
const CAPACITY: usize = 256;

#[cfg(test)]
mod tests {
    use portcullis_core::store::NoStore;
    use portcullis_core::{ManualClock, Quota, Timestamp};

    use super::*;
    use crate::{Engine, Limit};

    fn limits() -> Limits {
        let clock = ManualClock::new(Timestamp::EPOCH);
        let engine = Engine::with_clock(Arc::new(NoStore), Arc::new(clock));
        let (least, most) = (Quota::per_day(1), Quota::per_day(10_000));
        let calls = Policy::gcra("calls", Quota::per_day(10)).caller_quotas(least, most);
        let pages = Policy::fixed_window("pages", Quota::per_day(10)).caller_quotas(least, most);
        Limits::new(Arc::new(engine), vec![Limit::new(calls), Limit::new(pages)])
    }

    fn limit(policy: &Policy) -> u64 {
        policy.strategy().limit()
    }

    #[test]
    fn callers_of_one_plan_share_their_policies() {
        let limits = limits();
        let of = |units| CallerPolicies::of(&limits, &[(1, Quota::per_day(units))]);
        let first = of(100).0.unwrap();
        assert!(Arc::ptr_eq(&first, &of(100).0.unwrap()));
        assert_eq!(limit(of(100).policy(&limits, 1)), 100);
        assert_eq!(limit(of(100).policy(&limits, 0)), limit(&limits.policies()[0].policy));
    }

    #[test]
    fn no_more_than_256_plans_are_kept() {
        let limits = limits();
        for units in 1..=2_000 {
            let own = CallerPolicies::of(&limits, &[(1, Quota::per_day(units))]);
            assert_eq!(limit(own.policy(&limits, 1)), units);
            assert!(limits.known_callers().0.read().unwrap().len() <= CAPACITY);
        }
    }

    #[test]
    fn quota_that_is_found_later_is_added() {
        let limits = limits();
        let first = CallerPolicies::of(&limits, &[(1, Quota::per_day(7))]);
        let both = first.and(&limits, &[(0, Quota::per_day(5))]);
        assert_eq!(both.own(0).and_then(Policy::caller_quota), Some(Quota::per_day(5)));
        assert_eq!(both.own(1).and_then(Policy::caller_quota), Some(Quota::per_day(7)));
    }

    #[test]
    fn refused_quota_leaves_the_own_one() {
        let limits = limits();
        let refused = CallerPolicies::of(&limits, &[(1, Quota::per_hour(7)), (0, Quota::per_day(5))]);
        assert!(refused.own(1).is_none() && refused.own(0).is_some());
        assert!(limits.known_callers().0.read().unwrap().is_empty());
    }
}
