//! Chooses which decisions leave together.
//!
//! While fewer than [`MAX_CALLS`] calls of a lane are on their way, a decision leaves at once, in a call of its own. Otherwise it
//! waits, and leaves in the next call. A lane contains what may share a call: in a cluster, the decisions of one slot. With two calls, the
//! server runs one while the other is on the network or in this process; more would make calls smaller.
//!
//! The callers of an answered call decide again at once. So beside a call with several decisions, a call begins with a task that takes what
//! has arrived when the tasks that are ready have run, and looks again as long as more arrives, until as many wait as have left in the call
//! before.
//!
//! Equal decisions that have joined each other are one step for the server. So while such a call is on its way, no other one begins for
//! decisions that are equal to its own, unless one of them finds no more room to join. When it ends, its task sends the next one.
//!
//! Invariants:
//! - Nothing waits for another call while fewer than [`MAX_CALLS`] calls are on their way, unless one of them is for decisions that are
//!   equal to all that wait, or is about to leave in the place of such a call.
//! - Decisions leave in the order of their arrival, and overtake none that waits, here or for a permit.
//! - A call takes decisions from the front as long as their loads add up to at most the limit, and at least one.
//! - A decision leaves once, or is removed before that, under the same lock.
//! - A decision may join an equal one that waits last, as long as those that have joined fill at most 1/4 of a call, and the one that it
//!   joins leaves in the same call as without it. It has the place and the permit of that one, and joins none that may leave after its own
//!   deadline. Each leaves by itself.
//! - A decision that waits longer than its share of the deadline leaves in a call in addition to those on their way, with all before
//!   it. One task watches over all that wait, because a timer for each would cost more than its place in a call.
//!
//! The number of waiting decisions is bounded by their [permits](super::in_flight), and by the room to join.

mod lane_queue;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use foldhash::fast::RandomState;
use tokio::time::Instant;

use lane_queue::LaneQueue;

use crate::lock::lock;

/// The decisions that wait for a call on a connection, each with its load.
// In cache lines of its own: every decision writes to it, and reads what is beside it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CombiningQueue<L, T> {
    max_load: u32,
    /// Whether there is a lane, for an estimate without the lock.
    is_busy: AtomicBool,
    /// The tag of the decision that began to wait last, for an estimate without the lock.
    last: AtomicU64,
    state: Mutex<QueueState<L, T>>,
}

#[derive(Debug)]
struct QueueState<L, T> {
    /// Contains only lanes with a call on its way or a waiting decision.
    lanes: HashMap<L, LaneQueue<T>, RandomState>,
    next_id: u64,
    /// When the task looks at what waits that watches over it; `None` without such a task.
    watch: Option<Instant>,
}

/// A decision that was added to those that wait.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) id: u64,
    /// Whether a task must [watch](CombiningQueue::due) over it. Tasks that watch already look too late.
    pub(crate) is_unwatched: bool,
    /// Whether a call begins for it and for what arrives soon: a task must [take](CombiningQueue::take) them.
    pub(crate) begins_call: bool,
}

/// The result of [`CombiningQueue::take`].
#[derive(Debug)]
pub(crate) struct Taken<T> {
    /// None if all have left by now.
    pub(crate) decisions: Vec<T>,
    /// Whether another call begins for what still waits: a task must take it.
    pub(crate) begins_call: bool,
}

/// The result of [`CombiningQueue::due`].
#[derive(Debug)]
pub(crate) struct Due<L, T> {
    /// The decisions of each call that begins, and its lane.
    pub(crate) calls: Vec<(L, Vec<T>)>,
    /// When to look again; `None` if nothing is to be watched, or another task does it.
    pub(crate) next: Option<Instant>,
}

impl<L: Clone + Eq + Hash, T> CombiningQueue<L, T> {
    /// Makes a queue for calls with at most this load.
    pub(crate) fn new(max_load: u32) -> Self {
        let state = QueueState { lanes: HashMap::default(), next_id: 0, watch: None };
        Self { max_load, is_busy: AtomicBool::new(false), last: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// Whether a decision with this tag may find an equal one to [join](Self::join); none has the tag 0.
    pub(crate) fn may_join(&self, tag: u64) -> bool {
        tag != 0 && self.is_busy() && self.last.load(Relaxed) == tag
    }

    /// Lets a decision `join` the last one that waits, with the id that is returned, if that one takes it and leaves until `end`.
    pub(crate) fn join(&self, lane: &L, end: Instant, join: impl FnOnce(&mut T, u64) -> bool) -> Option<u64> {
        let mut state = lock(&self.state);
        let id = state.next_id;
        let own = state.lanes.get_mut(lane)?;
        if !own.join(self.max_load, end, |last| join(last, id)) {
            return None;
        }
        state.next_id += 1;
        Some(id)
    }

    /// Begins a call for a decision that has arrived, if it need not wait: then [`end`](Self::end) must follow. Otherwise the decision
    /// is made with its id, and added to those that wait, until `latest`. Only decisions with the same `tag` may join it.
    pub(crate) fn wait(
        &self,
        lane: &L,
        load: u32,
        tag: u64,
        latest: Instant,
        decision: impl FnOnce(u64) -> T,
    ) -> Option<Entered> {
        let mut state = lock(&self.state);
        if state.begin(lane) {
            self.is_busy.store(true, Relaxed);
            return None;
        }
        // Before all changes, in case that it panics.
        let id = state.next_id;
        let decision = decision(id);
        state.next_id += 1;
        let is_unwatched = state.watch.is_none_or(|watch| latest < watch);
        if is_unwatched {
            state.watch = Some(latest);
        }
        let own = state.lanes.entry(lane.clone()).or_insert_with(LaneQueue::new);
        own.push(id, load, tag, latest, decision);
        self.last.store(tag, Relaxed);
        let begins_call = own.begin_beside();
        Some(Entered { id, is_unwatched, begins_call })
    }

    /// Whether a decision is likely to wait.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Relaxed)
    }

    /// Takes the decisions of a call that has begun for what waits.
    pub(crate) fn take(&self, lane: &L) -> Taken<T> {
        let mut state = lock(&self.state);
        let Some(own) = state.lanes.get_mut(lane) else {
            return Taken { decisions: Vec::new(), begins_call: false };
        };
        own.starting = own.starting.saturating_sub(1);
        own.begins_next = false;
        let decisions = own.take(self.max_load);
        // While a call began in the place of another one, none began beside it.
        Taken { decisions, begins_call: own.begin_beside() }
    }

    /// Begins the next call in the place of one that ends, if the server has made all of its decisions in one step. Returns whether it does:
    /// then a task must [take](Self::take) it. Otherwise [`end`](Self::end) must follow.
    pub(crate) fn begin_next(&self, lane: &L, decisions: usize) -> bool {
        let mut state = lock(&self.state);
        let Some(own) = state.lanes.get_mut(lane) else { return false };
        let begins = decisions > 1 && own.last_tag != 0 && own.calls <= MAX_CALLS && !own.begins_next;
        if begins {
            own.end_shared();
            own.starting += 1;
            own.begins_next = true;
        }
        begins
    }

    /// How many decisions wait for a call that has begun beside or in the place of another one. Zero if it waits for no more: if there is no
    /// such call, it is full, or it is as large as the last one.
    pub(crate) fn arrived(&self, lane: &L) -> usize {
        let state = lock(&self.state);
        let own = state.lanes.get(lane).filter(|own| {
            (own.begins_next || own.calls > own.starting)
                && own.load < self.max_load.into()
                && own.count < own.left_last
        });
        own.map_or(0, |own| own.count)
    }

    /// Removes the decision with this id if it still waits: `remove` removes it from those that have joined each other, and returns whether
    /// it was there, as this does.
    pub(crate) fn leave(&self, lane: &L, id: u64, remove: impl FnOnce(&mut T) -> bool) -> bool {
        let mut state = lock(&self.state);
        let Some(own) = state.lanes.get_mut(lane) else { return false };
        let (waited, removed) = own.leave(id, remove);
        state.remove_if_empty(lane);
        self.note_idle(&state);
        drop(state);
        // Its permit is released without the lock.
        drop(removed);
        waited
    }

    /// Begins calls for all decisions that wait no longer at `now`. For the task that looks at the instant `watch`.
    pub(crate) fn due(&self, watch: Instant, now: Instant) -> Due<L, T> {
        let mut state = lock(&self.state);
        let lanes = state.lanes.iter();
        let due: Vec<(L, u64)> =
            lanes.filter_map(|(lane, own)| Some((lane.clone(), own.due(now)?))).collect();
        let mut calls = Vec::new();
        for (lane, id) in due {
            while let Some(decisions) = state.begin_early(&lane, id, self.max_load) {
                calls.push((lane.clone(), decisions));
            }
        }
        if state.watch != Some(watch) {
            return Due { calls, next: None };
        }
        state.watch = state.lanes.values().filter_map(LaneQueue::first_due).min();
        Due { calls, next: state.watch }
    }

    /// Removes all decisions that wait, because nothing watches over them any more.
    pub(crate) fn clear(&self) -> Vec<T> {
        let mut state = lock(&self.state);
        state.watch = None;
        let waiting = state.lanes.values_mut().flat_map(|own| {
            (own.load, own.joined, own.count) = (0, 0, 0);
            own.waiting.drain(..)
        });
        let removed = waiting.map(|waiting| waiting.decision).collect();
        state.lanes.retain(|_, own| own.calls > 0);
        self.note_idle(&state);
        removed
    }

    /// Ends a call of so many decisions. Returns whether one begins in its place: a task must [take](Self::take) it.
    pub(crate) fn end(&self, lane: &L, decisions: usize) -> bool {
        let mut state = lock(&self.state);
        let Some(own) = state.lanes.get_mut(lane) else { return false };
        own.calls -= 1;
        if decisions > 1 {
            own.end_shared();
        }
        let begins_call = own.calls < MAX_CALLS && !own.waiting.is_empty();
        own.begin_if(begins_call);
        state.remove_if_empty(lane);
        self.note_idle(&state);
        begins_call
    }

    fn note_idle(&self, state: &QueueState<L, T>) {
        if state.lanes.is_empty() {
            self.is_busy.store(false, Relaxed);
        }
    }

    /// The number of decisions that wait, `each` with those that have joined it.
    pub(crate) fn waiting(&self, each: impl Fn(&T) -> usize) -> usize {
        let state = lock(&self.state);
        state.lanes.values().flat_map(|own| &own.waiting).map(|waiting| each(&waiting.decision)).sum()
    }
}

impl<L: Clone + Eq + Hash, T> QueueState<L, T> {
    fn begin(&mut self, lane: &L) -> bool {
        let Some(own) = self.lanes.get_mut(lane) else {
            self.lanes.insert(lane.clone(), LaneQueue { calls: 1, ..LaneQueue::new() });
            return true;
        };
        let is_room = own.calls == 0 || own.calls < MAX_CALLS && own.shared == 0 && !own.begins_next;
        if !is_room || !own.waiting.is_empty() {
            return false;
        }
        own.calls += 1;
        true
    }

    /// Begins a call in addition to those on their way, if a decision still waits. Returns the first that wait.
    fn begin_early(&mut self, lane: &L, id: u64, max_load: u32) -> Option<Vec<T>> {
        let own = self.lanes.get_mut(lane)?;
        own.position(id)?;
        own.calls += 1;
        Some(own.take(max_load))
    }

    fn remove_if_empty(&mut self, lane: &L) {
        if self.lanes.get(lane).is_some_and(|own| own.calls == 0 && own.waiting.is_empty()) {
            self.lanes.remove(lane);
        }
    }
}

/// The calls of a lane that are on their way before others wait.
const MAX_CALLS: usize = 2;

#[cfg(test)]
mod tests;
