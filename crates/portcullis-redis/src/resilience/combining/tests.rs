use std::collections::{BTreeMap, BTreeSet};

use super::*;

const LANE: u16 = 7;
const MAX_LOAD: u32 = 10;

fn queue() -> CombiningQueue<u16, u64> {
    CombiningQueue::new(MAX_LOAD)
}

impl<L: Clone + Eq + Hash, T> CombiningQueue<L, T> {
    fn is_empty(&self) -> bool {
        self.state().lanes.is_empty()
    }

    /// The calls of a lane, and how many decisions wait there.
    fn counts(&self, lane: &L) -> (usize, usize) {
        self.state().lanes.get(lane).map_or((0, 0), |own| (own.calls, own.waiting.len()))
    }
}

/// A queue with all calls of the lane on their way, and decisions 0, 1, 2 and so on that wait, with these loads.
fn waiting(loads: &[u32]) -> (CombiningQueue<u16, u64>, Vec<u64>) {
    let queue = queue();
    for _ in 0..MAX_CALLS {
        assert!(queue.begin(&LANE));
    }
    assert!(!queue.begin(&LANE));
    let ids = (0..).zip(loads).map(|(decision, load)| queue.wait(&LANE, *load, decision).unwrap());
    let ids = ids.collect();
    (queue, ids)
}

#[test]
fn without_calls_nothing_waits_and_nothing_is_kept() {
    let queue = queue();
    for _ in 0..3 {
        assert!(queue.begin(&LANE));
        assert!(queue.end(&LANE).is_empty());
        assert!(queue.is_empty());
    }
    // A call that ends between the two questions makes room.
    assert_eq!(queue.wait(&LANE, 1, 5), Err(5));
    assert!(queue.end(&LANE).is_empty() && queue.is_empty());
}

#[test]
fn what_waits_leaves_in_order_when_a_call_ends() {
    let (queue, _) = waiting(&[1, 1, 1]);
    assert_eq!(queue.end(&LANE), [0, 1, 2]);
    assert_eq!(queue.counts(&LANE), (MAX_CALLS, 0));
    assert!(!queue.begin(&LANE), "the call took the place of the one that ended");
    for _ in 0..MAX_CALLS {
        assert!(queue.end(&LANE).is_empty());
    }
    assert!(queue.is_empty());
}

#[test]
fn a_call_is_bounded_by_load_and_has_a_decision() {
    let (queue, _) = waiting(&[4, 6, 1, 11, 10, 3, 3]);
    let calls: Vec<_> = (0..6).map(|_| queue.end(&LANE)).collect();
    assert_eq!(calls[..5], [&[0_u64, 1][..], &[2], &[3], &[4], &[5, 6]]);
    assert_eq!(queue.counts(&LANE), (MAX_CALLS - 1, 0));
}

#[test]
fn a_decision_that_leaves_is_in_no_call() {
    let (queue, ids) = waiting(&[1, 1, 1]);
    assert_eq!(queue.leave(&LANE, ids[1]), Some(1));
    assert_eq!(queue.leave(&LANE, ids[1]), None);
    assert_eq!(queue.end(&LANE), [0, 2]);
    assert_eq!(queue.leave(&LANE, ids[0]), None, "it is on its way");
    assert_eq!(queue.begin_early(&LANE, ids[0]), None);
}

#[test]
fn an_early_call_takes_the_first_and_leaves_no_gap() {
    let (queue, ids) = waiting(&[6, 6, 6]);
    assert_eq!(queue.begin_early(&LANE, ids[2]), Some(vec![0]));
    assert_eq!(queue.begin_early(&LANE, ids[1]), Some(vec![1]));
    assert_eq!(queue.counts(&LANE), (MAX_CALLS + 2, 1));
    // The next call waits until fewer calls are on their way.
    for _ in 0..2 {
        assert!(queue.end(&LANE).is_empty());
    }
    assert_eq!(queue.end(&LANE), [2]);
}

#[test]
fn lanes_do_not_wait_for_each_other() {
    let (queue, _) = waiting(&[1]);
    assert!(queue.begin(&8));
    assert!(queue.end(&8).is_empty());
    assert_eq!(queue.end(&LANE), [0]);
}

/// Random decisions that arrive, leave, and are sent early, under random ends of calls.
#[test]
fn no_schedule_loses_repeats_or_reorders_a_decision() {
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..2_000 {
        let queue = queue();
        let (mut on_their_way, mut waiting, mut left) = (0, BTreeMap::new(), BTreeSet::new());
        let (mut next, mut last_sent) = (0, None);
        for _ in 0..100 {
            let sent = match random(4) {
                0 | 1 => {
                    let decision = next;
                    next += 1;
                    let load = u32::try_from(random(12)).unwrap();
                    let entered =
                        if queue.begin(&LANE) { Err(decision) } else { queue.wait(&LANE, load, decision) };
                    match entered {
                        Err(decision) => {
                            assert!(waiting.is_empty(), "it overtakes");
                            vec![decision]
                        }
                        Ok(id) => {
                            waiting.insert(decision, id);
                            continue;
                        }
                    }
                }
                2 if on_their_way > 0 => {
                    on_their_way -= 1;
                    queue.end(&LANE)
                }
                _ => {
                    let Some((&decision, &id)) = waiting.iter().nth(usize::try_from(random(3)).unwrap())
                    else {
                        continue;
                    };
                    if random(2) == 0 {
                        assert_eq!(queue.leave(&LANE, id), Some(decision));
                        waiting.remove(&decision);
                        left.insert(decision);
                        continue;
                    }
                    queue.begin_early(&LANE, id).unwrap()
                }
            };
            on_their_way += usize::from(!sent.is_empty());
            for decision in sent {
                waiting.remove(&decision);
                assert!(!left.contains(&decision) && last_sent < Some(decision), "{decision}");
                last_sent = Some(decision);
            }
            assert_eq!(queue.counts(&LANE), (on_their_way, waiting.len()));
            assert!(waiting.is_empty() || on_their_way >= MAX_CALLS, "it waits in vain");
        }
    }
}
