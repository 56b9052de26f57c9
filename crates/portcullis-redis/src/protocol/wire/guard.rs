//! The check of an override: whether a decision is made under the grant that its key has, and whether the key is blocked.

use std::time::Duration;

use portcullis_core::StoreError;

use super::reply::Reply;
use super::{MAX_RECORD, OVERRIDE, RECORD, Record, doubles};

/// A grant as the script compares it: its end, its length, and the limit, the period and the burst; zeros without one.
pub(crate) type GrantNumbers = [u64; 5];

/// The check of the override of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Guard {
    /// The index of the check of the key's state.
    pub(crate) check: usize,
    /// The grant under which that check is made.
    pub(crate) grant: GrantNumbers,
}

/// What the script has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GuardReply {
    pub(crate) grant: GrantNumbers,
    /// What is left of the block, if the key is blocked. It has no grant then.
    pub(crate) blocked: Option<Duration>,
}

impl Guard {
    pub(super) fn record(&self) -> Record {
        let [ends, length, limit, period, burst] = self.grant;
        // At most 16 checks.
        let position = u64::try_from(self.check).unwrap_or_default() + 1;
        let mut record = [0; MAX_RECORD];
        record[0] = OVERRIDE;
        doubles(&mut record[1..RECORD], [position, ends, length, limit, period, burst]);
        record
    }

    /// The time for which guards block the server, in the unit of [`load_of`](super::load_of).
    pub(crate) fn load_of(guards: &[Self]) -> u32 {
        GUARD_LOAD.saturating_mul(u32::try_from(guards.len()).unwrap_or(u32::MAX))
    }
}

impl GuardReply {
    /// Reads what the script has found, after the replies to the checks of states.
    pub(crate) fn read(reply: &mut Reply) -> Result<Self, StoreError> {
        reply.done()?;
        let mut grant = GrantNumbers::default();
        for number in &mut grant {
            *number = reply.number()?;
        }
        let left = reply.number()?;
        Ok(Self { grant, blocked: (left > 0).then(|| Duration::from_micros(left)) })
    }
}

/// The load of a check besides its work: its share of the call, its key and its arithmetic take several times as long as a slot.
pub(super) const CHECK_LOAD: u32 = 7;
/// The load of the check of an override.
const GUARD_LOAD: u32 = CHECK_LOAD + 1;
