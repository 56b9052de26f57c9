//! Chooses which decisions leave together.
//!
//! While fewer than [`MAX_CALLS`] calls of a lane are on their way, a decision leaves at once, in a call of its own. Otherwise it
//! waits, and leaves in the next call. A lane contains what may share a call: in a cluster, the decisions of one slot.
//!
//! The decisions of one call are answered at once, and their callers make the next ones at once. If the first of these left by itself
//! beside another call, it would take the place of a call for all of them. So beside a call with several decisions, a call begins
//! with a task that takes what has arrived when the tasks that are ready have run, and looks again as long as more arrives meanwhile, until
//! as many wait as have left in the call before: so calls get equally large, and the server and this process take turns. It delays
//! nothing: the server is busy with the other call.
//!
//! Invariants:
//! - Nothing waits for another call while fewer than [`MAX_CALLS`] calls are on their way: when one ends, the next call takes its
//!   place.
//! - Decisions leave in the order of their arrival. A decision that arrives does not overtake those that wait, here or for a permit.
//! - A call takes decisions from the front as long as their loads add up to at most the limit, and at least one.
//! - A decision leaves once, or is removed before that. It is removed and taken under the same lock.
//! - A decision that is equal to the last one that waits may join it, as long as those that have joined fill less than 1/4 of a call. It
//!   then has the place and the permit of that one. With its permits as well, a flood of one key leaves room in the next call. It joins
//!   none that may leave after its own deadline.
//! - A decision that waits longer than its share of the deadline leaves in a call in addition to those on their way, with all before
//!   it. One task watches over all that wait, because a timer for each would cost more than its place in a call.
//!
//! With two calls, the server runs one while the other is on the network or in this process. With one it would be idle in between.
//! More would make calls smaller, and every call costs both sides more than a decision in it.
//!
//! The number of waiting decisions is bounded by their [permits](super::in_flight): a decision has one before it comes here, or joins
//! one that has, so that one key has at most 1/16 of the permits of what waits and is on its way.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
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
    /// The tag of the decision that began to wait last, for an estimate without the lock.
    last: AtomicU64,
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
    /// The number of those that wait, with those that have joined them.
    count: usize,
    /// The number of decisions in the call that left last.
    left_last: usize,
}

#[derive(Debug)]
struct Waiting<T> {
    id: u64,
    load: u32,
    /// When it leaves at the latest.
    latest: Instant,
    /// How many have joined it, those included that have left since.
    joined: usize,
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
        Self { max_load, is_busy: AtomicBool::new(false), last: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// Whether a decision with this tag may find an equal one to [join](Self::join); none has the tag 0.
    pub(crate) fn may_join(&self, tag: u64) -> bool {
        tag != 0 && self.is_busy() && self.last.load(Relaxed) == tag
    }

    /// Lets a decision `join` the last one that waits, if that one takes it, leaves until `end`, and there is room. Returns the id,
    /// which both have.
    pub(crate) fn join(&self, lane: &L, end: Instant, join: impl FnOnce(&mut T) -> bool) -> Option<u64> {
        let mut state = self.state();
        let own = state.lanes.get_mut(lane).filter(|own| own.joined() < self.max_load / JOINED_SHARE)?;
        let last = own.waiting.back_mut()?;
        if end < last.latest || !join(&mut last.decision) {
            return None;
        }
        last.joined += 1;
        last.load = last.load.saturating_add(JOINED_LOAD);
        own.load += u64::from(JOINED_LOAD);
        own.count += 1;
        Some(last.id)
    }

    /// Begins a call for a decision that has arrived, if it need not wait: then [`end`](Self::end) must follow. Otherwise the decision
    /// is made, and added to those that wait, until `latest`. Only decisions with the same `tag` may join it.
    pub(crate) fn wait(
        &self,
        lane: &L,
        load: u32,
        tag: u64,
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
        own.count += 1;
        own.waiting.push_back(Waiting { id, load, latest, joined: 0, decision });
        self.last.store(tag, Relaxed);
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

    /// How many decisions wait for a call that has begun beside one that is on its way. Zero if it waits for no more: if there is no
    /// other call, the call is full, or it is as large as the last one.
    pub(crate) fn arrived(&self, lane: &L) -> usize {
        let state = self.state();
        let own = state.lanes.get(lane).filter(|own| {
            own.calls > own.starting && own.load < self.max_load.into() && own.count < own.left_last
        });
        own.map_or(0, |own| own.count)
    }

    /// Removes a decision, if it still waits: `remove` removes it from those that have joined each other, and returns whether none of
    /// them is left. Returns whether it still waited.
    pub(crate) fn leave(&self, lane: &L, id: u64, remove: impl FnOnce(&mut T) -> bool) -> bool {
        // Dropped after the lock is released.
        let _removed;
        let mut state = self.state();
        let Some(own) = state.lanes.get_mut(lane) else { return false };
        let Some(position) = own.position(id) else { return false };
        if own.waiting.get_mut(position).is_some_and(|waiting| remove(&mut waiting.decision)) {
            _removed = own.waiting.remove(position).inspect(|waiting| {
                own.load -= u64::from(waiting.load);
                own.count -= waiting.count();
            });
            state.remove_if_empty(lane);
            self.note_idle(&state);
        }
        true
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
            (own.load, own.count) = (0, 0);
            own.waiting.drain(..)
        });
        let removed = waiting.map(|waiting| waiting.decision).collect();
        state.lanes.retain(|_, own| own.calls > 0);
        self.note_idle(&state);
        removed
    }

    /// Ends a call with this number of decisions. Returns whether a call begins in its place, for what waits: a task
    /// must [take](Self::take) it.
    pub(crate) fn end(&self, lane: &L, decisions: usize) -> bool {
        let mut state = self.state();
        let Some(own) = state.lanes.get_mut(lane) else { return false };
        own.calls -= 1;
        own.shared -= usize::from(decisions > 1);
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

    /// The number of decisions that wait, `each` with those that have joined it.
    pub(crate) fn waiting(&self, each: impl Fn(&T) -> usize) -> usize {
        let state = self.state();
        state.lanes.values().flat_map(|own| &own.waiting).map(|waiting| each(&waiting.decision)).sum()
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

impl<T> Waiting<T> {
    fn count(&self) -> usize {
        1 + self.joined
    }
}

impl<T> Lane<T> {
    fn new() -> Self {
        Self {
            calls: 0,
            starting: 0,
            shared: 0,
            waiting: VecDeque::new(),
            load: 0,
            count: 0,
            left_last: usize::MAX,
        }
    }

    /// Begins a call that a task sends.
    fn begin_if(&mut self, begins_call: bool) {
        self.calls += usize::from(begins_call);
        self.starting += usize::from(begins_call);
    }

    /// How many have joined those that wait, each of which is a load of [`JOINED_LOAD`].
    fn joined(&self) -> u32 {
        u32::try_from(self.count - self.waiting.len()).unwrap_or(u32::MAX)
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
        let taken = || self.waiting.iter().take(count);
        let decisions = taken().map(Waiting::count).sum::<usize>();
        self.load -= taken().map(|waiting| u64::from(waiting.load)).sum::<u64>();
        self.count -= decisions;
        if decisions > 0 {
            self.left_last = decisions;
        }
        self.shared += usize::from(decisions > 1);
        self.waiting.drain(..count).map(|waiting| waiting.decision).collect()
    }
}

/// The calls of a lane that are on their way before others wait.
const MAX_CALLS: usize = 2;
/// The load of a decision that has joined another one: the script makes both in one step.
const JOINED_LOAD: u32 = 1;
/// The part of a call that decisions fill which have joined others.
const JOINED_SHARE: u32 = 4;

#[cfg(test)]
mod tests;
