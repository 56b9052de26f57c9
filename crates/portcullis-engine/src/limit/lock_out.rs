//! Lock-outs: the denials of keys that are reported to the store, which blocks the keys.

#[cfg(feature = "runtime")]
mod later;

use portcullis_core::overrides::LockOut;
#[cfg(feature = "runtime")]
use portcullis_core::{PolicyName, StoreError};
#[cfg(feature = "runtime")]
use portcullis_log::{LogThrottle, UnsaidLines, codes};

/// The lock-out of one policy, which all layers with the policy share.
#[derive(Debug)]
pub struct PolicyLockOut {
    rule: LockOut,
    #[cfg(feature = "runtime")]
    failed: LogThrottle,
    #[cfg(feature = "runtime")]
    pub(crate) later: later::Later,
}

impl PolicyLockOut {
    pub(crate) fn new(rule: LockOut) -> Self {
        Self {
            rule,
            #[cfg(feature = "runtime")]
            failed: LogThrottle::per_minute(),
            #[cfg(feature = "runtime")]
            later: later::Later::default(),
        }
    }

    /// After how many denials keys are blocked, and for how long.
    pub fn rule(&self) -> &LockOut {
        &self.rule
    }

    /// Logs that a report has failed, once a minute.
    #[cfg(feature = "runtime")]
    pub(crate) fn log_failure(&self, policy: &PolicyName, error: &StoreError, unsaid: &UnsaidLines) {
        self.failed.count(0, Some(unsaid), || {
            let (policy, error) = (policy.clone(), error.to_string());
            move |counted| {
                tracing::warn!(
                    code = %codes::REPORTS_FAILED,
                    %policy,
                    %error,
                    reports = counted.events,
                    "reports of denials fail, so that clients are locked out late or not at all; counted since the last such line"
                );
            }
        });
    }
}
