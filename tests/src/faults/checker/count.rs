//! Rule 3: what the server has counted.

use super::super::{Op, Spot};
use super::{Loss, Violation};

/// Holds the count of a window that does not end against what was acknowledged.
pub(super) fn check(spot: Spot, ops: &[&Op], losses: &[Loss], counted: u64) -> Option<Violation> {
    let last_loss = losses.iter().map(|loss| loss.to).max();
    let certain = ops.iter().filter(|op| last_loss.is_none_or(|loss| op.invoked > loss));
    let least: u64 = certain.map(|op| op.charged()).sum();
    let acknowledged: u64 = ops.iter().map(|op| op.charged()).sum();
    let doubtful: u64 = ops.iter().map(|op| op.doubtful()).sum();
    if (least..=acknowledged + doubtful).contains(&counted) {
        return None;
    }
    let what = format!(
        "the server has counted {counted} units; {acknowledged} were acknowledged, {least} of them after the last loss \
         of state, and {doubtful} are in doubt"
    );
    let end = ops.last().map_or(0, |op| op.invoked);
    Some(Violation::at(3, spot, ops, end, what))
}
