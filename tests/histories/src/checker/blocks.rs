//! Rule 7: blocks.

use super::super::{Call, KeyId, Op, Outcome};
use super::clock::Clock;
use super::{Loss, Violation, drift, is_lost, latest_run};

/// Returns the first check that a block should have denied, or that no block denies.
pub(super) fn check(key_id: KeyId, ops: &[&Op], losses: &[Loss]) -> Option<Violation> {
    let blocks = Blocks { ops, losses, clock: Clock::of(ops) };
    ops.iter().find_map(|op| {
        let blocked = op.answer().filter(|_| matches!(op.call, Call::Check(_)))?.blocked;
        let what = match blocked {
            true if !blocks.is_possible(op) => "a check was denied by a block that has ended",
            false if blocks.is_certain(op) => "a check was not denied although the key is blocked",
            _ => return None,
        };
        Some(Violation::at(7, key_id, ops, op.invoked, what.to_owned()))
    })
}

struct Blocks<'a> {
    ops: &'a [&'a Op],
    losses: &'a [Loss],
    clock: Clock,
}

impl Blocks<'_> {
    /// The calls that have blocked the key or may have, each with the length of the block.
    fn blocks(&self) -> impl Iterator<Item = (&Op, u64)> {
        let ran = self.ops.iter().copied().filter(|op| op.is_answered() || op.is_unknown());
        ran.filter_map(|op| if let Call::Block(length) = op.call { Some((op, length)) } else { None })
    }

    /// Whether the key is blocked whenever a check runs.
    fn is_certain(&self, check: &Op) -> bool {
        self.blocks().any(|(block, length)| {
            let is_before = block.completed <= check.invoked;
            let in_force = (block.invoked + length).saturating_sub(drift(length)) > check.completed;
            let may_end = |other: &&&Op| {
                let is_change = matches!(other.call, Call::Block(_) | Call::Unblock);
                let between = other.invoked <= check.completed && latest_run(other) >= block.invoked;
                is_change
                    && between
                    && !std::ptr::eq(**other, block)
                    && !matches!(other.outcome, Outcome::NotDone(_))
            };
            let is_kept = !is_lost(self.losses, block.invoked, check.completed);
            block.is_answered() && is_before && in_force && is_kept && !self.ops.iter().any(|op| may_end(&op))
        })
    }

    /// Whether the key can be blocked when a check runs.
    fn is_possible(&self, check: &Op) -> bool {
        self.blocks().filter(|(block, _)| block.invoked <= check.completed).any(|(block, length)| {
            // After a step of the clock a block ends after its length at the latest.
            let steps = self.clock.steps().filter(|step| block.invoked <= *step);
            let latest = steps.chain([latest_run(block)]).max().unwrap_or_default();
            let has_ended = latest.saturating_add(length + drift(length)) < check.invoked;
            !has_ended && !self.ops.iter().any(|op| self.has_replaced(op, block, check))
        })
    }

    /// Whether an answered call has certainly ended or replaced a block before a check, and was not undone.
    fn has_replaced(&self, op: &Op, block: &Op, check: &Op) -> bool {
        matches!(op.call, Call::Block(_) | Call::Unblock)
            && op.is_answered()
            && op.invoked >= latest_run(block)
            && op.completed <= check.invoked
            && !is_lost(self.losses, op.invoked, check.completed)
    }
}
