//! One request under several layers.

use std::sync::Arc;

use http::Extensions;
use portcullis_core::PolicyName;

use super::LayerConfig;
use crate::charge::Standing;
use crate::{Charge, Registry};

/// What a request was charged to by the layers outside of this one. It is on few requests only.
#[derive(Clone)]
struct Charged(Vec<(Arc<Registry>, PolicyName)>);

impl LayerConfig {
    /// Puts the decision and the charge into a request that passes, and warns if a layer outside has charged the same
    /// policy.
    ///
    /// Requests are marked while they are few, and again when a layer finds itself inside of another without a mark: so
    /// the usual request pays nothing for it.
    pub(crate) fn leave_charge(self: &Arc<Self>, standing: Standing, extensions: &mut Extensions) -> Charge {
        let decision = standing.decision().clone();
        let charge = Charge::new(Arc::clone(self), standing, extensions.remove::<Charge>());
        extensions.insert(charge.clone());
        let is_nested = extensions.insert(decision).is_some();
        if is_nested {
            match extensions.get::<Charged>() {
                Some(charged) => self.look_for_ourselves(charged),
                None => self.notices.nested_without_a_mark(|| self.registry.mark_requests()),
            }
        }
        if self.registry.marks_this_request() {
            let mine = self.list.iter().map(|rule| (Arc::clone(&self.registry), rule.policy.name().clone()));
            let outer = extensions.remove::<Charged>().map_or_else(Vec::new, |charged| charged.0);
            extensions.insert(Charged(outer.into_iter().chain(mine).collect()));
        }
        charge
    }

    fn look_for_ourselves(&self, outside: &Charged) {
        self.notices.nesting_is_known();
        let twice = self.list.iter().map(|rule| rule.policy.name()).find(|name| {
            outside.0.iter().any(|(registry, outer)| Arc::ptr_eq(registry, &self.registry) && outer == *name)
        });
        if let Some(policy) = twice {
            self.notices.charged_twice(policy);
        }
    }
}
