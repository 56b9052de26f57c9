//! What a fallback does if the store fails.

use portcullis_core::FailureMode;
use portcullis_core::store::Checks;

/// What to do if a check fails.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Whether a failure may be answered by anything else than the error.
    pub(super) falls_back: bool,
    /// Whether the answer depends on how long the store has failed.
    pub(super) times_outages: bool,
}

impl Plan {
    pub(super) fn of(checks: &Checks) -> Self {
        let mut plan = Self { falls_back: false, times_outages: false };
        for check in checks {
            match check.policy.failure_mode() {
                FailureMode::Local { .. } => plan.falls_back = true,
                FailureMode::OpenFor(_) => plan = Self { falls_back: true, times_outages: true },
                // A block that is known lasts in an outage.
                FailureMode::Open if check.policy.reads_overrides() => plan.falls_back = true,
                _ => {}
            }
        }
        plan
    }
}
