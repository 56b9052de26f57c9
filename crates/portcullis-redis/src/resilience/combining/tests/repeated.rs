//! Equal checks that follow a call for such checks.

use super::*;

const TAG: u64 = 3;

impl Calls<u64> {
    /// Waits, and returns whether a call begins.
    fn wait_tagged(&self, number: u64, check: u64) -> bool {
        self.wait(LANE, 1, tag(number), Instant::now() + FAR, check).unwrap().begins_call
    }
}

/// A queue with one call of the lane on its way: for two equal checks, of which one has joined the other.
fn repeating() -> Calls<u64> {
    let queue = queue();
    assert!(queue.begin(LANE) && queue.begin(LANE));
    assert!(!queue.wait_tagged(TAG, 0) && queue.join_last(|_, _| true).is_some());
    assert_eq!(queue.end_and_take(LANE, 1), [0]);
    assert!(queue.end_and_take(LANE, 1).is_empty());
    assert_eq!(queue.counts(LANE), (1, 0));
    queue
}

#[test]
fn no_call_begins_beside_one_for_equal_checks() {
    let queue = repeating();
    assert!(!queue.begin(LANE) && !queue.wait_tagged(TAG, 1));
    assert_eq!((queue.counts(LANE), queue.arrived()), ((1, 1), 1));
    // It leaves in the place of that call, which it may join as well.
    assert!(queue.join_last(|_, _| true).is_some());
    assert_eq!(queue.end_and_take(LANE, 2), [1]);
    assert!(queue.end_and_take(LANE, 2).is_empty() && queue.is_empty());
}

#[test]
fn other_checks_begin_a_parallel_call() {
    for (number, next) in [(TAG + 2, TAG), (0, TAG)] {
        let queue = repeating();
        assert!(queue.wait_tagged(number, 1) && !queue.wait_tagged(next, 2));
        assert_eq!(queue.taken(LANE), [1, 2]);
    }
    // The second finds no room to join the first.
    let queue = repeating();
    assert!(!queue.wait_tagged(TAG, 1) && queue.wait_tagged(TAG, 2));
    assert_eq!((queue.counts(LANE), queue.taken(LANE)), ((MAX_CALLS, 2), vec![1, 2]));
    // They are no single step any more.
    assert!(queue.end_and_take(LANE, 2).is_empty() && queue.wait_tagged(TAG, 3));
}

#[test]
fn next_call_takes_its_callers_checks() {
    let queue = repeating();
    assert!(queue.continues(LANE, 2));
    assert_eq!((queue.counts(LANE), queue.arrived()), ((1, 0), 0));
    // It is as large as the last one when one more has arrived.
    assert!(!queue.begin(LANE) && !queue.wait_tagged(TAG, 1));
    assert_eq!(queue.arrived(), 1);
    assert!(queue.join_last(|_, _| true).is_some());
    assert_eq!((queue.arrived(), queue.taken(LANE)), (0, vec![1]));

    // Of other checks no second call begins before it has left.
    assert!(queue.continues(LANE, 2) && !queue.wait_tagged(0, 2) && !queue.wait_tagged(TAG, 3));
    assert_eq!((queue.taken(LANE), queue.counts(LANE)), (vec![2, 3], (1, 0)));
    // These are followed as well, although they were not equal.
    assert!(queue.continues(LANE, 2) && !queue.wait_tagged(TAG, 4));
    assert_eq!(queue.taken(LANE), [4]);
    assert!(!queue.continues(LANE, 1), "one caller checks again at once");
    assert!(queue.end_and_take(LANE, 1).is_empty() && queue.is_empty());
}

#[test]
fn one_turn_at_a_time_continues() {
    let queue = repeating();
    assert!(queue.wait_tagged(0, 1) && !queue.wait_tagged(0, 2));
    assert_eq!((queue.taken(LANE), queue.counts(LANE)), (vec![1, 2], (MAX_CALLS, 0)));
    assert!(queue.continues(LANE, 2) && !queue.continues(LANE, 2));
    assert!(!queue.end(LANE, 2) && !queue.wait_tagged(TAG, 3));
    assert_eq!((queue.taken(LANE), queue.counts(LANE)), (vec![3], (1, 0)));
}

#[test]
fn next_call_that_finds_nothing_ends() {
    let queue = repeating();
    assert!(queue.continues(LANE, 2) && queue.taken(LANE).is_empty());
    assert!(!queue.continues(LANE, 0) && queue.end_and_take(LANE, 0).is_empty() && queue.is_empty());
    assert!(queue.begin(LANE), "the next check leaves at once");
}

#[test]
fn next_call_begins_only_if_there_is_room() {
    let queue = repeating();
    for check in [1, 2] {
        let id = queue.wait(LANE, 1, tag(TAG), Instant::now() + FAR, check).unwrap().id;
        assert_eq!(queue.take_early(LANE, id), Some(vec![check]));
    }
    assert_eq!(queue.counts(LANE), (MAX_CALLS + 1, 0));
    assert!(!queue.continues(LANE, 2) && queue.end_and_take(LANE, 2).is_empty());
    assert_eq!(queue.counts(LANE), (MAX_CALLS, 0));
}

#[test]
fn what_a_next_call_leaves_behind_begins_another_one() {
    let queue = repeating();
    assert!(queue.continues(LANE, 2));
    let load = MAX_LOAD / 2;
    for check in 1..=3 {
        let waits = queue.wait(LANE, load, None, Instant::now() + FAR, check).unwrap();
        assert!(!waits.begins_call, "they wait for the next call");
    }
    assert_eq!(queue.take(LANE), (vec![1, 2], true));
    assert_eq!(queue.take(LANE), (vec![3], false));
    assert_eq!(queue.counts(LANE), (MAX_CALLS, 0));
}

#[test]
fn ended_call_delays_no_equal_check() {
    let queue = queue();
    assert!(queue.begin(LANE) && queue.begin(LANE));
    assert!(!queue.wait_tagged(0, 0) && !queue.wait_tagged(0, 1));
    assert_eq!(queue.end_and_take(LANE, 1), [0, 1]);
    assert!(!queue.wait_tagged(TAG, 2) && queue.join_last(|_, _| true).is_some());
    assert_eq!(queue.end_and_take(LANE, 1), [2]);
    // It ends before the other one, and what begins in its place finds nothing to send.
    assert!(queue.continues(LANE, 2) && queue.taken(LANE).is_empty() && !queue.end(LANE, 0));
    assert!(queue.wait_tagged(TAG, 3), "it does not wait for the other one");
    assert_eq!((queue.taken(LANE), queue.counts(LANE)), (vec![3], (MAX_CALLS, 0)));
}

/// Equal checks that arrive and join, under random ends of calls.
#[test]
fn no_equal_check_waits_without_a_call() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..2_000 {
        let queue = Calls::<Vec<u64>>::new(64);
        // The number of checks of each call on its way, and their tag if they have joined each other; the turns that are about to take
        // what waits.
        let (mut on_their_way, mut about_to_leave) = (Vec::<(usize, u64)>::new(), 0);
        let (mut next, mut last_sent, mut tags) = (0, 0, vec![0]);
        for _ in 0..100 {
            let sent = match rng.u64(..5) {
                0 | 1 => {
                    next += 1;
                    let joined = queue.join_last(|last, _| {
                        last.push(next);
                        true
                    });
                    let number = TAG + rng.u64(..8) / 7;
                    tags.push(number);
                    if joined.is_some() {
                        continue;
                    }
                    match queue.wait(LANE, 8, tag(number), Instant::now() + FAR, vec![next]) {
                        None => vec![vec![next]],
                        Some(waits) => {
                            about_to_leave += usize::from(waits.begins_call);
                            continue;
                        }
                    }
                }
                2 if !on_their_way.is_empty() => {
                    // Of two calls with several checks, the one that left last continues, or ends.
                    let (checks, _) = on_their_way[rng.usize(..on_their_way.len())];
                    let position =
                        on_their_way.iter().rposition(|(other, _)| (*other).min(2) == checks.min(2));
                    on_their_way.remove(position.unwrap());
                    let begins = queue.continues(LANE, checks) || queue.end_last(LANE, checks);
                    about_to_leave += usize::from(begins);
                    continue;
                }
                3 if about_to_leave > 0 => {
                    let (taken, begins) = queue.take(LANE);
                    about_to_leave -= usize::from(!begins);
                    if taken.is_empty() {
                        about_to_leave += usize::from(queue.end(LANE, 0));
                    }
                    taken
                }
                _ => continue,
            };
            queue.queue.assert_counts();
            let number = match &sent[..] {
                [joined] if joined.len() > 1 => tags[usize::try_from(joined[0]).unwrap()],
                _ => 0,
            };
            let sent: Vec<_> = sent.into_iter().flatten().collect();
            if let Some(last) = sent.last() {
                assert!(sent.iter().copied().eq(last_sent + 1..=*last), "each once, in order: {sent:?}");
                last_sent = *last;
                on_their_way.push((sent.len(), number));
            }
            let calls = on_their_way.len() + about_to_leave;
            let waiting = queue.queue.waiting(Vec::len) as u64;
            assert_eq!((queue.counts(LANE).0, waiting), (calls, next - last_sent));
            let waits_for_equal = || {
                let state = lock(&queue.queue.state);
                let waiting: Vec<_> = state.lanes[&LANE].waiting().map(|waiting| waiting.tag).collect();
                waiting.len() == 1 && on_their_way.iter().any(|(_, number)| tag(*number) == waiting[0])
            };
            let has_turn = calls >= MAX_CALLS || about_to_leave > 0;
            assert!(waiting == 0 || has_turn || waits_for_equal(), "it waits in vain");
        }
    }
}
