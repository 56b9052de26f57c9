//! Chooses which checks leave together.
//!
//! A lane contains what may share a call: in a cluster, the checks of one slot. A lane has up to [`MAX_CALLS`] turns, each with one call on
//! its way. While nothing waits, and each of them has a check of its own, a check leaves at once, in a turn of its own. Otherwise it waits, and
//! leaves in the next call. With two calls, the server runs one while the other is on the network or in this process; more would make calls
//! smaller.
//!
//! The callers of an answered call check again at once. So the turn of a call with several checks continues: its task takes what has arrived
//! when the tasks that are ready have run, and looks again as long as more arrives, until as many wait as have left in the call before.
//!
//! Checks leave in the order of their arrival, and overtake none that waits, here or for a permit. One that waits longer than its share of the
//! deadline leaves in a turn in addition to the others, with all before it. A check may join an equal one that waits last, and has its place
//! and its permit then: see [`CombiningQueue::join`]. The number of waiting checks is bounded by their [permits](super::in_flight), and
//! by the room to join.

mod lane;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::num::NonZeroU64;
use std::sync::Mutex;

use foldhash::fast::RandomState;
use tokio::time::Instant;

pub(crate) use lane::Turn;
use lane::{Lane, Waiting};

use crate::lock::lock;

/// The checks that wait for a call on a connection, each with its load.
// In cache lines of its own: every check writes to it, and reads what is beside it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CombiningQueue<K, T> {
    max_load: u32,
    state: Mutex<QueueState<K, T>>,
}

#[derive(Debug)]
struct QueueState<K, T> {
    /// Contains only lanes with a turn or a waiting check.
    lanes: HashMap<K, Lane<T>, RandomState>,
    next_id: u64,
    /// When the task looks at what waits that watches over it; `None` without such a task.
    watch: Option<Instant>,
}

/// The result of [`CombiningQueue::enter`].
#[derive(Debug)]
pub(crate) enum Entered<C, R> {
    /// The check leaves at once, in a call of its own.
    Now(Turn, C),
    Waits {
        id: u64,
        receiver: R,
        /// Whether a task must [watch](CombiningQueue::due) over it. Tasks that watch already look too late.
        is_unwatched: bool,
        /// Begins for the check and for what arrives soon: a task must [take](CombiningQueue::take) them.
        begins: Option<Turn>,
    },
}

/// The result of [`CombiningQueue::take`].
#[derive(Debug)]
pub(crate) struct Taken<T> {
    /// None if all have left by now.
    pub(crate) checks: Vec<T>,
    /// Begins for what still waits: a task must take it.
    pub(crate) begins: Option<Turn>,
}

/// The result of [`CombiningQueue::due`].
#[derive(Debug)]
pub(crate) struct Due<K, T> {
    /// The lane, the turn and the checks of each call that begins.
    pub(crate) calls: Vec<(K, Turn, Vec<T>)>,
    /// When to look again; `None` if nothing is to be watched, or another task does it.
    pub(crate) next: Option<Instant>,
}

impl<K: Clone + Eq + Hash, T> CombiningQueue<K, T> {
    /// Makes a queue for calls with at most this load.
    pub(crate) fn new(max_load: u32) -> Self {
        let state = QueueState { lanes: HashMap::default(), next_id: 0, watch: None };
        Self { max_load, state: Mutex::new(state) }
    }

    /// Lets a check with this tag `join` the last one that waits, with the id that it gets, if that one has the same tag, takes it, and
    /// leaves until `end`. Returns what `join` does.
    ///
    /// Those that have joined fill at most 1/4 of a call, and the one that is joined leaves in the same call as without them. Each leaves the
    /// queue by itself.
    pub(crate) fn join<R>(
        &self,
        lane: &K,
        tag: NonZeroU64,
        end: Instant,
        join: impl FnOnce(&mut T, u64) -> Option<R>,
    ) -> Option<R> {
        let mut state = lock(&self.state);
        let id = state.next_id;
        let joined = state.lanes.get_mut(lane)?.join(self.max_load, tag, end, |last| join(last, id))?;
        state.next_id += 1;
        Some(joined)
    }

    /// Begins a turn for a check that has arrived, if it need not wait. Otherwise `queue` makes of it what waits, until `latest`, and
    /// what its caller receives. Only checks with the same `tag` may join it.
    pub(crate) fn enter<C, R>(
        &self,
        lane: &K,
        (load, tag, latest): (u32, Option<NonZeroU64>, Instant),
        check: C,
        queue: impl FnOnce(C, u64) -> (T, R),
    ) -> Entered<C, R> {
        let mut state = lock(&self.state);
        let QueueState { lanes, next_id, watch } = &mut *state;
        let own = lanes.entry(lane.clone()).or_default();
        if let Some(turn) = own.begin_alone() {
            return Entered::Now(turn, check);
        }
        let id = *next_id;
        let (check, receiver) = queue(check, id);
        *next_id += 1;
        let is_unwatched = watch.is_none_or(|watch| latest < watch);
        if is_unwatched {
            *watch = Some(latest);
        }
        own.push(Waiting::new(id, load, tag, latest, check));
        Entered::Waits { id, receiver, is_unwatched, begins: own.begin_for_waiting() }
    }

    /// Takes the checks of the next call of a turn that has begun for what waits.
    pub(crate) fn take(&self, lane: &K, turn: &mut Turn) -> Taken<T> {
        let taken = self.change(lane, |own| {
            let checks = own.take(turn, self.max_load);
            Taken { checks, begins: own.begin_for_waiting() }
        });
        taken.expect(LANE_OF_A_TURN)
    }

    /// Continues the turn of a call with several checks, which has ended. Returns whether it does: then its task must [take](Self::take)
    /// what has arrived. Otherwise [`end`](Self::end) must follow.
    pub(crate) fn continues(&self, lane: &K, turn: &mut Turn) -> bool {
        self.change(lane, |own| own.continues(turn)).expect(LANE_OF_A_TURN)
    }

    /// How many checks wait for a turn that is about to take them. Zero if it waits for no more: they fill a call, or are as many as have
    /// left in the last one.
    pub(crate) fn arrived(&self, lane: &K) -> usize {
        self.change(lane, |own| own.arrived(self.max_load)).unwrap_or(0)
    }

    /// Ends a turn. Returns the one that begins in its place: a task must [take](Self::take) what waits.
    pub(crate) fn end(&self, lane: &K, turn: Turn) -> Option<Turn> {
        let begins = self.change(lane, |own| {
            own.end(turn);
            own.begin_for_waiting()
        });
        begins.expect(LANE_OF_A_TURN)
    }

    /// Removes the check with this id if it still waits: `remove` removes it from those that have joined each other, and returns whether
    /// it was there, as this does.
    pub(crate) fn leave(&self, lane: &K, id: u64, remove: impl FnOnce(&mut T) -> bool) -> bool {
        let left = self.change(lane, |own| own.leave(id, remove));
        // The permit of what was removed is released without the lock.
        left.is_some_and(|(waited, _)| waited)
    }

    /// Begins calls for all checks that wait no longer at `now`. For the task that looks at the instant `watch`.
    pub(crate) fn due(&self, watch: Instant, now: Instant) -> Due<K, T> {
        let mut state = lock(&self.state);
        let mut calls = Vec::new();
        for (lane, own) in &mut state.lanes {
            let last = own.waiting().filter(|waiting| waiting.latest <= now).map(|waiting| waiting.id).last();
            while let Some((turn, checks)) = last.and_then(|id| own.take_early(id, self.max_load)) {
                calls.push((lane.clone(), turn, checks));
            }
        }
        if state.watch != Some(watch) {
            return Due { calls, next: None };
        }
        let waiting = state.lanes.values().flat_map(Lane::waiting);
        state.watch = waiting.map(|waiting| waiting.latest).min();
        Due { calls, next: state.watch }
    }

    /// Removes all checks that wait, because nothing watches over them any more.
    pub(crate) fn clear(&self) -> Vec<T> {
        let mut state = lock(&self.state);
        state.watch = None;
        let removed = state.lanes.values_mut().flat_map(Lane::clear).collect();
        state.lanes.retain(|_, own| !own.is_idle());
        removed
    }

    /// The number of checks that wait, `each` with those that have joined it.
    pub(crate) fn waiting(&self, each: impl Fn(&T) -> usize) -> usize {
        let state = lock(&self.state);
        state.lanes.values().flat_map(Lane::waiting).map(|waiting| each(&waiting.check)).sum()
    }

    /// Changes a lane, if it has a turn or a waiting check, and forgets it if it has none left.
    fn change<R>(&self, lane: &K, change: impl FnOnce(&mut Lane<T>) -> R) -> Option<R> {
        let mut state = lock(&self.state);
        let Entry::Occupied(mut own) = state.lanes.entry(lane.clone()) else { return None };
        let result = change(own.get_mut());
        debug_assert!(own.get().is_served(), "what waits has no turn");
        if own.get().is_idle() {
            own.remove();
        }
        Some(result)
    }
}

/// The turns of a lane before checks wait.
const MAX_CALLS: usize = 2;
const LANE_OF_A_TURN: &str = "a lane with a turn is kept";

#[cfg(test)]
mod tests;
