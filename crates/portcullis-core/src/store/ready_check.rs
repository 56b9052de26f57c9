//! The result of a single check whose answer is ready.

use crate::algorithm::Figures;
use crate::charge::Position;
use crate::{Decision, Policy, Timestamp};

/// The result of [`Store::check_now`](crate::store::Store::check_now).
///
/// Together with the check it makes an [`Outcome`](crate::store::Outcome::single), which takes several times its bytes and
/// is needed for a receipt only.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a decision that is ignored limits nothing"]
// Exhaustive: stores build it.
pub struct ReadyCheck {
    /// The decision; if it allows the request, the cost is charged.
    pub decision: Decision,
    /// The position of the charge in the state, for a refund.
    pub position: Position,
}

impl ReadyCheck {
    /// The result with the figures as they were computed.
    // For the memory store alone: see `Figures`.
    #[doc(hidden)]
    #[inline]
    pub fn new(policy: &Policy, at: Timestamp, figures: Figures, position: Position) -> Self {
        Self { decision: Decision::with_figures(policy, at, figures), position }
    }
}
