//! Rule 3: the server's count.

use super::super::{Failure, KeyId, Op, Outcome};
use super::bound::{max_in_lease, max_pending};
use super::freed::max_freed_units;
use super::{Loss, Violation};

/// Checks the count of a window that does not end, under a policy with leases, after all processes have returned theirs, against what was acknowledged.
///
/// Every unit that was admitted has been charged once, so that the count is never lower. It is higher by units that a call without a
/// reply has charged for a lease, or has not returned; so the most is known only if no call of the run `has_failed`.
pub(super) fn check_leased(
    key_id: KeyId,
    ops: &[&Op],
    losses: &[Loss],
    counted: u64,
    has_failed: bool,
) -> Option<Violation> {
    let last_loss = losses.iter().map(|loss| loss.to).max();
    let is_kept = |op: &&&Op| last_loss.is_none_or(|loss| op.invoked > loss);
    let charged: u64 = ops.iter().filter(is_kept).map(|op| op.charged()).sum();
    let freed: u64 = ops.iter().map(|op| max_freed_units(key_id.family, op)).sum();
    // Units that were charged before the loss may be spent, or returned, after it.
    let lost = last_loss.map_or(0, |_| max_in_lease(key_id.family, ops) + max_pending(key_id.family, ops));
    let least = charged.saturating_sub(freed + lost);
    let most = if has_failed || last_loss.is_some() { u64::MAX } else { least };
    if (least..=most).contains(&counted) {
        return None;
    }
    let what = format!(
        "the server has counted {counted} units, {charged} were acknowledged after the last loss of state, at most {freed} were \
         refunded, and {lost} may have been in lease at a loss; a call has failed: {has_failed}"
    );
    let end = ops.last().map_or(0, |op| op.invoked);
    Some(Violation::at(3, key_id, ops, end, what))
}

/// Whether a call had no answer although its caller has waited for one, or was decided without the servers.
pub(super) fn has_failed(op: &Op) -> bool {
    let is_dropped = op.outcome == Outcome::Unknown(Failure::Dropped);
    op.is_degraded() || !(op.is_answered() || is_dropped)
}

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
