//! Acquires permits to wait, and reports when there are none.

use portcullis_core::Key;
use portcullis_core::store::Checks;

use crate::config::LayerConfig;
use crate::event::EventKind;
use crate::wait_limit::WaitPermit;

/// Whether a request with these checks would be rejected: requests wait in its queue already, and it would get no permit.
pub(super) fn cannot_wait(config: &LayerConfig, checks: &Checks) -> bool {
    let cannot_wait = config.registry.wait_limit().is_full(checks.narrowest_key())
        && config.registry.queues().has_waiters(checks);
    if cannot_wait {
        config.store.emit(EventKind::TooManyWaiting);
    }
    cannot_wait
}

/// Returns a permit to wait for a request that is counted by `key`, unless too many requests wait.
pub(super) fn acquire(config: &LayerConfig, key: Option<Key>) -> Option<WaitPermit> {
    let permit = config.registry.wait_limit().acquire(key);
    if permit.is_none() {
        config.store.emit(EventKind::TooManyWaiting);
    }
    permit
}
