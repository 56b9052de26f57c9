mod joined;
mod repeated;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;

const LANE: u16 = 7;
const MAX_LOAD: u32 = 10;
const FAR: Duration = Duration::from_secs(60);

fn queue() -> CombiningQueue<u16, u64> {
    CombiningQueue::new(MAX_LOAD)
}

impl<L: Clone + Eq + Hash, T> CombiningQueue<L, T> {
    fn is_empty(&self) -> bool {
        lock(&self.state).lanes.is_empty()
    }

    /// Waits without an end, and returns the id.
    fn wait_on(&self, lane: &L, load: u32, decision: T) -> Option<u64> {
        self.wait(lane, load, 0, Instant::now() + FAR, |_| decision).map(|entered| entered.id)
    }

    fn join_last(&self, lane: &L, join: impl FnOnce(&mut T, u64) -> bool) -> Option<u64> {
        self.join(lane, Instant::now() + FAR * 2, join)
    }

    fn begin(&self, lane: &L) -> bool {
        lock(&self.state).begin(lane)
    }

    fn taken(&self, lane: &L) -> Vec<T> {
        self.take(lane).decisions
    }

    /// Ends a call, and takes the decisions of the one in its place.
    fn end_and_take(&self, lane: &L, decisions: usize) -> Vec<T> {
        if self.end(lane, decisions) { self.taken(lane) } else { Vec::new() }
    }

    fn begin_early(&self, lane: &L, id: u64) -> Option<Vec<T>> {
        lock(&self.state).begin_early(lane, id, self.max_load)
    }

    /// The calls of a lane, and how many decisions wait there.
    fn counts(&self, lane: &L) -> (usize, usize) {
        lock(&self.state).lanes.get(lane).map_or((0, 0), |own| (own.calls, own.waiting.len()))
    }
}

impl CombiningQueue<u16, Vec<u64>> {
    /// Checks what is counted against what waits.
    fn assert_counts(&self) {
        let state = lock(&self.state);
        let Some(own) = state.lanes.get(&LANE) else { return };
        let (mut load, mut joined, mut count) = (0, 0, 0);
        for waiting in &own.waiting {
            let others = waiting.decision.len().checked_sub(1).unwrap();
            assert_eq!(waiting.joined, others);
            let of_others = others as u64 * u64::from(1 + waiting.load / 16);
            assert!(of_others == 0 || of_others + u64::from(waiting.load) <= self.max_load.into());
            load += u64::from(waiting.load) + of_others;
            joined += of_others;
            count += 1 + others;
        }
        assert_eq!((own.load, own.joined, own.count), (load, joined, count));
        assert!(joined <= u64::from(self.max_load) / 4);
    }
}

/// A queue with all calls of the lane on their way, and decisions 0, 1, 2 and so on that wait, with these loads.
fn waiting(loads: &[u32]) -> (CombiningQueue<u16, u64>, Vec<u64>) {
    let queue = queue();
    for _ in 0..MAX_CALLS {
        assert!(queue.begin(&LANE));
    }
    assert!(!queue.begin(&LANE));
    let ids = (0..).zip(loads).map(|(decision, load)| queue.wait_on(&LANE, *load, decision).unwrap());
    let ids = ids.collect();
    (queue, ids)
}

#[test]
fn without_calls_nothing_waits_and_nothing_is_kept() {
    let queue = queue();
    for _ in 0..3 {
        assert!(queue.begin(&LANE));
        assert!(queue.end_and_take(&LANE, 1).is_empty());
        assert!(queue.is_empty());
    }
    // A call that ends between the two questions makes room.
    assert_eq!(queue.wait_on(&LANE, 1, 5), None);
    assert!(queue.end_and_take(&LANE, 1).is_empty() && queue.is_empty());
}

#[test]
fn what_waits_leaves_in_order_when_a_call_ends() {
    let (queue, _) = waiting(&[1, 1, 1]);
    assert_eq!(queue.end_and_take(&LANE, 1), [0, 1, 2]);
    assert_eq!(queue.counts(&LANE), (MAX_CALLS, 0));
    assert!(!queue.begin(&LANE), "the call took the place of the one that ended");
    for _ in 0..MAX_CALLS {
        assert!(queue.end_and_take(&LANE, 1).is_empty());
    }
    assert!(queue.is_empty());
}

#[test]
fn calls_are_bounded_by_load() {
    let (queue, _) = waiting(&[4, 6, 1, 11, 10, 3, 3]);
    let calls: Vec<_> = (0..6).map(|_| queue.end_and_take(&LANE, 1)).collect();
    assert_eq!(calls[..5], [&[0_u64, 1][..], &[2], &[3], &[4], &[5, 6]]);
    assert_eq!(queue.counts(&LANE), (MAX_CALLS - 1, 0));
}

#[test]
fn decision_that_leaves_is_in_no_call() {
    let (queue, ids) = waiting(&[1, 1, 1]);
    assert!(queue.leave(&LANE, ids[1], |decision| *decision == 1));
    assert!(!queue.leave(&LANE, ids[1], |decision| *decision == 1));
    assert_eq!(queue.end_and_take(&LANE, 1), [0, 2]);
    assert!(!queue.leave(&LANE, ids[0], |_| true), "it is on its way");
    assert_eq!(queue.begin_early(&LANE, ids[0]), None);
}

#[test]
fn early_call_takes_the_first_without_gap() {
    let (queue, ids) = waiting(&[6, 6, 6]);
    assert_eq!(queue.begin_early(&LANE, ids[2]), Some(vec![0]));
    assert_eq!(queue.begin_early(&LANE, ids[1]), Some(vec![1]));
    assert_eq!(queue.counts(&LANE), (MAX_CALLS + 2, 1));
    // The next call waits until fewer calls are on their way.
    for _ in 0..2 {
        assert!(queue.end_and_take(&LANE, 1).is_empty());
    }
    assert_eq!(queue.end_and_take(&LANE, 1), [2]);
}

#[test]
fn only_parallel_calls_see_later_arrivals() {
    let (queue, _) = waiting(&[1, 1]);
    assert_eq!((queue.arrived(&LANE), queue.arrived(&8)), (2, 0));
    assert!(queue.end(&LANE, 1), "a call begins in its place");
    assert_eq!(queue.arrived(&LANE), 2);
    assert!(queue.end(&LANE, 1), "and in that of the other, for the second if the first takes one");
    assert_eq!(queue.arrived(&LANE), 0, "both are about to leave");
    assert_eq!(queue.taken(&LANE), [0, 1]);
    assert!(!queue.end(&LANE, 2));
    assert_eq!(queue.arrived(&LANE), 0);
    assert!(!queue.end(&LANE, 1) && queue.is_empty());
}

#[test]
fn call_as_large_as_the_last_one_leaves() {
    let (queue, _) = waiting(&[1, 1]);
    assert_eq!(queue.end_and_take(&LANE, 1), [0, 1]);
    queue.wait_on(&LANE, 1, 2).unwrap();
    assert!(queue.end(&LANE, 1));
    assert_eq!(queue.arrived(&LANE), 1);
    queue.wait_on(&LANE, 1, 3).unwrap();
    assert_eq!((queue.arrived(&LANE), queue.taken(&LANE)), (0, vec![2, 3]));
    // A task that finds nothing left is no call.
    assert!(queue.taken(&LANE).is_empty() && !queue.end(&LANE, 2));
    queue.wait_on(&LANE, 1, 4).unwrap();
    assert_eq!(queue.arrived(&LANE), 1);
}

#[test]
fn full_call_waits_for_no_more() {
    let (queue, _) = waiting(&[MAX_LOAD - 1]);
    assert_eq!(queue.arrived(&LANE), 1);
    queue.wait(&LANE, 1, 0, Instant::now() + FAR, |_| 1).unwrap();
    assert_eq!(queue.arrived(&LANE), 0);
}

#[test]
fn lanes_do_not_wait_for_each_other() {
    let (queue, _) = waiting(&[1]);
    assert!(queue.begin(&8));
    assert!(queue.end_and_take(&8, 1).is_empty());
    assert_eq!(queue.end_and_take(&LANE, 1), [0]);
}

#[test]
fn beside_several_decisions_a_call_begins_for_all_that_arrive() {
    let (queue, _) = waiting(&[1, 1]);
    let wait = |decision| queue.wait(&LANE, 1, 0, Instant::now() + FAR, |_| decision).unwrap().begins_call;
    assert_eq!(queue.end_and_take(&LANE, 1), [0, 1]);
    assert!(queue.end_and_take(&LANE, 1).is_empty());
    assert_eq!(queue.counts(&LANE), (1, 0));

    assert!(!queue.begin(&LANE) && wait(2));
    assert!(!queue.begin(&LANE) && !wait(3) && !wait(4), "one call for all of them");
    assert_eq!(queue.counts(&LANE), (MAX_CALLS, 3));
    assert_eq!(queue.taken(&LANE), [2, 3, 4]);

    // If another call ends before, it has taken them.
    assert!(queue.end_and_take(&LANE, 2).is_empty() && wait(5));
    assert_eq!(queue.end_and_take(&LANE, 2), [5]);
    assert!(queue.taken(&LANE).is_empty() && queue.end_and_take(&LANE, 1).is_empty());

    // Beside a call with one decision, and without any call, a decision leaves at once.
    assert_eq!(queue.counts(&LANE), (1, 0));
    assert!(queue.begin(&LANE));
    for _ in 0..MAX_CALLS {
        assert!(queue.end_and_take(&LANE, 1).is_empty());
    }
    assert!(queue.begin(&LANE) && queue.end_and_take(&LANE, 1).is_empty() && queue.is_empty());
}

#[test]
fn shared_call_counts_until_it_ends() {
    let (queue, _) = waiting(&[1, 1]);
    assert_eq!(queue.end_and_take(&LANE, 1), [0, 1]);
    // A call of one decision begins after it, and ends before it.
    queue.wait_on(&LANE, 1, 2).unwrap();
    assert_eq!(queue.end_and_take(&LANE, 1), [2]);
    assert!(queue.end_and_take(&LANE, 1).is_empty() && !queue.begin(&LANE));
    assert!(queue.end_and_take(&LANE, 2).is_empty() && queue.begin(&LANE) && queue.begin(&LANE));
}

/// Random decisions that arrive, join, leave, and are sent early, under random ends of calls.
#[test]
fn no_schedule_loses_repeats_or_reorders_a_decision() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..2_000 {
        let queue = CombiningQueue::<u16, Vec<u64>>::new(16);
        // The decisions of each call on its way, and the calls whose decisions are not taken yet.
        let (mut on_their_way, mut about_to_leave) = (Vec::new(), 0);
        let (mut waiting, mut left) = (BTreeMap::new(), BTreeSet::new());
        let (mut next, mut last_sent) = (0, None);
        for _ in 0..100 {
            let sent = match rng.u64(..6) {
                0 | 1 => {
                    let decision = next;
                    next += 1;
                    let load = rng.u32(..18);
                    let latest = Instant::now() + FAR;
                    match queue.wait(&LANE, load, 0, latest, |_| vec![decision]) {
                        None => {
                            assert!(waiting.is_empty(), "it overtakes");
                            vec![vec![decision]]
                        }
                        Some(Entered { id, begins_call, .. }) => {
                            waiting.insert(decision, id);
                            about_to_leave += usize::from(begins_call);
                            queue.assert_counts();
                            continue;
                        }
                    }
                }
                2 => {
                    let decision = next;
                    next += 1;
                    let joined = queue.join_last(&LANE, |last, _| {
                        last.push(decision);
                        true
                    });
                    waiting.extend(joined.map(|id| (decision, id)));
                    queue.assert_counts();
                    continue;
                }
                3 if !on_their_way.is_empty() => {
                    let ended = rng.usize(..on_their_way.len());
                    if rng.u64(..2) == 0 {
                        about_to_leave += usize::from(queue.end(&LANE, on_their_way.swap_remove(ended)));
                        continue;
                    }
                    queue.end_and_take(&LANE, on_their_way.swap_remove(ended))
                }
                4 if about_to_leave > 0 => {
                    about_to_leave -= 1;
                    let taken = queue.taken(&LANE);
                    if taken.is_empty() { queue.end_and_take(&LANE, 1) } else { taken }
                }
                _ => {
                    let Some((&decision, &id)) = waiting.iter().nth(rng.usize(..4)) else {
                        continue;
                    };
                    if rng.u64(..3) > 0 {
                        let remove = |own: &mut Vec<u64>| {
                            let before = own.len();
                            own.retain(|other| *other != decision);
                            own.len() < before
                        };
                        assert!(queue.leave(&LANE, id, remove) && !queue.leave(&LANE, id, remove));
                        waiting.remove(&decision);
                        left.insert(decision);
                        queue.assert_counts();
                        continue;
                    }
                    queue.begin_early(&LANE, id).unwrap()
                }
            };
            queue.assert_counts();
            let sent: Vec<_> = sent.into_iter().flatten().collect();
            if !sent.is_empty() {
                on_their_way.push(sent.len());
            }
            for decision in sent {
                waiting.remove(&decision);
                assert!(!left.contains(&decision) && last_sent < Some(decision), "{decision}");
                last_sent = Some(decision);
            }
            let calls = on_their_way.len() + about_to_leave;
            assert_eq!(queue.counts(&LANE).0, calls);
            assert_eq!(queue.waiting(Vec::len), waiting.len());
            assert!(waiting.is_empty() || calls >= MAX_CALLS, "it waits in vain");
        }
    }
}

#[test]
fn one_task_watches_over_what_waits_in_all_lanes() {
    let (queue, _) = waiting(&[]);
    for _ in 0..MAX_CALLS {
        assert!(queue.begin(&8));
    }
    let start = Instant::now();
    let at = |millis| start + Duration::from_millis(millis);
    let wait =
        |lane, latest, decision| queue.wait(&lane, 6, 0, at(latest), |_| decision).unwrap().is_unwatched;
    assert!(wait(LANE, 10, 0));
    assert!(!wait(LANE, 30, 1) && !wait(8, 11, 2) && !wait(LANE, 20, 3));

    // It looks when the first is due, and then when the next one is.
    let due = queue.due(at(10), at(10));
    assert_eq!((due.calls, due.next), (vec![(LANE, vec![0])], Some(at(11))));
    let due = queue.due(at(11), at(12));
    assert_eq!((due.calls, due.next), (vec![(8, vec![2])], Some(at(20))));
    // Decisions that arrived before leave as well, in their order.
    let due = queue.due(at(20), at(20));
    assert_eq!((due.calls, due.next), (vec![(LANE, vec![1]), (LANE, vec![3])], None));
    assert_eq!((queue.counts(&LANE), queue.counts(&8)), ((MAX_CALLS + 3, 0), (MAX_CALLS + 1, 0)));

    // Without a task another one begins, and one that is due before takes its place.
    assert!(wait(LANE, 50, 4) && wait(LANE, 40, 5));
    let due = queue.due(at(40), at(40));
    assert_eq!((due.calls.len(), due.next), (2, None));
    let due = queue.due(at(50), at(50));
    assert!(due.calls.is_empty() && due.next.is_none());
}

#[test]
fn what_nothing_watches_over_is_removed() {
    let (queue, _) = waiting(&[1, 1]);
    assert_eq!(queue.clear(), [0, 1]);
    assert_eq!(queue.counts(&LANE), (MAX_CALLS, 0));
    assert!(queue.wait(&LANE, 1, 0, Instant::now() + FAR, |_| 2).unwrap().is_unwatched);
    assert_eq!(queue.clear(), [2]);
    for _ in 0..MAX_CALLS {
        assert!(queue.end_and_take(&LANE, 1).is_empty());
    }
    assert!(queue.is_empty());
}
