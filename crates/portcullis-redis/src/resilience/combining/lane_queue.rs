//! The decisions that wait for the calls of one lane.

use std::collections::VecDeque;

use tokio::time::Instant;

use super::MAX_CALLS;

/// The queue and the calls of a lane.
#[derive(Debug)]
pub(super) struct LaneQueue<T> {
    /// The calls on their way, and those that a task is about to send.
    pub(super) calls: usize,
    /// The calls that a task is about to send.
    pub(super) starting: usize,
    /// The calls with several decisions.
    pub(super) shared: usize,
    /// In the order of their ids.
    pub(super) waiting: VecDeque<Waiting<T>>,
    /// The load of all waiting decisions.
    pub(super) load: u64,
    /// The part of the load that belongs to decisions which have joined others.
    pub(super) joined: u64,
    /// The number of waiting decisions, with those that have joined them.
    pub(super) count: usize,
    /// The number of decisions in the call that left last.
    pub(super) left_last: usize,
    /// The tag of its decisions, if all of them had joined the first and no call with several has ended since; 0 otherwise.
    pub(super) last_tag: u64,
    /// Whether a call begins in the place of one that has ended, for what its callers decide next.
    pub(super) begins_next: bool,
}

/// A decision that waits, with those that have joined it.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    /// The first of its ids. The ids of decisions that have joined it are between this and the first id of the next entry.
    pub(super) id: u64,
    /// The load of one decision.
    pub(super) load: u32,
    /// Equal for all decisions that may join it, and 0 if none may.
    pub(super) tag: u64,
    /// When it leaves at the latest.
    pub(super) latest: Instant,
    /// How many decisions have joined the first.
    pub(super) joined: usize,
    pub(super) decision: T,
}

impl<T> Waiting<T> {
    /// How many decisions wait here.
    pub(super) fn count(&self) -> usize {
        1 + self.joined
    }

    /// The load of a decision that joins: the script makes it in one step with the first, and sends a state for it.
    pub(super) fn load_to_join(&self) -> u64 {
        u64::from(1 + self.load / JOINED_PART)
    }

    /// The load of the decisions that have joined.
    pub(super) fn joined_load(&self) -> u64 {
        self.load_to_join() * u64::try_from(self.joined).unwrap_or(u64::MAX)
    }

    /// The load of all decisions here.
    pub(super) fn total_load(&self) -> u64 {
        u64::from(self.load) + self.joined_load()
    }
}

impl<T> LaneQueue<T> {
    pub(super) fn new() -> Self {
        Self {
            calls: 0,
            starting: 0,
            shared: 0,
            waiting: VecDeque::new(),
            load: 0,
            joined: 0,
            count: 0,
            left_last: usize::MAX,
            last_tag: 0,
            begins_next: false,
        }
    }

    /// Starts another call for what waits if there is room, and the call that left last does not cover the same key. Returns whether.
    pub(super) fn begin_beside(&mut self) -> bool {
        let is_room = self.calls < MAX_CALLS && !self.begins_next;
        let begins_call = is_room && !self.waiting.is_empty() && !self.repeats_last();
        self.begin_if(begins_call);
        begins_call
    }

    /// Ends a call with several decisions.
    pub(super) fn end_shared(&mut self) {
        self.shared -= 1;
        self.last_tag = 0;
    }

    /// Begins a call that a task sends.
    pub(super) fn begin_if(&mut self, begins_call: bool) {
        self.calls += usize::from(begins_call);
        self.starting += usize::from(begins_call);
    }

    /// Adds a decision at the end.
    pub(super) fn push(&mut self, id: u64, load: u32, tag: u64, latest: Instant, decision: T) {
        self.load += u64::from(load);
        self.count += 1;
        self.waiting.push_back(Waiting { id, load, tag, latest, joined: 0, decision });
    }

    /// Lets a decision join the last one, if that one takes it, leaves until `end`, and there is room. Returns whether it has.
    pub(super) fn join(&mut self, max_load: u32, end: Instant, join: impl FnOnce(&mut T) -> bool) -> bool {
        let max_load = u64::from(max_load);
        let Some(last) = self.waiting.back_mut().filter(|last| last.latest <= end) else { return false };
        let load = last.load_to_join();
        let is_room = self.joined + load <= max_load / JOINED_SHARE && last.total_load() + load <= max_load;
        // Otherwise the last one might leave in a later call.
        let fills_no_call = self.load.div_ceil(max_load) == (self.load + load).div_ceil(max_load);
        if !is_room || !fills_no_call || !join(&mut last.decision) {
            return false;
        }
        last.joined += 1;
        self.joined += load;
        self.load += load;
        self.count += 1;
        true
    }

    /// Whether all waiting decisions may be equal to all decisions of the call that left last.
    fn repeats_last(&self) -> bool {
        self.last_tag != 0 && self.waiting.len() == 1 && self.waiting[0].tag == self.last_tag
    }

    /// Removes the decision with this id by `remove`. Returns whether it was there, and what has no decision left.
    pub(super) fn leave(
        &mut self,
        id: u64,
        remove: impl FnOnce(&mut T) -> bool,
    ) -> (bool, Option<Waiting<T>>) {
        let Some(position) = self.position(id) else { return (false, None) };
        let waiting = &mut self.waiting[position];
        if !remove(&mut waiting.decision) {
            return (false, None);
        }
        self.count -= 1;
        if waiting.joined == 0 {
            self.load -= u64::from(waiting.load);
            return (true, self.waiting.remove(position));
        }
        waiting.joined -= 1;
        let load = waiting.load_to_join();
        self.joined -= load;
        self.load -= load;
        (true, None)
    }

    /// The last decision that waits no longer at `now`.
    pub(super) fn due(&self, now: Instant) -> Option<u64> {
        self.waiting.iter().rfind(|waiting| waiting.latest <= now).map(|waiting| waiting.id)
    }

    /// The first instant at which a decision waits no longer.
    pub(super) fn first_due(&self) -> Option<Instant> {
        self.waiting.iter().map(|waiting| waiting.latest).min()
    }

    /// The position of what has this id, if it still waits.
    pub(super) fn position(&self, id: u64) -> Option<usize> {
        self.waiting.partition_point(|waiting| waiting.id <= id).checked_sub(1)
    }

    /// How many decisions fit in a call, at least one.
    fn that_fit(&self, max_load: u32) -> usize {
        let mut load = 0_u64;
        let fits = self.waiting.iter().take_while(|waiting| {
            load += waiting.total_load();
            load <= max_load.into()
        });
        fits.count().max(1).min(self.waiting.len())
    }

    /// Takes the decisions of the next call.
    pub(super) fn take(&mut self, max_load: u32) -> Vec<T> {
        let count = self.that_fit(max_load);
        let decisions = self.waiting.iter().take(count).map(Waiting::count).sum::<usize>();
        if decisions > 0 {
            self.left_last = decisions;
            self.last_tag = if count == 1 && decisions > 1 { self.waiting[0].tag } else { 0 };
        }
        self.shared += usize::from(decisions > 1);
        self.count -= decisions;
        let taken = self.waiting.drain(..count).map(|waiting| {
            self.load -= waiting.total_load();
            self.joined -= waiting.joined_load();
            waiting.decision
        });
        taken.collect()
    }
}

/// The part of the load of a decision that one has besides 1 that joins it.
const JOINED_PART: u32 = 16;
/// The part of a call that decisions fill which have joined others.
const JOINED_SHARE: u64 = 4;
