//! Equal decisions that follow a call for such decisions.

use super::*;

const TAG: u64 = 3;

impl CombiningQueue<u16, u64> {
    /// Waits, and returns whether a call begins.
    fn wait_tagged(&self, tag: u64, decision: u64) -> bool {
        self.wait(&LANE, 1, tag, Instant::now() + FAR, |_| decision).unwrap().begins_call
    }
}

/// A queue with one call of the lane on its way: for two equal decisions, of which one has joined the other.
fn repeating() -> CombiningQueue<u16, u64> {
    let queue = queue();
    assert!(queue.begin(&LANE) && queue.begin(&LANE));
    assert!(!queue.wait_tagged(TAG, 0) && queue.join_last(&LANE, |_, _| true).is_some());
    assert_eq!(queue.end_and_take(&LANE, 1), [0]);
    assert!(queue.end_and_take(&LANE, 1).is_empty());
    assert_eq!(queue.counts(&LANE), (1, 0));
    queue
}

#[test]
fn no_call_begins_beside_one_for_equal_decisions() {
    let queue = repeating();
    assert!(!queue.begin(&LANE) && !queue.wait_tagged(TAG, 1));
    assert_eq!((queue.counts(&LANE), queue.arrived(&LANE)), ((1, 1), 1));
    // It leaves in the place of that call, which it may join as well.
    assert!(queue.join_last(&LANE, |_, _| true).is_some());
    assert_eq!(queue.end_and_take(&LANE, 2), [1]);
    assert!(queue.end_and_take(&LANE, 2).is_empty() && queue.is_empty());
}

#[test]
fn other_decisions_begin_a_parallel_call() {
    for (tag, next) in [(TAG + 2, TAG), (0, TAG)] {
        let queue = repeating();
        assert!(queue.wait_tagged(tag, 1) && !queue.wait_tagged(next, 2));
        assert_eq!(queue.taken(&LANE), [1, 2]);
    }
    // The second finds no room to join the first.
    let queue = repeating();
    assert!(!queue.wait_tagged(TAG, 1) && queue.wait_tagged(TAG, 2));
    assert_eq!((queue.counts(&LANE), queue.taken(&LANE)), ((MAX_CALLS, 2), vec![1, 2]));
    // They are no single step any more.
    assert!(queue.end_and_take(&LANE, 2).is_empty() && queue.wait_tagged(TAG, 3));
}

#[test]
fn next_call_takes_its_callers_decisions() {
    let queue = repeating();
    assert!(queue.begin_next(&LANE, 2) && !queue.begin_next(&LANE, 2), "one call begins");
    assert_eq!((queue.counts(&LANE), queue.arrived(&LANE)), ((1, 0), 0));
    // It is as large as the last one when one more has arrived.
    assert!(!queue.begin(&LANE) && !queue.wait_tagged(TAG, 1));
    assert_eq!(queue.arrived(&LANE), 1);
    assert!(queue.join_last(&LANE, |_, _| true).is_some());
    assert_eq!((queue.arrived(&LANE), queue.taken(&LANE)), (0, vec![1]));

    // Of other decisions no second call begins before it has left.
    assert!(queue.begin_next(&LANE, 2) && !queue.wait_tagged(0, 2) && !queue.wait_tagged(TAG, 3));
    assert_eq!((queue.taken(&LANE), queue.counts(&LANE)), (vec![2, 3], (1, 0)));
    assert!(!queue.begin_next(&LANE, 2), "it was not one step");
    assert!(queue.end_and_take(&LANE, 2).is_empty() && queue.is_empty());
}

#[test]
fn next_call_that_finds_nothing_ends() {
    let queue = repeating();
    assert!(queue.begin_next(&LANE, 2) && queue.taken(&LANE).is_empty());
    assert!(!queue.begin_next(&LANE, 0) && queue.end_and_take(&LANE, 0).is_empty() && queue.is_empty());
    assert!(queue.begin(&LANE), "the next decision leaves at once");
}

#[test]
fn next_call_begins_only_if_there_is_room() {
    let queue = repeating();
    for decision in [1, 2] {
        let latest = Instant::now() + FAR;
        let id = queue.wait(&LANE, 1, TAG, latest, |_| decision).unwrap().id;
        assert_eq!(queue.begin_early(&LANE, id), Some(vec![decision]));
    }
    assert_eq!(queue.counts(&LANE), (MAX_CALLS + 1, 0));
    assert!(!queue.begin_next(&LANE, 2) && queue.end_and_take(&LANE, 2).is_empty());
    assert_eq!(queue.counts(&LANE), (MAX_CALLS, 0));
}

#[test]
fn what_a_next_call_leaves_behind_begins_another_one() {
    let queue = repeating();
    assert!(queue.begin_next(&LANE, 2));
    let load = MAX_LOAD / 2;
    for decision in 1..=3 {
        let entered = queue.wait(&LANE, load, 0, Instant::now() + FAR, |_| decision).unwrap();
        assert!(!entered.begins_call, "they wait for the next call");
    }
    let taken = queue.take(&LANE);
    assert_eq!((taken.decisions, taken.begins_call), (vec![1, 2], true));
    let taken = queue.take(&LANE);
    assert_eq!((taken.decisions, taken.begins_call), (vec![3], false));
    assert_eq!(queue.counts(&LANE), (MAX_CALLS, 0));
}

#[test]
fn ended_call_delays_no_equal_decision() {
    let queue = queue();
    assert!(queue.begin(&LANE) && queue.begin(&LANE));
    assert!(!queue.wait_tagged(0, 0) && !queue.wait_tagged(0, 1));
    assert_eq!(queue.end_and_take(&LANE, 1), [0, 1]);
    assert!(!queue.wait_tagged(TAG, 2) && queue.join_last(&LANE, |_, _| true).is_some());
    assert_eq!(queue.end_and_take(&LANE, 1), [2]);
    // It ends before the other one, and what begins in its place finds nothing to send.
    assert!(queue.begin_next(&LANE, 2) && queue.taken(&LANE).is_empty() && !queue.end(&LANE, 0));
    assert!(queue.wait_tagged(TAG, 3), "it does not wait for the other one");
    assert_eq!((queue.taken(&LANE), queue.counts(&LANE)), (vec![3], (MAX_CALLS, 0)));
}

/// Equal decisions that arrive, join and leave, under random ends of calls.
#[test]
fn no_equal_decision_waits_without_a_call() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..2_000 {
        let queue = CombiningQueue::<u16, Vec<u64>>::new(64);
        // The decisions of each call on its way, and their tag if they have joined each other; the calls whose decisions are not taken
        // yet, and whether one of them is in the place of another call.
        let (mut on_their_way, mut about_to_leave, mut has_next) = (Vec::new(), 0, false);
        let (mut next, mut last_sent, mut tags) = (0, 0, vec![0]);
        for _ in 0..100 {
            let sent = match rng.u64(..5) {
                0 | 1 => {
                    next += 1;
                    let joined = queue.join_last(&LANE, |last, _| {
                        last.push(next);
                        true
                    });
                    let tag = TAG + rng.u64(..8) / 7;
                    tags.push(tag);
                    if joined.is_some() {
                        continue;
                    }
                    match queue.wait(&LANE, 8, tag, Instant::now() + FAR, |_| vec![next]) {
                        None => vec![vec![next]],
                        Some(entered) => {
                            about_to_leave += usize::from(entered.begins_call);
                            continue;
                        }
                    }
                }
                2 if !on_their_way.is_empty() => {
                    let (ended, _) = on_their_way.swap_remove(rng.usize(..on_their_way.len()));
                    let begins_next = queue.begin_next(&LANE, ended);
                    has_next |= begins_next;
                    about_to_leave += usize::from(begins_next || queue.end(&LANE, ended));
                    continue;
                }
                3 if about_to_leave > 0 => {
                    has_next = false;
                    let Taken { decisions, begins_call } = queue.take(&LANE);
                    about_to_leave -= usize::from(!begins_call);
                    if decisions.is_empty() { queue.end_and_take(&LANE, 1) } else { decisions }
                }
                _ => continue,
            };
            queue.assert_counts();
            let tag = match &sent[..] {
                [joined] if joined.len() > 1 => tags[usize::try_from(joined[0]).unwrap()],
                _ => 0,
            };
            let sent: Vec<_> = sent.into_iter().flatten().collect();
            if let Some(last) = sent.last() {
                assert!(sent.iter().copied().eq(last_sent + 1..=*last), "each once, in order: {sent:?}");
                last_sent = *last;
                on_their_way.push((sent.len(), tag));
            }
            let calls = on_their_way.len() + about_to_leave;
            let waiting = queue.waiting(Vec::len) as u64;
            assert_eq!((queue.counts(&LANE).0, waiting), (calls, next - last_sent));
            let waits_for_equal = || {
                let state = lock(&queue.state);
                let waiting = &state.lanes[&LANE].waiting;
                waiting.len() == 1 && on_their_way.iter().any(|(_, tag)| *tag == waiting[0].tag)
            };
            assert!(waiting == 0 || calls >= MAX_CALLS || has_next || waits_for_equal(), "it waits in vain");
        }
    }
}
