//! A charge that is made when the outcome of its request is known.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Waker};

use portcullis_core::{Policy, Receipt};

use super::Asked;
use crate::engine::Limits;
use crate::engine::keyed_limit::UnsettledPermit;
use crate::engine::report;

/// What a request will cost under a policy that its admission only asks.
#[derive(Debug)]
pub struct LaterCharge {
    limits: Arc<Limits>,
    asked: Asked,
    /// The policy with the quota of the caller, or of a grant that the answer has shown.
    individual: Option<Policy>,
    permit: Option<UnsettledPermit>,
    /// Whether the units are charged if this is dropped.
    pub(crate) is_owed: bool,
}

impl LaterCharge {
    /// `own` is the policy with the quota of the caller. `None` if too many requests with the key are unsettled under the policy, or in all.
    pub(crate) fn new(limits: &Arc<Limits>, asked: Asked, own: Option<&Policy>) -> Option<Self> {
        let quota = own.unwrap_or_else(|| asked.policy(limits)).strategy();
        let limit = || usize::try_from(quota.limit()).unwrap_or(usize::MAX);
        let bound = limits.policies()[asked.index].max_unsettled.unwrap_or_else(limit);
        let id = (asked.policy(limits).digest(), asked.key);
        let permit = limits.engine().unsettled.acquire_below(Some(id), bound)?;
        let (limits, individual) = (Arc::clone(limits), own.cloned());
        Some(Self { limits, asked, individual, permit: Some(permit), is_owed: false })
    }

    /// The index of the policy.
    pub fn index(&self) -> usize {
        self.asked.index
    }

    pub(crate) fn set_individual(&mut self, policy: &Policy) {
        self.individual = Some(policy.clone());
    }

    /// The units, and the permit to be held until they are charged.
    pub fn into_parts(mut self) -> (u64, Option<UnsettledPermit>) {
        self.is_owed = false;
        (self.asked.cost, self.permit.take())
    }
}

impl Drop for LaterCharge {
    fn drop(&mut self) {
        if !mem::take(&mut self.is_owed) {
            return;
        }
        let (limits, Asked { key, cost, .. }) = (Arc::clone(&self.limits), self.asked);
        let policy = self.individual.take().unwrap_or_else(|| self.asked.policy(&limits).clone());
        let permit = self.permit.take();
        let mut charge = Box::pin(async move {
            let receipt = Receipt::blank(policy, key, limits.engine().now());
            match limits.settle(receipt, cost).await {
                Ok(settlement) => report::settled(&limits, key, 0, cost, &settlement),
                Err(error) => limits.emit_store_state(Some(&error)),
            }
            drop(permit);
        });
        // At once, where the store answers at once.
        if charge.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.limits.detach_charges(charge);
        }
    }
}
