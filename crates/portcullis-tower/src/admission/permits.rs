//! Acquires permits to wait, and reports when there are none.

use http::Extensions;
use portcullis_core::Key;
use portcullis_core::store::Checks;

use crate::config::LayerConfig;
use crate::event::{EventKeys, EventKind};
use crate::wait_limit::WaitPermit;

/// Whether a request with these checks would be rejected: requests wait in its queue already, and it would get no permit.
pub(super) fn cannot_wait(config: &LayerConfig, checks: &Checks, extensions: &Extensions) -> bool {
    let cannot_wait = config.registry.wait_limit().is_full(checks.narrowest_key())
        && config.registry.queues().has_waiters(checks);
    if cannot_wait {
        config.store.emit_for(extensions, EventKind::TooManyWaiting);
    }
    cannot_wait
}

/// Returns a permit to wait for a request that is counted by `key`, unless too many requests wait. `keys` are those of the event then.
pub(super) fn acquire<'a>(
    config: &'a LayerConfig,
    key: Option<Key>,
    keys: impl FnOnce() -> EventKeys<'a>,
) -> Option<WaitPermit> {
    let permit = config.registry.wait_limit().acquire(key);
    if permit.is_none() {
        config.store.emit_with(EventKind::TooManyWaiting, keys);
    }
    permit
}
