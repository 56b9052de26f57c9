//! The log lines about outgoing requests.

use std::time::Duration;

use portcullis_core::PolicyName;

use crate::log_throttle::LogThrottle;

#[derive(Debug)]
pub(super) struct OutgoingLog {
    closed: LogThrottle,
    hint_ignored: LogThrottle,
    not_shared: LogThrottle,
}

impl OutgoingLog {
    pub(super) fn closed(&self, policy: &PolicyName, length: Duration, is_capped: bool) {
        if let Some(answers) = self.closed.due() {
            tracing::warn!(
                %policy,
                ?length,
                is_capped,
                answers,
                "servers refuse outgoing requests, the latest under this policy for this time: compare the policy with what the \
                 server allows; counted since the last such line"
            );
        }
    }

    pub(super) fn hint_ignored(&self, policy: &PolicyName, header: &str) {
        if let Some(answers) = self.hint_ignored.due() {
            tracing::warn!(
                %policy,
                header,
                answers,
                "answers to outgoing requests have headers that cannot be used, and that are ignored, the latest this one; counted \
                 since the last such line"
            );
        }
    }

    pub(super) fn not_shared(&self, policy: &PolicyName) {
        if let Some(keys) = self.not_shared.due() {
            tracing::warn!(
                %policy,
                keys,
                "keys of outgoing requests are closed in this process alone, because the store could not be told; counted since \
                 the last such line"
            );
        }
    }
}

impl Default for OutgoingLog {
    fn default() -> Self {
        Self {
            closed: LogThrottle::per_minute(),
            hint_ignored: LogThrottle::per_minute(),
            not_shared: LogThrottle::per_minute(),
        }
    }
}
