//! The search for an order.

use std::collections::HashSet;
use std::ops::Range;
use std::rc::Rc;

use portcullis_core::{Policy, State};

use super::super::super::{Call, KeyId, Op};
use super::super::clock::Clock;
use super::super::{Extent, Loss};
use super::at;
use super::doubt::Doubt;
use super::step;

pub(super) enum Verdict {
    Follows,
    TooMuchInDoubt,
    /// At this answer, or before.
    Contradicts(usize),
}

pub(super) struct Search<'a> {
    policy: Policy,
    answered: &'a [&'a Op],
    /// Answers of one instant, whose order nobody knows.
    groups: Vec<Range<usize>>,
    doubt: Doubt<'a>,
    losses: &'a [Loss],
    thorough: bool,
    seen: HashSet<Place>,
}

/// How far an order has come.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    group: usize,
    /// Which of the group are placed.
    placed: u64,
    /// Which of the doubtful were charged.
    charged: u64,
    losses: usize,
    state: Option<State>,
}

/// The states on the way, the latest first.
struct Trail {
    at: u64,
    /// When the answer was complete.
    completed: u64,
    state: Option<State>,
    before: Option<Rc<Trail>>,
}

type Node = (Place, Option<Rc<Trail>>);

impl<'a> Search<'a> {
    /// A `thorough` search tries the calls in doubt before every answer, else only before those that do not follow
    /// without. It is needed where a charge and a refund in doubt cancel each other in the figures of an answer, and a
    /// later answer tells them apart.
    pub(super) fn new(
        spot: KeyId,
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
        let doubt = Doubt::new(spot.family, clock, answered, doubtful, links);
        let (policy, groups) = (spot.family.policy(), groups.collect());
        Self { policy, answered, groups, doubt, losses, thorough, seen: HashSet::new() }
    }

    pub(super) fn run(mut self) -> Verdict {
        if self.doubt.is_too_much() || self.groups.iter().any(|group| group.len() > 64) {
            return Verdict::TooMuchInDoubt;
        }
        let mut furthest = 0;
        let start = Place { group: 0, placed: 0, charged: 0, losses: 0, state: None };
        let mut open = vec![(start, None)];
        while let Some((place, trail)) = open.pop() {
            let Some(group) = self.groups.get(place.group) else { return Verdict::Follows };
            if !self.seen.insert(place.clone()) {
                continue;
            }
            if self.seen.len() > MOST_PLACES {
                return Verdict::TooMuchInDoubt;
            }
            furthest = furthest.max(group.start);
            self.expand(&place, trail.as_ref(), &mut open);
        }
        Verdict::Contradicts(furthest)
    }

    /// Adds what may come next, the likeliest last.
    fn expand(&self, place: &Place, trail: Option<&Rc<Trail>>, open: &mut Vec<Node>) {
        let group = self.groups[place.group].clone();
        let is_left = |index: &usize| place.placed & (1 << (index - group.start)) == 0;
        let left: Vec<usize> = group.clone().filter(is_left).collect();
        if let Some(loss) = self.losses.get(place.losses)
            && left.iter().all(|index| self.answered[*index].completed >= loss.from)
        {
            let next = |state| Place { losses: place.losses + 1, state, ..place.clone() };
            let states = survivors(loss, place, trail);
            open.extend(states.into_iter().map(|state| (next(state), trail.cloned())));
            if left.iter().any(|index| self.answered[*index].invoked > loss.to) {
                return;
            }
        }
        let mut direct: Vec<Node> = Vec::new();
        for index in &left {
            let op = self.answered[*index];
            let mut state = place.state.clone();
            if !step::follows(&self.policy, op, &mut state) {
                continue;
            }
            let placed = place.placed | (1 << (*index - group.start));
            let whole = placed.count_ones() as usize == group.len();
            let (group, placed) = if whole { (place.group + 1, 0) } else { (place.group, placed) };
            let never_changes = matches!(op.call, Call::Check(_)) && state == place.state;
            let (at, completed, before) = (at(op), op.completed, trail.cloned());
            let trail = Trail { at, completed, state: state.clone(), before };
            let node = (Place { group, placed, state, ..place.clone() }, Some(Rc::new(trail)));
            if never_changes && !self.thorough {
                // A peek or a denial changes nothing in any place of the order; a correction may in another one.
                open.push(node);
                return;
            }
            direct.push(node);
        }
        if direct.is_empty() || self.thorough {
            let since = trail.map_or(0, |trail| trail.at);
            let changes = self.doubt.changes(&self.policy, place.charged, place.state.as_ref(), since, &left);
            let next = |(charged, state)| (Place { charged, state, ..place.clone() }, trail.cloned());
            open.extend(changes.into_iter().map(next));
        }
        open.append(&mut direct);
    }
}

/// What may be left after a loss.
fn survivors(loss: &Loss, place: &Place, trail: Option<&Rc<Trail>>) -> Vec<Option<State>> {
    let mut states = vec![None];
    if loss.extent == Extent::Latest {
        let mut step = trail;
        while let Some(trail) = step.filter(|trail| trail.completed + LATEST >= loss.from) {
            states.push(trail.state.clone());
            step = trail.before.as_ref();
        }
        states.extend(step.map(|trail| trail.state.clone()));
        states.push(place.state.clone());
    }
    states.dedup();
    states
}

/// Beyond this many nobody waits for the end.
const MOST_PLACES: usize = 100_000;
/// A replica is not farther behind when it is cut off, in microseconds.
const LATEST: u64 = 2_000_000;
