//! Permits to wait.

use portcullis_core::Key;
use portcullis_core::store::Checks;

use crate::config::LayerConfig;
use crate::event::EventKind;
use crate::queues::Queues;
use crate::waiters::WaitPermit;

impl LayerConfig {
    pub(super) fn queues(&self) -> &Queues {
        self.registry.queues()
    }

    /// Whether a request with these checks would be rejected: requests wait in its queue already, and it would get no permit.
    pub(super) fn cannot_wait(&self, checks: &Checks) -> bool {
        let cannot_wait =
            self.registry.waiters().is_full(checks.narrowest_key()) && self.queues().has_waiters(checks);
        if cannot_wait {
            self.store.emit(EventKind::TooManyWaiting);
        }
        cannot_wait
    }

    /// Returns a permit to wait for a request that is counted by `key`, unless too many requests wait.
    pub(super) fn wait_permit(&self, key: Option<Key>) -> Option<WaitPermit> {
        let permit = self.registry.waiters().enter(key);
        if permit.is_none() {
            self.store.emit(EventKind::TooManyWaiting);
        }
        permit
    }
}
