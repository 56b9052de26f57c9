//! Rule 3: the server's count.

use super::super::{KeyId, Op};
use super::freed::max_freed_units;
use super::{Loss, Violation};

/// Checks the count of a window that does not end against what was acknowledged.
pub(super) fn check(key_id: KeyId, ops: &[&Op], losses: &[Loss], counted: u64) -> Option<Violation> {
    let last_loss = losses.iter().map(|loss| loss.to).max();
    let is_kept = |op: &&&Op| last_loss.is_none_or(|loss| op.invoked > loss);
    let acknowledged: u64 = ops.iter().map(|op| op.charged()).sum();
    let doubtful: u64 = ops.iter().map(|op| op.doubtful()).sum();
    // A loss may undo an earlier refund, or may have lost the charge that it refunds.
    let freed = |op: &&Op| max_freed_units(key_id.family, op);
    let certainly: u64 = ops.iter().filter(is_kept).filter(|op| !op.is_unknown()).map(freed).sum();
    let kept: u64 = ops.iter().filter(is_kept).map(|op| op.charged()).sum();
    let at_most: u64 = match last_loss {
        None => ops.iter().map(freed).sum(),
        Some(loss) => ops.iter().filter(|op| op.completed > loss || op.is_unknown()).map(freed).sum(),
    };
    let least = kept.saturating_sub(at_most);
    let most = (acknowledged + doubtful).saturating_sub(certainly);
    if (least..=most).contains(&counted) {
        return None;
    }
    let what = format!(
        "the server has counted {counted} units; {acknowledged} were acknowledged, {kept} of them after the last loss \
         of state, {doubtful} are in doubt, and from {certainly} to {at_most} were refunded"
    );
    let end = ops.last().map_or(0, |op| op.invoked);
    Some(Violation::at(3, key_id, ops, end, what))
}
