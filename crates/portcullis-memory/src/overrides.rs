//! A bounded table of overrides.

mod shared;

use portcullis_core::overrides::{Effect, Override};
use portcullis_core::{Policy, Timestamp};

use crate::table::{Table, Value};

pub(crate) use shared::SharedOverrides;

/// The overrides of some keys.
#[derive(Debug)]
pub(crate) struct Overrides {
    table: Table<Override>,
    /// The maximum number of keys.
    capacity: usize,
}

/// What a change of an override may displace in a full table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Displaces {
    /// What lock-outs have counted. For a change that an operator makes, which must not end a block.
    Counts,
    /// Also the block that ends first, for a lock-out.
    Blocks,
}

/// A table is full of records that a change may not displace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

impl Value for Override {
    type Align = ();
}

impl Overrides {
    /// No overrides, of at most `capacity` keys.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { table: Table::new(capacity), capacity }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether a record still decides at an instant. Inspects all of them, if need be.
    pub(crate) fn has_living(&self, now: Timestamp) -> bool {
        self.table.sample(0, usize::MAX).any(|(_, record)| record.expires_at() > now)
    }

    pub(crate) fn get(&self, id: u128) -> Option<&Override> {
        self.table.get(id)
    }

    /// What the override of a key does to a check under a policy.
    pub(crate) fn effect(&mut self, id: u128, policy: &Policy, now: Timestamp) -> Effect {
        sweep(&mut self.table, now, SWEPT_PER_CALL);
        let Some(record) = self.table.get_mut(id) else { return Effect::None };
        // Before the effect, which has the end of a grant.
        let cut = record.repair(now).then(|| record.expires_at().as_micros());
        let effect = record.effect(policy, now);
        if let Some(expires_at) = cut {
            self.table.keep_until(expires_at);
        }
        effect
    }

    /// Applies `change` to the override of a key.
    pub(crate) fn change<T>(
        &mut self,
        id: u128,
        now: Timestamp,
        displaces: Displaces,
        change: impl FnOnce(&mut Override) -> T,
    ) -> Result<T, NoRoom> {
        let Self { table, capacity } = self;
        sweep(table, now, SWEPT_PER_CALL);
        let mut record = table.get(id).copied().unwrap_or_default();
        let answer = change(&mut record);
        if record.is_empty() {
            table.remove(id);
            return Ok(answer);
        }
        let expires_at = record.expires_at().as_micros();
        match table.find(id) {
            Some(index) => table.replace(index, record, expires_at),
            None if has_room(table, id, (&record, now), *capacity, displaces) => {
                table.insert(id, record, expires_at);
            }
            None => return Err(NoRoom),
        }
        Ok(answer)
    }
}

/// Whether there is room for the new record of an id, if need be in the place of another.
fn has_room(
    table: &mut Table<Override>,
    id: u128,
    (record, now): (&Override, Timestamp),
    capacity: usize,
    displaces: Displaces,
) -> bool {
    if table.len() < capacity {
        return true;
    }
    sweep(table, now, INSPECTED_WHEN_FULL);
    if table.len() < capacity {
        return true;
    }
    let weakest =
        table.sample(id, INSPECTED_WHEN_FULL).filter_map(|(id, held)| Some((rank(held, now)?, id))).min();
    let limit = match displaces {
        Displaces::Counts => (Strength::Counts, Timestamp::MAX),
        // A grant is never displaced, so it may displace any block.
        Displaces::Blocks => rank(record, now)
            .map_or((Strength::Block, Timestamp::MAX), |own| own.max((Strength::Counts, Timestamp::MAX))),
    };
    match weakest {
        Some((rank, id)) if rank <= limit => {
            table.remove(id);
            true
        }
        _ => false,
    }
}

/// The strength of a record without a live grant, and its end. A record with a grant is never displaced.
fn rank(record: &Override, now: Timestamp) -> Option<(Strength, Timestamp)> {
    if record.grant().is_some_and(|grant| grant.left(now).is_some()) {
        return None;
    }
    Some(match record.block_until(now) {
        Some(end) => (Strength::Block, end),
        None => (Strength::Counts, record.expires_at()),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Counts,
    Block,
}

#[inline]
fn sweep(table: &mut Table<Override>, now: Timestamp, count: usize) {
    table.sweep(now.as_micros(), count, |record| record.expires_at().as_micros(), drop);
}

const SWEPT_PER_CALL: usize = 2;
/// As many as fit into a few microseconds.
const INSPECTED_WHEN_FULL: usize = 64;
