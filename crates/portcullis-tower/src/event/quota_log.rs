//! The log lines about quotas of callers.

use portcullis_core::{PolicyName, Quota};

use crate::KeyError;
use crate::log_throttle::LogThrottle;
use crate::quota::QuotaRefusal;

#[derive(Debug)]
pub(super) struct QuotaLog {
    refused: LogThrottle,
    lookup_failed: LogThrottle,
}

impl QuotaLog {
    pub(super) fn refused(&self, policy: &PolicyName, quota: Quota, error: &QuotaRefusal) {
        if let Some(requests) = self.refused.due() {
            tracing::warn!(
                %policy,
                %quota,
                %error,
                requests,
                "callers have quotas that their policy does not use, the latest this one, and get the quota of the policy; \
                 counted since the last such line"
            );
        }
    }

    pub(super) fn lookup_failed(&self, policy: &PolicyName, error: &KeyError) {
        if let Some(requests) = self.lookup_failed.due() {
            tracing::warn!(
                %policy,
                %error,
                requests,
                "look-ups of quotas fail, and their callers get the quota of the policy; counted since the last such line"
            );
        }
    }
}

impl Default for QuotaLog {
    fn default() -> Self {
        Self { refused: LogThrottle::per_minute(), lookup_failed: LogThrottle::per_minute() }
    }
}
