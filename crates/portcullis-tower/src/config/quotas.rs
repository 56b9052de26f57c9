//! The configuration of a layer with the quotas that the caller of one request has.
//!
//! It is a configuration like any other, so that all that refers to a policy later has the quota of the caller: figures, soft
//! limits, waits, messages, refunds and settlements.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use http::request::Parts;
use portcullis_core::{Quota, TooMuchWork};
use smallvec::SmallVec;

use super::{CurrentConfig, LayerConfig};
use crate::quota::QuotaSource;
use portcullis_engine::PolicySet;
use portcullis_engine::QuotaRefusal;
use portcullis_engine::{EventKeys, EventKind};

/// Quotas of one caller, by the indexes of the policies.
pub(crate) type CallerQuotas = SmallVec<[(usize, Quota); 2]>;

/// The configurations with the quotas of callers, so that callers of one plan share one. Empty, without an allocation, in layers
/// whose callers have no quotas of their own.
#[derive(Default)]
pub(super) struct Variants(RwLock<Kept>);

#[derive(Default)]
struct Kept {
    configs: HashMap<CallerQuotas, Arc<LayerConfig>>,
    /// The quotas of the configurations, in the order in which they were made: the first one is replaced.
    order: VecDeque<CallerQuotas>,
}

impl CurrentConfig<'_> {
    /// Sets the quotas of the caller of a request. Returns the policies whose quotas have to be looked up first.
    #[inline]
    pub(crate) fn for_caller(&mut self, parts: &Parts) -> PolicySet {
        if self.has_caller_quotas { self.ask(parts) } else { PolicySet::default() }
    }

    #[inline(never)]
    fn ask(&mut self, parts: &Parts) -> PolicySet {
        let mut quotas = CallerQuotas::new();
        let mut awaited = PolicySet::default();
        for (index, layer_policy) in self.policies().iter().enumerate() {
            let quota = match &layer_policy.quota {
                None => None,
                Some(QuotaSource::Function(function)) => function(parts),
                Some(QuotaSource::LookUp(look_up)) => {
                    let key = layer_policy.own_key(self.registry.secret(), parts);
                    let kept = key.map(|key| look_up.kept(key));
                    if let Some(None) = kept {
                        awaited = awaited.union(PolicySet::one(index));
                    }
                    kept.flatten().and_then(Result::ok).flatten()
                }
            };
            quotas.extend(quota.map(|quota| (index, quota)));
        }
        if let Some(config) = self.with_quotas(&quotas) {
            *self = Self::Changed(config);
        }
        awaited
    }
}

impl LayerConfig {
    /// The same configuration with the quotas of a caller, in the order of the policies. `None` if there are none that the policies
    /// can have.
    pub(crate) fn with_quotas(&self, quotas: &[(usize, Quota)]) -> Option<Arc<Self>> {
        if quotas.is_empty() {
            return None;
        }
        if let Some(known) = self.variants.get(quotas) {
            return Some(known);
        }
        let mut policies = self.policies().to_vec();
        let mut accepted = CallerQuotas::new();
        for &(index, quota) in quotas {
            let own = policies[index].policy.clone();
            let with_quota = own.with_quota(quota).map_err(QuotaRefusal::from).and_then(|policy| {
                policies[index].policy = policy;
                Ok(TooMuchWork::check(policies.iter().map(|layer_policy| &layer_policy.policy))?)
            });
            match with_quota {
                Ok(()) => {
                    policies[index].caller_quota = Some(quota);
                    accepted.push((index, quota));
                }
                Err(error) => {
                    let refused = EventKind::QuotaRefused { policy: own.name(), quota, error: &error };
                    self.limits.emit(refused, || EventKeys::None);
                    policies[index].policy = own;
                }
            }
        }
        if accepted.is_empty() {
            return None;
        }
        if accepted.len() < quotas.len()
            && let Some(known) = self.variants.get(&accepted)
        {
            return Some(known);
        }
        let config = Arc::new(self.with_policies(policies).agreeing_with(self.version.generation()));
        // A configuration with quotas gets others in layers that combine functions and look-ups.
        let capacity = if self.limits.has_caller_quotas() { NESTED_CAPACITY } else { CAPACITY };
        self.variants.insert(accepted, &config, capacity);
        Some(config)
    }
}

impl Variants {
    fn get(&self, quotas: &[(usize, Quota)]) -> Option<Arc<LayerConfig>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).configs.get(quotas).cloned()
    }

    /// Forgets all, for a layer that was changed in its place.
    pub(super) fn clear(&self) {
        let former = std::mem::take(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner));
        drop(former);
    }

    /// Keeps a configuration. If there are as many as can be kept, it replaces the one that was made first, which is made again when
    /// it is needed.
    fn insert(&self, quotas: CallerQuotas, config: &Arc<LayerConfig>, capacity: usize) {
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let former = kept.insert(quotas, Arc::clone(config), capacity);
        drop(kept);
        drop(former);
    }
}

impl Kept {
    /// Returns the configuration that is replaced.
    fn insert(
        &mut self,
        quotas: CallerQuotas,
        config: Arc<LayerConfig>,
        capacity: usize,
    ) -> Option<Arc<LayerConfig>> {
        let former = self.configs.insert(quotas.clone(), config);
        if former.is_some() {
            return former;
        }
        self.order.push_back(quotas);
        if self.order.len() <= capacity {
            return None;
        }
        self.order.pop_front().and_then(|oldest| self.configs.remove(&oldest))
    }
}

/// More than a service has plans; of a few kilobytes each.
const CAPACITY: usize = 256;

/// For each of the others.
const NESTED_CAPACITY: usize = 8;
