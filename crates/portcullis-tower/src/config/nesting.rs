//! Requests that pass several nested layers.

use std::sync::Arc;

use http::Extensions;
use portcullis_core::PolicyName;

use super::LayerConfig;
use crate::charge::AdmissionOutcome;
use crate::{Charge, Registry};

/// The policies under which the outer layers charged a request. Only marked requests have it.
#[derive(Clone)]
struct ChargedPolicies(Vec<(Arc<Registry>, PolicyName)>);

impl LayerConfig {
    /// Inserts the decision and the charge into a request that passes, and warns if an outer layer has charged the same
    /// policy.
    ///
    /// Only the first requests are marked, and further ones when a layer inside of another one finds no mark, so the usual
    /// request has no cost.
    pub(crate) fn attach_charge(
        self: &Arc<Self>,
        admission: AdmissionOutcome,
        extensions: &mut Extensions,
    ) -> Charge {
        let decision = admission.decision().clone();
        let charge = Charge::new(Arc::clone(self), admission, extensions.remove::<Charge>());
        extensions.insert(charge.clone());
        let is_nested = extensions.insert(decision).is_some();
        if is_nested {
            match extensions.get::<ChargedPolicies>() {
                Some(charged) => self.warn_if_charged_twice(charged),
                None => self.log.nested_without_a_mark(|| self.registry.mark_requests()),
            }
        }
        if self.registry.marks_this_request() {
            let mine = self
                .policies
                .iter()
                .map(|layer_policy| (Arc::clone(&self.registry), layer_policy.policy.name().clone()));
            let outer = extensions.remove::<ChargedPolicies>().map_or_else(Vec::new, |charged| charged.0);
            extensions.insert(ChargedPolicies(outer.into_iter().chain(mine).collect()));
        }
        charge
    }

    fn warn_if_charged_twice(&self, outside: &ChargedPolicies) {
        self.log.nesting_is_known();
        let twice = self.policies.iter().map(|layer_policy| layer_policy.policy.name()).find(|name| {
            outside.0.iter().any(|(registry, outer)| Arc::ptr_eq(registry, &self.registry) && outer == *name)
        });
        if let Some(policy) = twice {
            self.log.charged_twice(policy);
        }
    }
}
