//! Limits on outgoing requests.

use std::sync::Arc;

use portcullis_core::{Mistakes, Policy};
use portcullis_outgoing::OutgoingLayer;
use portcullis_tower::LayerError;

use super::Limiter;

impl Limiter {
    /// Makes a layer for an HTTP client, which paces requests by `policy` in all instances that share the store, and keeps to what the
    /// servers answer. The key is [the host](crate::outgoing::Authority), or what [`by`](OutgoingLayer::by) sets.
    ///
    /// See the module [`outgoing`](crate::outgoing) and [Keep to a partner's limits].
    ///
    #[doc = book!("Keep to a partner's limits", "how-to/service/partners")]
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use portcullis::{Limiter, Policy, Quota};
    ///
    /// // Ten calls per second to each partner; a call too many waits for up to two seconds.
    /// let partners = Policy::gcra("partners", Quota::per_second(10)).wait_at_most(Duration::from_secs(2));
    /// let layer = Limiter::memory().outgoing(partners).closed_at_most(Duration::from_secs(30));
    /// # let _ = layer;
    /// ```
    ///
    /// # Panics
    ///
    /// If [`try_outgoing`](Self::try_outgoing) returns an error for the policy.
    #[track_caller]
    pub fn outgoing(&self, policy: Policy) -> OutgoingLayer {
        OutgoingLayer::new(Arc::clone(&self.registry), policy)
    }

    /// Like [`Limiter::outgoing`], for policies that are not literals.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with the policy: it has a [lease](Policy::lease); a different policy of this limiter has the same name;
    /// the store cannot hold another policy.
    pub fn try_outgoing(&self, policy: Policy) -> Result<OutgoingLayer, Mistakes<LayerError>> {
        OutgoingLayer::try_new(Arc::clone(&self.registry), policy)
    }
}
