//! The checks that wait for the calls of one lane, and the turns of these calls.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::MAX_CALLS;

/// The queue and the turns of a lane.
#[derive(Debug)]
pub(super) struct Lane<T> {
    /// One for each turn, in no order.
    stages: SmallVec<[Stage; MAX_CALLS]>,
    /// In the order of their ids.
    waiting: VecDeque<Waiting<T>>,
    /// The number of checks in the call that left last.
    left_last: usize,
}

/// The right to send one call of a lane after another. The lane counts it until it is [ended](super::CombiningQueue::end).
#[derive(Debug)]
#[must_use = "a turn that does not end stops its lane"]
pub(crate) struct Turn(Stage);

/// What a turn does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// A task is about to take what waits.
    Collects,
    /// A call with one check is on its way.
    Single,
    /// A call with several checks is on its way: with the tag of all of them, if all have joined the first.
    Shared(Option<NonZeroU64>),
}

/// A check that waits, with those that have joined it.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    /// The first of its ids. The ids of checks that have joined it are between this and the first id of the next entry.
    pub(super) id: u64,
    /// The load of one check.
    pub(super) load: u32,
    /// Equal for all checks that may join it; `None` if none may.
    pub(super) tag: Option<NonZeroU64>,
    /// When it leaves at the latest.
    pub(super) latest: Instant,
    pub(super) check: T,
    /// How many checks have joined the first.
    joined: usize,
}

impl<T> Waiting<T> {
    pub(super) fn new(id: u64, load: u32, tag: Option<NonZeroU64>, latest: Instant, check: T) -> Self {
        Self { id, load, tag, latest, check, joined: 0 }
    }

    /// How many checks wait here.
    fn count(&self) -> usize {
        1 + self.joined
    }

    /// The load of a check that joins: the script makes it in one step with the first, and sends a state for it.
    fn load_to_join(&self) -> u64 {
        u64::from(1 + self.load / JOINED_PART)
    }

    fn joined_load(&self) -> u64 {
        self.load_to_join() * u64::try_from(self.joined).unwrap_or(u64::MAX)
    }

    fn total_load(&self) -> u64 {
        u64::from(self.load) + self.joined_load()
    }
}

impl<T> Default for Lane<T> {
    fn default() -> Self {
        Self { stages: SmallVec::new(), waiting: VecDeque::new(), left_last: usize::MAX }
    }
}

impl<T> Lane<T> {
    pub(super) fn is_idle(&self) -> bool {
        self.stages.is_empty() && self.waiting.is_empty()
    }

    /// Begins a turn for a check that need not wait: at most one call is on its way, with a check of its own, and nothing waits.
    pub(super) fn begin_alone(&mut self) -> Option<Turn> {
        let is_alone = self.stages.iter().all(|stage| *stage == Stage::Single);
        let is_free = self.stages.len() < MAX_CALLS && is_alone && self.waiting.is_empty();
        is_free.then(|| self.begin(Stage::Single))
    }

    /// Begins a turn for what waits, unless a turn will take it: then a task must [take](Self::take) it.
    pub(super) fn begin_for_waiting(&mut self) -> Option<Turn> {
        (!self.is_served()).then(|| self.begin(Stage::Collects))
    }

    /// Whether what waits will be taken by a turn, which is the first one that ends if there are [`MAX_CALLS`]. Equal checks are one
    /// step of the server, so that a second call for them costs both sides more than it saves.
    pub(super) fn is_served(&self) -> bool {
        self.waiting.is_empty()
            || self.stages.len() >= MAX_CALLS
            || self.stages.iter().any(|stage| match stage {
                Stage::Collects => true,
                Stage::Single | Stage::Shared(None) => false,
                Stage::Shared(tag) => self.waiting.len() == 1 && self.waiting[0].tag == *tag,
            })
    }

    /// Continues a turn whose call with several checks has ended, for what their callers check next. Returns whether it does: then its
    /// task must [take](Self::take) that.
    pub(super) fn continues(&mut self, turn: &mut Turn) -> bool {
        let is_room = self.stages.len() <= MAX_CALLS && !self.stages.contains(&Stage::Collects);
        let continues = is_room && matches!(turn.0, Stage::Shared(_));
        if continues {
            self.change(turn, Stage::Collects);
        }
        continues
    }

    #[expect(clippy::needless_pass_by_value, reason = "a turn ends once")]
    pub(super) fn end(&mut self, turn: Turn) {
        self.stages.swap_remove(self.position_of(turn.0));
    }

    /// Takes the checks of the next call for a turn that collects them; none if all have left by now.
    pub(super) fn take(&mut self, turn: &mut Turn, max_load: u32) -> Vec<T> {
        let entries = self.that_fit(max_load);
        let checks: usize = self.waiting.iter().take(entries).map(Waiting::count).sum();
        let tag = self.waiting.front().filter(|_| entries == 1).and_then(|first| first.tag);
        match checks {
            0 => return Vec::new(),
            1 => self.change(turn, Stage::Single),
            _ => self.change(turn, Stage::Shared(tag)),
        }
        self.left_last = checks;
        self.waiting.drain(..entries).map(|waiting| waiting.check).collect()
    }

    /// Begins a turn in addition to the others, for the first checks that wait, if the one with this id still does.
    pub(super) fn take_early(&mut self, id: u64, max_load: u32) -> Option<(Turn, Vec<T>)> {
        self.position(id)?;
        let mut turn = self.begin(Stage::Collects);
        let checks = self.take(&mut turn, max_load);
        Some((turn, checks))
    }

    /// How many checks wait. Zero if a turn waits for no more: they fill a call, or are as many as have left in the last one.
    pub(super) fn arrived(&self, max_load: u32) -> usize {
        let count = self.count();
        if count < self.left_last && self.load() < max_load.into() { count } else { 0 }
    }

    /// Adds a check at the end.
    pub(super) fn push(&mut self, waiting: Waiting<T>) {
        self.waiting.push_back(waiting);
    }

    /// Lets a check `join` the last one, if that one has the same tag, takes it, leaves until `end`, and there is room.
    pub(super) fn join<R>(
        &mut self,
        max_load: u32,
        tag: NonZeroU64,
        end: Instant,
        join: impl FnOnce(&mut T) -> Option<R>,
    ) -> Option<R> {
        self.waiting.back().filter(|last| last.tag == Some(tag) && last.latest <= end)?;
        let max_load = u64::from(max_load);
        let (all, joined) = (self.load(), self.waiting.iter().map(Waiting::joined_load).sum::<u64>());
        let last = self.waiting.back_mut()?;
        let load = last.load_to_join();
        let is_room = joined + load <= max_load / JOINED_SHARE && last.total_load() + load <= max_load;
        // Otherwise the last one might leave in a later call.
        let fills_no_call = all.div_ceil(max_load) == (all + load).div_ceil(max_load);
        let received = if is_room && fills_no_call { join(&mut last.check) } else { None }?;
        last.joined += 1;
        Some(received)
    }

    /// Removes the check with this id by `remove`. Returns whether it was there, and what has no check left.
    pub(super) fn leave(
        &mut self,
        id: u64,
        remove: impl FnOnce(&mut T) -> bool,
    ) -> (bool, Option<Waiting<T>>) {
        let Some(position) = self.position(id) else { return (false, None) };
        let waiting = &mut self.waiting[position];
        if !remove(&mut waiting.check) {
            return (false, None);
        }
        match waiting.joined.checked_sub(1) {
            Some(joined) => {
                waiting.joined = joined;
                (true, None)
            }
            None => (true, self.waiting.remove(position)),
        }
    }

    /// Removes all checks.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(&mut self.waiting).into_iter().map(|waiting| waiting.check)
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Waiting<T>> {
        self.waiting.iter()
    }

    fn begin(&mut self, stage: Stage) -> Turn {
        self.stages.push(stage);
        Turn(stage)
    }

    fn change(&mut self, turn: &mut Turn, stage: Stage) {
        let position = self.position_of(turn.0);
        (self.stages[position], turn.0) = (stage, stage);
    }

    /// The place of a turn. Those at the same stage are alike.
    fn position_of(&self, stage: Stage) -> usize {
        let position = self.stages.iter().position(|own| *own == stage);
        position.expect("a lane has the stage of each of its turns")
    }

    /// The position of what has this id, if it still waits.
    fn position(&self, id: u64) -> Option<usize> {
        self.waiting.partition_point(|waiting| waiting.id <= id).checked_sub(1)
    }

    /// How many entries fit in a call, at least one.
    fn that_fit(&self, max_load: u32) -> usize {
        let mut load = 0_u64;
        let fits = self.waiting.iter().take_while(|waiting| {
            load += waiting.total_load();
            load <= max_load.into()
        });
        fits.count().max(1).min(self.waiting.len())
    }

    fn count(&self) -> usize {
        self.waiting.iter().map(Waiting::count).sum()
    }

    fn load(&self) -> u64 {
        self.waiting.iter().map(Waiting::total_load).sum()
    }
}

#[cfg(test)]
impl Turn {
    /// The least number of checks in its call.
    pub(super) fn least_checks(&self) -> usize {
        match self.0 {
            Stage::Collects => 0,
            Stage::Single => 1,
            Stage::Shared(_) => 2,
        }
    }
}

#[cfg(test)]
impl<T> Lane<T> {
    /// The number of turns.
    pub(super) fn turns(&self) -> usize {
        self.stages.len()
    }

    /// The number of turns that are about to take what waits.
    pub(super) fn collecting(&self) -> usize {
        self.stages.iter().filter(|stage| **stage == Stage::Collects).count()
    }

    /// Whether checks that have joined wait with each other, and the load of the others.
    pub(super) fn assert_bounded(&self, max_load: u32, count: impl Fn(&T) -> usize) {
        let max_load = u64::from(max_load);
        for waiting in &self.waiting {
            assert_eq!(waiting.count(), count(&waiting.check));
            assert!(waiting.joined == 0 || waiting.total_load() <= max_load);
        }
        assert!(self.waiting.iter().map(Waiting::joined_load).sum::<u64>() <= max_load / JOINED_SHARE);
    }
}

/// The part of the load of a check that one has besides 1 that joins it.
const JOINED_PART: u32 = 16;
/// The part of a call that checks fill which have joined others.
const JOINED_SHARE: u64 = 4;
