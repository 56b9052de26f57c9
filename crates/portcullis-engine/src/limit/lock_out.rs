//! Lock-outs: the denials of keys that are reported to the store, which blocks the keys.

#[cfg(feature = "runtime")]
mod later;

use std::time::Duration;

use portcullis_core::log::LogThrottle;
use portcullis_core::overrides::LockOut;
use portcullis_core::{PolicyName, StoreError, Timestamp};

/// The lock-out of one policy, which all layers with the policy share.
#[derive(Debug)]
pub struct PolicyLockOut {
    rule: LockOut,
    failed: LogThrottle,
    #[cfg(feature = "runtime")]
    pub(crate) later: later::Later,
}

impl PolicyLockOut {
    pub(crate) fn new(rule: LockOut) -> Self {
        Self {
            rule,
            failed: LogThrottle::new(),
            #[cfg(feature = "runtime")]
            later: later::Later::default(),
        }
    }

    pub(crate) fn rule(&self) -> &LockOut {
        &self.rule
    }

    /// Logs that a report has failed, once a minute.
    pub(crate) fn log_failure(&self, policy: &PolicyName, error: &StoreError, now: Timestamp) {
        if let Some(reports) = self.failed.due(now, Duration::from_secs(60)) {
            tracing::warn!(
                %policy,
                %error,
                reports,
                "reports of denials fail, so that clients are locked out late or not at all; counted since the last such line"
            );
        }
    }
}
