//! What a registry limits.

use std::time::SystemTime;

use portcullis_core::{Key, Policy, PolicyName};

use super::Registry;
use crate::LayerSummary;

impl Registry {
    /// Returns the layers that exist: those that were applied to a service, as long as the service or one of its requests exists, and the
    /// rules of files, in the order in which they were applied. See [`LayerSummary`].
    ///
    /// At most 10 000 are listed at the same time. Beyond that number, layers limit and are not listed, and one line is logged.
    pub fn layers(&self) -> Vec<LayerSummary> {
        self.inventory.layers()
    }

    /// Returns all registered policies as they are now, in alphabetical order of their names.
    pub fn policies(&self) -> Vec<Policy> {
        self.engine.policies().policies()
    }

    /// Returns the policy with the quota of the caller whose key this is: the one that a [look-up](crate::Limit::quota_by_async) of a layer has found,
    /// while it is kept. `None` if the policy has no [quotas of callers](Policy::caller_quotas), or no layer keeps that of this one.
    ///
    /// Quotas that a layer computes from requests are not kept, and neither are those of a look-up that finds the key as well.
    pub fn caller_policy(&self, policy: &Policy, key: Key) -> Option<Policy> {
        policy.quota_range()?;
        let layers = self.layers();
        let own =
            layers.iter().flat_map(LayerSummary::policies).filter(|own| own.policy().name() == policy.name());
        let quota = own.filter_map(|own| own.found_quota(key)).find_map(Result::ok)?;
        // A quota that the policy does not declare is refused: the caller has that of the policy.
        let caller = quota.and_then(|quota| policy.with_quota(quota).ok());
        Some(caller.unwrap_or_else(|| policy.clone()))
    }

    /// Returns since when a policy is registered in this process: since its first layer was built, or its rules were loaded.
    pub fn registered_since(&self, policy: &PolicyName) -> Option<SystemTime> {
        self.engine.policies().since(policy).map(|(registered, _)| registered)
    }

    /// Returns since when a policy has its [mode](Self::mode) for all layers, or since when it is registered if each layer has its own.
    pub fn mode_since(&self, policy: &PolicyName) -> Option<SystemTime> {
        self.engine.policies().since(policy).map(|(_, mode)| mode)
    }

    /// Returns how many permits of limits on requests [in flight](crate::RateLimitLayer::and) this process holds.
    pub fn permits_in_flight(&self) -> usize {
        self.engine.backlog.in_flight.held()
    }
}
