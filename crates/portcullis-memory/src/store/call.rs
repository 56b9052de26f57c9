//! The states that one call reads and changes.

use portcullis_core::algorithm::State;
use portcullis_core::store::protocol::States;
use portcullis_core::{Strategy, Timestamp};
use smallvec::SmallVec;

use crate::shards::shard::{Access, EntryId, Shard};
use crate::shards::{LockedShard, LockedShards, ShardKey, Shards, StateLocation};

/// The state of a call for a single key, which most calls are for: without the lists and the order of locks of several.
pub(super) struct CallState<'a> {
    pub(super) shard: LockedShard<'a>,
    pub(super) policy: &'a Shards,
    pub(super) strategy: Strategy,
    pub(super) entry: EntryId,
    pub(super) access: Access,
    pub(super) now: Timestamp,
}

impl CallState<'_> {
    /// Unlocks the shard, then counts the state if it is shared because the store is full, and logs if a line is due.
    pub(super) fn unlock(self) {
        let Self { shard, policy, entry, .. } = self;
        drop(shard);
        if entry.is_overflow() {
            policy.count_overflow();
        }
    }
}

impl States for CallState<'_> {
    fn get(&self, _: usize) -> Option<&State> {
        match &self.access {
            Access::Copied(state) => state.as_ref(),
            Access::InPlace => self.shard.get(self.entry),
        }
    }

    fn change(&mut self, _: usize, units: u64, f: impl FnOnce(&mut Option<State>) -> bool) {
        change(&mut self.shard, self.entry, (&mut self.access, &self.strategy), (self.now, units), f);
    }

    fn is_shared(&self, _: usize) -> bool {
        self.entry.is_overflow()
    }
}

/// Changes a state by `f`, which returns whether it has, and charges at most `units`.
fn change(
    shard: &mut Shard,
    entry: EntryId,
    (access, strategy): (&mut Access, &Strategy),
    (now, units): (Timestamp, u64),
    f: impl FnOnce(&mut Option<State>) -> bool,
) {
    match access {
        Access::Copied(state) => {
            if f(state) {
                shard.replace(entry, strategy, state.as_ref());
            }
        }
        Access::InPlace => shard.apply(entry, strategy, now, units, f),
    }
}

/// The states of one call, in shards that are locked until it ends.
pub(super) struct CallStates<'a> {
    pub(super) shards: LockedShards<'a>,
    states: SmallVec<[LocatedState<'a>; 2]>,
    pub(super) now: Timestamp,
}

struct LocatedState<'a> {
    policy: &'a Shards,
    strategy: Strategy,
    location: StateLocation,
    access: Access,
    /// The index of the first check of the same state, such as one that keys share, whose copy all of them use.
    first: usize,
}

impl<'a> CallStates<'a> {
    /// Without states.
    pub(super) fn new(shards: LockedShards<'a>, now: Timestamp) -> Self {
        Self { shards, states: SmallVec::new(), now }
    }

    /// Sweeps a few entries of the shard of a key, then locates the state of the key.
    pub(super) fn locate(&mut self, key: &ShardKey<'a>, strategy: &Strategy, swept: usize) {
        let found = self.shards.sweep_and_locate(key, strategy, self.now, swept);
        self.push(key, *strategy, found);
    }

    /// Adds a state that was located.
    pub(super) fn push(
        &mut self,
        key: &ShardKey<'a>,
        strategy: Strategy,
        (location, access): (StateLocation, Access),
    ) {
        let first = self.states.iter().position(|state| state.location == location);
        let first = first.unwrap_or(self.states.len());
        self.states.push(LocatedState { policy: key.policy, strategy, location, access, first });
    }

    /// Unlocks the shards, then counts the states that are shared because the store is full, and logs if a line is due.
    pub(super) fn unlock(&mut self) {
        self.shards.unlock();
        for state in self.states.iter().filter(|state| state.location.is_overflow()) {
            state.policy.count_overflow();
        }
    }
}

impl States for CallStates<'_> {
    fn get(&self, index: usize) -> Option<&State> {
        let LocatedState { location, access, .. } = &self.states[self.states[index].first];
        match access {
            Access::Copied(state) => state.as_ref(),
            Access::InPlace => {
                let (shard, entry) = self.shards.at(*location);
                shard.get(entry)
            }
        }
    }

    fn change(&mut self, index: usize, units: u64, f: impl FnOnce(&mut Option<State>) -> bool) {
        let LocatedState { strategy, location, first, .. } = self.states[index];
        let (shard, entry) = self.shards.at_mut(location);
        change(shard, entry, (&mut self.states[first].access, &strategy), (self.now, units), f);
    }

    /// The costs of keys that share a state add up.
    fn is_same(&self, index: usize, other: usize) -> bool {
        self.states[index].first == self.states[other].first
    }

    /// The charge that a receipt proves may have been made to the key's own state, which has expired since.
    fn is_shared(&self, index: usize) -> bool {
        self.states[index].location.is_overflow()
    }
}
