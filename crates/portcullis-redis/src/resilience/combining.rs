//! Chooses which decisions leave together.
//!
//! While fewer than [`MAX_CALLS`] calls of a lane are on their way, a decision leaves at once, in a call of its own. Otherwise it
//! waits, and leaves in the next call. A lane contains what may share a call: in a cluster, the decisions of one slot.
//!
//! The decisions of one call are answered at once, and their callers make the next ones at once. If the first of these left by itself
//! beside another call, it would take the place of a call for all of them. So beside a call with several decisions, a call begins
//! with a task that takes what has arrived when the tasks that are ready have run, and looks again as long as more arrives meanwhile. It
//! delays nothing: the server is busy with the other call.
//!
//! Invariants:
//! - Nothing waits for another call while fewer than [`MAX_CALLS`] calls are on their way: when one ends, the next call takes its
//!   place.
//! - Decisions leave in the order of their arrival. A decision that arrives does not overtake those that wait.
//! - A call takes decisions from the front as long as their loads add up to at most the limit, and at least one.
//! - A decision leaves once, or is removed before that. It is removed and taken under the same lock.
//! - A decision that waits longer than its share of the deadline leaves in a call in addition to those on their way, with all before
//!   it. One task watches over all that wait, because a timer for each would cost more than its place in a call.
//!
//! With two calls, the server runs one while the other is on the network or in this process. With one it would be idle in between.
//! More would make calls smaller, and every call costs both sides more than a decision in it.
//!
//! The number of waiting decisions is bounded by their [permits](super::in_flight): a decision has one before it comes here, so
//! that one key has at most 1/16 of what waits and is on its way.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use tokio::time::Instant;

/// The decisions that wait for a call on a connection, each with its load.
// In cache lines of its own: every decision writes to it, and reads what is beside it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct CombiningQueue<L, T> {
    max_load: u32,
    /// Whether there is a lane, for an estimate without the lock.
    is_busy: AtomicBool,
    state: Mutex<State<L, T>>,
}

#[derive(Debug)]
struct State<L, T> {
    /// Contains only lanes with a call on its way or a waiting decision.
    lanes: HashMap<L, Lane<T>, RandomState>,
    next_id: u64,
    /// When the task looks at what waits that watches over it; `None` without such a task.
    watch: Option<Instant>,
}

#[derive(Debug)]
struct Lane<T> {
    /// The calls on their way, and those that a task is about to send.
    calls: usize,
    /// Those of them that a task is about to send.
    starting: usize,
    /// Those of them with several decisions.
    shared: usize,
    waiting: VecDeque<Waiting<T>>,
    /// The load of all that wait.
    load: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    id: u64,
    load: u32,
    /// When it leaves at the latest.
    latest: Instant,
    decision: T,
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
        let state = State { lanes: HashMap::default(), next_id: 0, watch: None };
        Self { max_load, is_busy: AtomicBool::new(false), state: Mutex::new(state) }
    }

    /// Begins a call for a decision that has arrived, if it need not wait: then [`end`](Self::end) must follow. Otherwise the decision
    /// is made, and added to those that wait, until `latest`.
    pub(crate) fn wait(
        &self,
        lane: &L,
        load: u32,
        latest: Instant,
        decision: impl FnOnce() -> T,
    ) -> Option<Entered> {
        let mut state = self.state();
        if state.begin(lane) {
            self.is_busy.store(true, Relaxed);
            return None;
        }
        // Before all changes, in case that it panics.
        let decision = decision();
        let id = state.next_id;
        state.next_id += 1;
        let is_unwatched = state.watch.is_none_or(|watch| latest < watch);
        if is_unwatched {
            state.watch = Some(latest);
        }
        let own = state.lanes.entry(lane.clone()).or_insert_with(Lane::new);
        own.load += u64::from(load);
        own.waiting.push_back(Waiting { id, load, latest, decision });
        let begins_call = own.calls < MAX_CALLS;
        own.begin_if(begins_call);
        Some(Entered { id, is_unwatched, begins_call })
    }

    /// Whether a decision is likely to wait.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Relaxed)
    }

    /// Takes the decisions of a call that has begun for what waits; none if all have left by now.
    pub(crate) fn take(&self, lane: &L) -> Vec<T> {
        let mut state = self.state();
        let Some(own) = state.lanes.get_mut(lane) else { return Vec::new() };
        own.starting = own.starting.saturating_sub(1);
        own.take(self.max_load)
    }

    /// How many decisions wait for a call that has begun beside one that is on its way. Zero if there is none, or if the call is full: then
    /// it waits for no more.
    pub(crate) fn arrived(&self, lane: &L) -> usize {
        let state = self.state();
        let own =
            state.lanes.get(lane).filter(|own| own.calls > own.starting && own.load < self.max_load.into());
        own.map_or(0, |own| own.waiting.len())
    }

    /// Removes a decision, if it still waits.
    pub(crate) fn leave(&self, lane: &L, id: u64) -> Option<T> {
        let mut state = self.state();
        let own = state.lanes.get_mut(lane)?;
        let position = own.position(id)?;
        let removed = own.waiting.remove(position);
        own.load -= removed.as_ref().map_or(0, |waiting| waiting.load.into());
        state.remove_if_empty(lane);
        self.note_idle(&state);
        removed.map(|waiting| waiting.decision)
    }

    /// Begins calls in addition to those that are on their way for all decisions that wait no longer at `now`. For the task that
    /// looks at what waits at the instant `watch`.
    pub(crate) fn due(&self, watch: Instant, now: Instant) -> Due<L, T> {
        let mut state = self.state();
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
        state.watch = state.lanes.values().filter_map(Lane::first_due).min();
        Due { calls, next: state.watch }
    }

    /// Removes all decisions that wait, because nothing watches over them any more.
    pub(crate) fn clear(&self) -> Vec<T> {
        let mut state = self.state();
        state.watch = None;
        let waiting = state.lanes.values_mut().flat_map(|own| {
            own.load = 0;
            own.waiting.drain(..)
        });
        let removed = waiting.map(|waiting| waiting.decision).collect();
        state.lanes.retain(|_, own| own.calls > 0);
        self.note_idle(&state);
        removed
    }

    /// Ends a call, which `was_shared` if it had several decisions. Returns whether a call begins in its place, for what waits: a task
    /// must [take](Self::take) it.
    pub(crate) fn end(&self, lane: &L, was_shared: bool) -> bool {
        let mut state = self.state();
        let Some(own) = state.lanes.get_mut(lane) else { return false };
        own.calls -= 1;
        own.shared -= usize::from(was_shared);
        let begins_call = own.calls < MAX_CALLS && !own.waiting.is_empty();
        own.begin_if(begins_call);
        state.remove_if_empty(lane);
        self.note_idle(&state);
        begins_call
    }

    fn note_idle(&self, state: &State<L, T>) {
        if state.lanes.is_empty() {
            self.is_busy.store(false, Relaxed);
        }
    }

    /// The number of decisions that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().lanes.values().map(|own| own.waiting.len()).sum()
    }

    fn state(&self) -> MutexGuard<'_, State<L, T>> {
        // Every change is complete before any code can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<L: Clone + Eq + Hash, T> State<L, T> {
    fn begin(&mut self, lane: &L) -> bool {
        let Some(own) = self.lanes.get_mut(lane) else {
            self.lanes.insert(lane.clone(), Lane { calls: 1, ..Lane::new() });
            return true;
        };
        let is_room = own.calls == 0 || own.calls < MAX_CALLS && own.shared == 0;
        if !is_room || !own.waiting.is_empty() {
            return false;
        }
        own.calls += 1;
        true
    }

    /// Begins a call in addition to those that are on their way, if a decision still waits. Returns the decisions of the call: the
    /// first that wait, of which that one may be a later one.
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

impl<T> Lane<T> {
    fn new() -> Self {
        Self { calls: 0, starting: 0, shared: 0, waiting: VecDeque::new(), load: 0 }
    }

    /// Begins a call that a task sends.
    fn begin_if(&mut self, begins_call: bool) {
        self.calls += usize::from(begins_call);
        self.starting += usize::from(begins_call);
    }

    /// The last decision that waits no longer at `now`.
    fn due(&self, now: Instant) -> Option<u64> {
        self.waiting.iter().rfind(|waiting| waiting.latest <= now).map(|waiting| waiting.id)
    }

    /// The first instant at which a decision waits no longer.
    fn first_due(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.latest).min()
    }

    fn position(&self, id: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&id, |waiting| waiting.id).ok()
    }

    /// How many decisions fit in a call, at least one.
    fn that_fit(&self, max_load: u32) -> usize {
        let mut load = 0_u64;
        let fits = self.waiting.iter().take_while(|waiting| {
            load += u64::from(waiting.load);
            load <= max_load.into()
        });
        fits.count().max(1).min(self.waiting.len())
    }

    /// Takes the decisions of the next call.
    fn take(&mut self, max_load: u32) -> Vec<T> {
        let count = if self.load <= max_load.into() { self.waiting.len() } else { self.that_fit(max_load) };
        self.load -= self.waiting.iter().take(count).map(|waiting| u64::from(waiting.load)).sum::<u64>();
        self.shared += usize::from(count > 1);
        self.waiting.drain(..count).map(|waiting| waiting.decision).collect()
    }
}

/// The calls of a lane that are on their way before others wait.
const MAX_CALLS: usize = 2;

#[cfg(test)]
mod tests;
