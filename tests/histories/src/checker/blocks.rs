//! Rule 7: blocks.

use super::super::{Call, KeyId, Op};
use super::overrides::Overrides;
use super::{Loss, Violation};

/// Returns the first check that a block should have denied, or that no block denies.
pub(super) fn check(key_id: KeyId, ops: &[&Op], losses: &[Loss]) -> Option<Violation> {
    let blocks = Overrides::new(ops, losses, |call| matches!(call, Call::Block(_) | Call::Unblock));
    let length = |call: &Call| if let Call::Block(length) = call { Some(*length) } else { None };
    ops.iter().find_map(|op| {
        let blocked = op.answer().filter(|_| matches!(op.call, Call::Check(_)))?.blocked;
        let what = match blocked {
            true if !blocks.is_possible(op, length) => "a check was denied by a block that has ended",
            false if blocks.is_certain(op, length) => "a check was not denied although the key is blocked",
            _ => return None,
        };
        Some(Violation::at(7, key_id, ops, op.invoked, what.to_owned()))
    })
}
