//! Steps that change overrides.

use std::time::Duration;

use portcullis_core::overrides::{LockOut, validate_block, validate_grant};
use portcullis_core::{Policy, Quota};

use super::raw::{Op, RawLockOut, RawStep};
use super::values::Micros;
use crate::subject::OverrideChange;

impl Op {
    /// Whether the step changes an override, so that the policies of its case read them.
    pub(super) fn is_override(self) -> bool {
        matches!(self, Self::Grant | Self::Block | Self::Unblock | Self::Denials)
    }
}

/// The change of a step, and the length of the block that denials are expected to begin. Takes the fields from the step.
pub(super) fn change(
    op: Op,
    raw: &mut RawStep,
    policy: &Policy,
) -> Result<(OverrideChange, Option<Duration>), String> {
    let length = raw.length.take().map(|Micros(length)| length);
    let valid = |result: Result<(), portcullis_core::overrides::OverrideError>| {
        result.map_err(|error| error.to_string())
    };
    let change = match op {
        Op::Grant => match (raw.quota.take(), length) {
            (Some(quota), Some(length)) => {
                let quota: Quota = quota;
                valid(validate_grant(policy, quota, length))?;
                OverrideChange::Grant(Some((quota, length)))
            }
            (None, None) => OverrideChange::Grant(None),
            _ => return Err("a grant has `quota` and `for`; one without both ends the grant".to_owned()),
        },
        Op::Block => {
            let length = length.ok_or("a block needs `for`, its length")?;
            valid(validate_block(policy, length))?;
            OverrideChange::Block(length)
        }
        Op::Unblock => OverrideChange::Unblock,
        _ => {
            let denials = raw.count.take().ok_or("denials need `count`")?;
            let lock_out = raw.lock_out.take().ok_or("denials need `lock_out`")?;
            let RawLockOut { after, within, block, longest } = lock_out;
            let longest = longest.unwrap_or(block);
            let lock_out =
                LockOut::new(after, within.0, block.0, longest.0).map_err(|error| error.to_string())?;
            OverrideChange::Denials(denials, lock_out)
        }
    };
    Ok((change, raw.blocked_for.take().map(|Micros(length)| length)))
}
