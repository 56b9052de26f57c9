//! The result of a check.

use super::{Algorithm, Snapshot};
use crate::Timestamp;
use crate::charge::Position;

/// The result of one check in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: stores build it.
pub struct CheckResult {
    /// Whether this check on its own fits.
    pub admitted: bool,
    /// The figures of the state after the decision: charged if *all* checks fit, else unchanged.
    pub snapshot: Snapshot,
    /// The position of the charge in the state, for a refund.
    pub position: Position,
}

impl CheckResult {
    /// Computes the figures from the state at `now`.
    #[inline]
    pub fn of<A: Algorithm>(
        algorithm: &A,
        state: Option<&A::State>,
        now: Timestamp,
        cost: u64,
        admitted: bool,
    ) -> Self {
        let snapshot = algorithm.snapshot(state, now, cost, admitted);
        Self { admitted, snapshot, position: algorithm.position(state, now) }
    }

    /// Computes the figures of a key that is [blocked](crate::overrides::Block) for `left`: it is denied, and its state is as it was.
    pub fn blocked<A: Algorithm>(
        algorithm: &A,
        state: Option<&A::State>,
        now: Timestamp,
        left: core::time::Duration,
    ) -> Self {
        let peeked = Self::of(algorithm, state, now, 0, true);
        Self { admitted: false, snapshot: peeked.snapshot.blocked(left), ..peeked }
    }
}
