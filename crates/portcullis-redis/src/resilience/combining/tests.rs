mod joined;
mod repeated;
mod schedules;

use std::cell::RefCell;
use std::time::Duration;

use super::*;

const LANE: u16 = 7;
const MAX_LOAD: u32 = 10;
const FAR: Duration = Duration::from_secs(60);

/// A queue, and its turns.
struct Calls<T> {
    queue: CombiningQueue<u16, T>,
    turns: RefCell<Vec<(u16, Turn)>>,
}

/// A check that waits.
struct Waits {
    id: u64,
    is_unwatched: bool,
    begins_call: bool,
}

fn queue() -> Calls<u64> {
    Calls::new(MAX_LOAD)
}

fn tag(number: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(number)
}

impl<T> Calls<T> {
    fn new(max_load: u32) -> Self {
        Self { queue: CombiningQueue::new(max_load), turns: RefCell::default() }
    }

    fn is_empty(&self) -> bool {
        lock(&self.queue.state).lanes.is_empty()
    }

    /// Keeps a turn, if there is one.
    fn keep(&self, lane: u16, turn: Option<Turn>) -> bool {
        let is_turn = turn.is_some();
        self.turns.borrow_mut().extend(turn.map(|turn| (lane, turn)));
        is_turn
    }

    /// The turn of a call on its way with this number of checks, or with several; 0 for a turn that is about to take what waits. If
    /// there are two, the first one, or the last.
    fn turn(&self, lane: u16, checks: usize, is_last: bool) -> Option<Turn> {
        let is_it = |(own, turn): &(u16, Turn)| *own == lane && turn.least_checks() == checks.min(2);
        let mut turns = self.turns.borrow_mut();
        let position = if is_last { turns.iter().rposition(is_it) } else { turns.iter().position(is_it) };
        position.map(|position| turns.remove(position).1)
    }

    /// `None` if the check leaves at once.
    fn wait(
        &self,
        lane: u16,
        load: u32,
        tag: Option<NonZeroU64>,
        latest: Instant,
        check: T,
    ) -> Option<Waits> {
        match self.queue.enter(&lane, (load, tag, latest), check, |check, _| (check, ())) {
            Entered::Now(turn, _) => {
                self.keep(lane, Some(turn));
                None
            }
            Entered::Waits { id, is_unwatched, begins, .. } => {
                Some(Waits { id, is_unwatched, begins_call: self.keep(lane, begins) })
            }
        }
    }

    /// A tag that no other check has.
    fn other_tag(&self) -> Option<NonZeroU64> {
        tag(1_000 + lock(&self.queue.state).next_id)
    }

    /// Waits without an end, and returns the id.
    fn wait_on(&self, lane: u16, load: u32, check: T) -> Option<u64> {
        self.wait(lane, load, self.other_tag(), Instant::now() + FAR, check).map(|waits| waits.id)
    }

    /// Joins the last check that waits, with its tag.
    fn join_last(&self, join: impl FnOnce(&mut T, u64) -> bool) -> Option<u64> {
        let last = lock(&self.queue.state).lanes.get(&LANE)?.waiting().last()?.tag?;
        self.queue.join(&LANE, last, Instant::now() + FAR * 2, |own, id| join(own, id).then_some(id))
    }

    fn begin(&self, lane: u16) -> bool {
        let turn = lock(&self.queue.state).lanes.entry(lane).or_default().begin_alone();
        self.keep(lane, turn)
    }

    fn arrived(&self) -> usize {
        self.queue.arrived(&LANE)
    }

    fn take(&self, lane: u16) -> (Vec<T>, bool) {
        let mut turn = self.turn(lane, 0, false).unwrap();
        let Taken { checks, begins } = self.queue.take(&lane, &mut turn);
        self.keep(lane, Some(turn));
        (checks, self.keep(lane, begins))
    }

    fn taken(&self, lane: u16) -> Vec<T> {
        self.take(lane).0
    }

    /// Ends a call with this number of checks. Returns whether another one begins.
    fn end(&self, lane: u16, checks: usize) -> bool {
        let turn = self.turn(lane, checks, false).unwrap();
        self.keep(lane, self.queue.end(&lane, turn))
    }

    fn end_last(&self, lane: u16, checks: usize) -> bool {
        let turn = self.turn(lane, checks, true).unwrap();
        self.keep(lane, self.queue.end(&lane, turn))
    }

    /// Ends a call, and takes the checks of the one in its place.
    fn end_and_take(&self, lane: u16, checks: usize) -> Vec<T> {
        if self.end(lane, checks) { self.taken(lane) } else { Vec::new() }
    }

    /// Ends the last call with this number of checks, and returns whether its turn continues.
    fn continues(&self, lane: u16, checks: usize) -> bool {
        let mut turn = self.turn(lane, checks, true).unwrap();
        let continues = self.queue.continues(&lane, &mut turn);
        self.keep(lane, Some(turn));
        continues
    }

    fn take_early(&self, lane: u16, id: u64) -> Option<Vec<T>> {
        let max_load = self.queue.max_load;
        let early = lock(&self.queue.state).lanes.get_mut(&lane)?.take_early(id, max_load);
        early.map(|(turn, checks)| {
            self.keep(lane, Some(turn));
            checks
        })
    }

    fn due(&self, watch: Instant, now: Instant) -> (Vec<(u16, Vec<T>)>, Option<Instant>) {
        let Due { calls, next } = self.queue.due(watch, now);
        let calls = calls.into_iter().map(|(lane, turn, checks)| {
            self.keep(lane, Some(turn));
            (lane, checks)
        });
        (calls.collect(), next)
    }

    /// The turns of a lane, and how many entries wait there.
    fn counts(&self, lane: u16) -> (usize, usize) {
        lock(&self.queue.state).lanes.get(&lane).map_or((0, 0), |own| (own.turns(), own.waiting().count()))
    }
}

impl CombiningQueue<u16, Vec<u64>> {
    /// Checks what is counted against what waits, and that it has a turn.
    fn assert_counts(&self) {
        let state = lock(&self.state);
        let Some(own) = state.lanes.get(&LANE) else { return };
        own.assert_bounded(self.max_load, Vec::len);
        assert!(own.is_served() && own.collecting() <= 1);
    }
}

/// A queue with all calls of the lane on their way, and checks 0, 1, 2 and so on that wait, with these loads.
fn waiting(loads: &[u32]) -> (Calls<u64>, Vec<u64>) {
    let queue = queue();
    for _ in 0..MAX_CALLS {
        assert!(queue.begin(LANE));
    }
    assert!(!queue.begin(LANE));
    let ids = (0..).zip(loads).map(|(check, load)| queue.wait_on(LANE, *load, check).unwrap());
    let ids = ids.collect();
    (queue, ids)
}

#[test]
fn without_calls_nothing_waits_and_nothing_is_kept() {
    let queue = queue();
    for _ in 0..3 {
        assert!(queue.begin(LANE));
        assert!(queue.end_and_take(LANE, 1).is_empty());
        assert!(queue.is_empty());
    }
    // A call that ends between the two questions makes room.
    assert_eq!(queue.wait_on(LANE, 1, 5), None);
    assert!(queue.end_and_take(LANE, 1).is_empty() && queue.is_empty());
}

#[test]
fn what_waits_leaves_in_order_when_a_call_ends() {
    let (queue, _) = waiting(&[1, 1, 1]);
    assert_eq!(queue.end_and_take(LANE, 1), [0, 1, 2]);
    assert_eq!(queue.counts(LANE), (MAX_CALLS, 0));
    assert!(!queue.begin(LANE), "the call took the place of the one that ended");
    for checks in [1, 3] {
        assert!(queue.end_and_take(LANE, checks).is_empty());
    }
    assert!(queue.is_empty());
}

#[test]
fn calls_are_bounded_by_load() {
    let (queue, _) = waiting(&[4, 6, 1, 11, 10, 3, 3]);
    let calls: Vec<_> = (0..5).map(|_| queue.end_and_take(LANE, 1)).collect();
    assert_eq!(calls, [&[0_u64, 1][..], &[2], &[3], &[4], &[5, 6]]);
    assert!(queue.end_and_take(LANE, 2).is_empty());
    assert_eq!(queue.counts(LANE), (MAX_CALLS - 1, 0));
}

#[test]
fn check_that_leaves_is_in_no_call() {
    let (queue, ids) = waiting(&[1, 1, 1]);
    let leave = || queue.queue.leave(&LANE, ids[1], |check| *check == 1);
    assert!(leave() && !leave());
    assert_eq!(queue.end_and_take(LANE, 1), [0, 2]);
    assert!(!queue.queue.leave(&LANE, ids[0], |_| true), "it is on its way");
    assert_eq!(queue.take_early(LANE, ids[0]), None);
}

#[test]
fn early_call_takes_the_first_without_gap() {
    let (queue, ids) = waiting(&[6, 6, 6]);
    assert_eq!(queue.take_early(LANE, ids[2]), Some(vec![0]));
    assert_eq!(queue.take_early(LANE, ids[1]), Some(vec![1]));
    assert_eq!(queue.counts(LANE), (MAX_CALLS + 2, 1));
    // The next call waits until fewer calls are on their way.
    for _ in 0..2 {
        assert!(queue.end_and_take(LANE, 1).is_empty());
    }
    assert_eq!(queue.end_and_take(LANE, 1), [2]);
}

#[test]
fn one_turn_takes_what_arrives() {
    let (queue, _) = waiting(&[1, 1]);
    assert_eq!((queue.arrived(), queue.queue.arrived(&8)), (2, 0));
    assert!(queue.end(LANE, 1), "a call begins in its place");
    assert_eq!(queue.arrived(), 2);
    assert!(!queue.end(LANE, 1), "the call that begins takes both");
    assert_eq!((queue.arrived(), queue.begin(LANE)), (2, false));
    assert_eq!(queue.taken(LANE), [0, 1]);
    assert_eq!(queue.arrived(), 0);
    assert!(!queue.end(LANE, 2) && queue.is_empty());
}

#[test]
fn turn_that_finds_nothing_ends() {
    let (queue, ids) = waiting(&[1]);
    assert!(queue.end(LANE, 1) && queue.queue.leave(&LANE, ids[0], |_| true));
    assert!(queue.taken(LANE).is_empty() && !queue.continues(LANE, 0));
    // What arrives meanwhile leaves in a turn after it.
    assert!(!queue.wait(LANE, 1, None, Instant::now() + FAR, 1).unwrap().begins_call);
    assert_eq!(queue.end_and_take(LANE, 0), [1]);
    assert_eq!(queue.counts(LANE), (MAX_CALLS, 0));
}

#[test]
fn call_as_large_as_the_last_one_leaves() {
    let (queue, _) = waiting(&[1, 1]);
    assert_eq!(queue.end_and_take(LANE, 1), [0, 1]);
    queue.wait_on(LANE, 1, 2).unwrap();
    assert!(queue.end(LANE, 1));
    assert_eq!(queue.arrived(), 1);
    queue.wait_on(LANE, 1, 3).unwrap();
    assert_eq!((queue.arrived(), queue.taken(LANE)), (0, vec![2, 3]));
    assert!(!queue.end(LANE, 2));
    queue.wait_on(LANE, 1, 4).unwrap();
    assert_eq!(queue.arrived(), 1);
}

#[test]
fn full_call_waits_for_no_more() {
    let (queue, _) = waiting(&[MAX_LOAD - 1]);
    assert_eq!(queue.arrived(), 1);
    queue.wait_on(LANE, 1, 1).unwrap();
    assert_eq!(queue.arrived(), 0);
}

#[test]
fn lanes_do_not_wait_for_each_other() {
    let (queue, _) = waiting(&[1]);
    assert!(queue.begin(8));
    assert!(queue.end_and_take(8, 1).is_empty());
    assert_eq!(queue.end_and_take(LANE, 1), [0]);
}

#[test]
fn parallel_call_takes_all_that_arrive() {
    let (queue, _) = waiting(&[1, 1]);
    let wait = |check| queue.wait(LANE, 1, None, Instant::now() + FAR, check).unwrap().begins_call;
    assert_eq!(queue.end_and_take(LANE, 1), [0, 1]);
    assert!(queue.end_and_take(LANE, 1).is_empty());
    assert_eq!(queue.counts(LANE), (1, 0));

    assert!(!queue.begin(LANE) && wait(2));
    assert!(!queue.begin(LANE) && !wait(3) && !wait(4), "one call for all of them");
    assert_eq!(queue.counts(LANE), (MAX_CALLS, 3));
    assert_eq!(queue.taken(LANE), [2, 3, 4]);

    // If the other call ends before, it still takes them.
    assert!(queue.end_and_take(LANE, 2).is_empty() && wait(5));
    assert!(!queue.end(LANE, 3));
    assert_eq!(queue.taken(LANE), [5]);

    // Beside a call with one check, and without any call, a check leaves at once.
    assert_eq!(queue.counts(LANE), (1, 0));
    assert!(queue.begin(LANE));
    for _ in 0..MAX_CALLS {
        assert!(queue.end_and_take(LANE, 1).is_empty());
    }
    assert!(queue.begin(LANE) && queue.end_and_take(LANE, 1).is_empty() && queue.is_empty());
}

#[test]
fn shared_call_counts_until_it_ends() {
    let (queue, _) = waiting(&[1, 1]);
    assert_eq!(queue.end_and_take(LANE, 1), [0, 1]);
    // A call of one check begins after it, and ends before it.
    queue.wait_on(LANE, 1, 2).unwrap();
    assert_eq!(queue.end_and_take(LANE, 1), [2]);
    assert!(queue.end_and_take(LANE, 1).is_empty() && !queue.begin(LANE));
    assert!(queue.end_and_take(LANE, 2).is_empty() && queue.begin(LANE) && queue.begin(LANE));
}

#[test]
fn one_task_watches_over_what_waits_in_all_lanes() {
    let (queue, _) = waiting(&[]);
    for _ in 0..MAX_CALLS {
        assert!(queue.begin(8));
    }
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let wait = |lane, latest, check| queue.wait(lane, 6, None, at(latest), check).unwrap().is_unwatched;
    assert!(wait(LANE, 10, 0));
    assert!(!wait(LANE, 30, 1) && !wait(8, 11, 2) && !wait(LANE, 20, 3));

    // It looks when the first is due, and then when the next one is.
    let due = queue.due(at(10), at(10));
    assert_eq!(due, (vec![(LANE, vec![0])], Some(at(11))));
    let due = queue.due(at(11), at(12));
    assert_eq!(due, (vec![(8, vec![2])], Some(at(20))));
    // Checks that arrived before leave as well, in their order.
    let due = queue.due(at(20), at(20));
    assert_eq!(due, (vec![(LANE, vec![1]), (LANE, vec![3])], None));
    assert_eq!((queue.counts(LANE), queue.counts(8)), ((MAX_CALLS + 3, 0), (MAX_CALLS + 1, 0)));

    // Without a task another one begins, and one that is due before takes its place.
    assert!(wait(LANE, 50, 4) && wait(LANE, 40, 5));
    let (calls, next) = queue.due(at(40), at(40));
    assert_eq!((calls.len(), next), (2, None));
    assert_eq!(queue.due(at(50), at(50)), (vec![], None));
}

#[test]
fn what_nothing_watches_over_is_removed() {
    let (queue, _) = waiting(&[1, 1]);
    assert_eq!(queue.queue.clear(), [0, 1]);
    assert_eq!(queue.counts(LANE), (MAX_CALLS, 0));
    assert!(queue.wait(LANE, 1, None, Instant::now() + FAR, 2).unwrap().is_unwatched);
    assert_eq!(queue.queue.clear(), [2]);
    for _ in 0..MAX_CALLS {
        assert!(queue.end_and_take(LANE, 1).is_empty());
    }
    assert!(queue.is_empty());
}
