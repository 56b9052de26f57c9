//! Which responses a rule charges.

use std::fmt;
use std::sync::Arc;

use portcullis_tower::ResponseOutcome;

use crate::hooks::Charges;

/// Which responses are charged.
pub(super) struct ChargeWhen {
    /// From the first to the last, both included.
    pub(super) status: Vec<(u16, u16)>,
    pub(super) grpc_status: Vec<i32>,
    /// What the program registered.
    pub(super) function: Option<Arc<Charges>>,
    pub(super) function_name: Option<String>,
}

impl ChargeWhen {
    pub(super) fn charges(&self, outcome: &ResponseOutcome<'_>) -> bool {
        let status = outcome.status().as_u16();
        self.status.iter().any(|(first, last)| (*first..=*last).contains(&status))
            || outcome.grpc_status().is_some_and(|status| self.grpc_status.contains(&status))
            || self.function.as_ref().is_some_and(|charges| charges(outcome))
    }

    /// Whether each response that the other one charges is charged by this one. What a function charges is known to it only.
    pub(super) fn includes(&self, other: &Self) -> bool {
        let has = |status: u16| self.status.iter().any(|(first, last)| (*first..=*last).contains(&status));
        other.status.iter().all(|(first, last)| (*first..=*last).all(has))
            && other.grpc_status.iter().all(|status| self.grpc_status.contains(status))
            && (other.function_name.is_none() || other.function_name == self.function_name)
    }
}

impl fmt::Debug for ChargeWhen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChargeWhen").field("status", &self.status).finish_non_exhaustive()
    }
}
