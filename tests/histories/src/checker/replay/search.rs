//! The search for an order of the calls that explains all answers.

use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

use portcullis_core::Policy;
use portcullis_core::algorithm::State;

use super::super::super::{Call, KeyId, Op};
use super::super::clock::Clock;
use super::super::{Extent, Loss};
use super::at;
use super::doubt::Doubt;
use super::step;

pub(super) enum Verdict {
    Consistent,
    /// Too many calls are in doubt.
    Undecided,
    /// No order explains all answers up to this index.
    Contradiction(usize),
}

pub(super) struct Search<'a> {
    policy: Policy,
    answered: &'a [&'a Op],
    /// Answers of one instant, whose order is unknown.
    groups: Vec<Range<usize>>,
    doubt: Doubt<'a>,
    losses: &'a [Loss],
    thorough: bool,
    seen: HashSet<Progress>,
}

/// A partial order.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Progress {
    group: usize,
    /// The members of the group that are placed, as a bit mask.
    placed: u64,
    /// The calls in doubt that have run, as a bit mask.
    charged: u64,
    losses: usize,
    state: Option<State>,
}

/// The states of a partial order, the latest first.
struct Trail {
    at: u64,
    /// The completion of the answer.
    completed: u64,
    state: Option<State>,
    before: Option<Rc<Trail>>,
}

type Node = (Progress, Option<Rc<Trail>>);

impl<'a> Search<'a> {
    /// Prepares a search. A `thorough` search tries the calls in doubt before every answer; otherwise only before answers that
    /// need them. It is required if the figures of an answer are the same with and without calls in doubt and a later answer tells
    /// them apart: if a charge and a refund in doubt cancel each other, or if a settlement leaves no units either way.
    pub(super) fn new(
        key_id: KeyId,
        clock: &'a Clock,
        answered: &'a [&'a Op],
        doubtful: &'a [&'a Op],
        losses: &'a [Loss],
        links: usize,
        thorough: bool,
    ) -> Self {
        let groups = answered
            .chunk_by(|one, next| (clock.index(one), at(one)) == (clock.index(next), at(next)))
            .scan(0, |start, group| {
                let range = *start..*start + group.len();
                *start = range.end;
                Some(range)
            });
        let doubt = Doubt::new(key_id.family, clock, answered, doubtful, links);
        let (policy, groups) = (key_id.family.policy(), groups.collect());
        Self { policy, answered, groups, doubt, losses, thorough, seen: HashSet::new() }
    }

    pub(super) fn run(mut self) -> Verdict {
        if self.doubt.is_too_much() || self.groups.iter().any(|group| group.len() > 64) {
            return Verdict::Undecided;
        }
        let mut furthest = 0;
        let start = Progress { group: 0, placed: 0, charged: 0, losses: 0, state: None };
        let mut open = vec![(start, None)];
        while let Some((progress, trail)) = open.pop() {
            let Some(group) = self.groups.get(progress.group) else { return Verdict::Consistent };
            if !self.seen.insert(progress.clone()) {
                continue;
            }
            if self.seen.len() > MAX_VISITED {
                return Verdict::Undecided;
            }
            furthest = furthest.max(group.start);
            self.expand(&progress, trail.as_ref(), &mut open);
        }
        Verdict::Contradiction(furthest)
    }

    /// Adds the possible next steps to `open`, the likeliest last.
    fn expand(&self, progress: &Progress, trail: Option<&Rc<Trail>>, open: &mut Vec<Node>) {
        let group = self.groups[progress.group].clone();
        let is_left = |index: &usize| progress.placed & (1 << (index - group.start)) == 0;
        let left: Vec<usize> = group.clone().filter(is_left).collect();
        if let Some(loss) = self.losses.get(progress.losses)
            && left.iter().all(|index| self.answered[*index].completed >= loss.from)
        {
            let next = |state| Progress { losses: progress.losses + 1, state, ..progress.clone() };
            let states = survivors(loss, progress, trail);
            open.extend(states.into_iter().map(|state| (next(state), trail.cloned())));
            if left.iter().any(|index| self.answered[*index].invoked > loss.to) {
                return;
            }
        }
        let mut direct: Vec<Node> = Vec::new();
        for index in &left {
            let op = self.answered[*index];
            let mut state = progress.state.clone();
            if !step::reproduces(&self.policy, op, &mut state) {
                continue;
            }
            let placed = progress.placed | (1 << (*index - group.start));
            let whole = placed.count_ones() as usize == group.len();
            let (group, placed) = if whole { (progress.group + 1, 0) } else { (progress.group, placed) };
            let never_changes = matches!(op.call, Call::Check(_)) && state == progress.state;
            let (at, completed, before) = (at(op), op.completed, trail.cloned());
            let trail = Trail { at, completed, state: state.clone(), before };
            let node = (Progress { group, placed, state, ..progress.clone() }, Some(Rc::new(trail)));
            if never_changes && !self.thorough {
                // A peek or a denial changes nothing wherever it is placed; a correction may change something elsewhere.
                open.push(node);
                return;
            }
            direct.push(node);
        }
        if direct.is_empty() || self.thorough {
            let since = trail.map_or(0, |trail| trail.at);
            let changes =
                self.doubt.changes(&self.policy, progress.charged, progress.state.as_ref(), since, &left);
            let next = |(charged, state)| (Progress { charged, state, ..progress.clone() }, trail.cloned());
            open.extend(changes.into_iter().map(next));
        }
        open.append(&mut direct);
    }
}

/// The states that may remain after a loss.
fn survivors(loss: &Loss, progress: &Progress, trail: Option<&Rc<Trail>>) -> Vec<Option<State>> {
    let mut states = vec![None];
    if loss.extent == Extent::Latest {
        let mut step = trail;
        while let Some(trail) = step.filter(|trail| trail.completed + LATEST >= loss.from) {
            states.push(trail.state.clone());
            step = trail.before.as_ref();
        }
        states.extend(step.map(|trail| trail.state.clone()));
        states.push(progress.state.clone());
    }
    states.dedup();
    states
}

/// The search gives up beyond this many partial orders.
const MAX_VISITED: usize = 100_000;
/// The most that a replica can lag when it is cut off, in microseconds.
const LATEST: u64 = 2_000_000;
