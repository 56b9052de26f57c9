//! The store, the registered policies and the observers, which all layers of one limiter share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use portcullis_core::store::Store;
use portcullis_core::{Policy, PolicyName, Receipt};

use crate::detached::Detached;
use crate::event::Observers;
use crate::{LayerError, PolicyConflict};

/// The store, with the policies that it was asked to register, and with the observers of its answers.
pub(crate) struct Backend {
    store: Arc<dyn Store>,
    policies: Mutex<HashMap<PolicyName, Policy>>,
    observers: Observers,
    detached: Detached,
}

impl Backend {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            policies: Mutex::default(),
            observers: Observers::default(),
            detached: Detached::default(),
        }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    /// Tasks that refund requests whose clients have disconnected, or settle reservations.
    pub(crate) fn detached(&self) -> &Detached {
        &self.detached
    }

    /// Registers a policy, here and at the store.
    pub(crate) fn register(&self, policy: &Policy) -> Result<(), LayerError> {
        if let Some(registered) = self.policy(policy.name()) {
            return PolicyConflict::check(&registered, policy);
        }
        // Not under the lock, because the store may block or call back.
        let refused = |error| LayerError::Refused { policy: policy.name().clone(), error };
        self.store.register(policy).map_err(refused)?;
        // Another thread may have registered a policy of this name meanwhile.
        let registered = self.lock().entry(policy.name().clone()).or_insert_with(|| policy.clone()).clone();
        PolicyConflict::check(&registered, policy)
    }

    pub(crate) fn policy(&self, name: &PolicyName) -> Option<Policy> {
        self.lock().get(name).cloned()
    }

    /// The names of the registered policies, in alphabetical order.
    pub(crate) fn names(&self) -> Vec<PolicyName> {
        let mut names: Vec<_> = self.lock().keys().cloned().collect();
        names.sort_by(|left, right| left.as_str().cmp(right.as_str()));
        names
    }

    /// Returns the receipt with the policy as it is registered now: its quota may have changed since the charge.
    pub(crate) fn as_of_now(&self, receipt: Receipt) -> Receipt {
        match self.policy(receipt.policy().name()) {
            Some(policy) => receipt.with_policy(&policy),
            None => receipt,
        }
    }

    /// The map is consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, HashMap<PolicyName, Policy>> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
