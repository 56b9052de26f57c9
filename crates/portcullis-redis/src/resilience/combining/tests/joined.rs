//! Decisions that join equal ones.

use super::*;

#[test]
fn decision_joins_only_the_last_waiting() {
    let queue = queue();
    for _ in 0..MAX_CALLS {
        assert_eq!(queue.wait_on(&LANE, 1, 0), None);
    }
    assert!(queue.join_last(&LANE, |_, _| true).is_none() && !queue.may_join(3));
    for (tag, decision) in [(3, 1), (5, 2)] {
        queue.wait(&LANE, 1, tag, Instant::now() + FAR, |_| decision).unwrap();
        assert!(queue.may_join(tag) && !queue.may_join(4));
    }
    // Equal to the first, it would overtake the second.
    assert!(!queue.may_join(3));
    assert_eq!(queue.join_last(&LANE, |last, _| *last == 1), None);
    let join = || {
        queue.join_last(&LANE, |last, _| {
            *last += 10;
            true
        })
    };
    assert!(join() < join());
    assert_eq!((queue.arrived(&LANE), queue.waiting(|_| 3), queue.counts(&LANE)), (4, 6, (MAX_CALLS, 2)));
    assert_eq!(join(), None, "they fill a quarter of a call");

    // Decisions that have joined leave together, in a call that is shared.
    assert_eq!(queue.end_and_take(&LANE, 1), [1, 22]);
    assert!(queue.end_and_take(&LANE, 1).is_empty() && !queue.begin(&LANE));
    assert!(queue.end_and_take(&LANE, 4).is_empty() && queue.is_empty());
}

#[test]
fn decisions_that_join_keep_a_call_within_its_load() {
    let queue = CombiningQueue::new(1_024);
    assert!(queue.begin(&LANE) && queue.begin(&LANE));
    let wait = |load, decision| queue.wait_on(&LANE, load, decision).unwrap();
    let join = || queue.join_last(&LANE, |_, _| true).is_some();
    let joined = || (0..2_000).take_while(|_| join()).count();

    // One with many slots takes fewer.
    wait(8, 0);
    assert_eq!(joined(), 256);
    assert_eq!(queue.end_and_take(&LANE, 1), [0]);
    wait(607, 1);
    assert_eq!(joined(), 6, "each is a load of 38");
    assert_eq!(queue.end_and_take(&LANE, 257), [1]);
    wait(1_007, 2);
    assert!(!join(), "it fills the call");
    // They do not push the one that they join out of its call.
    wait(10, 3);
    assert_eq!(joined(), 7);
    assert_eq!(queue.end_and_take(&LANE, 7), [2, 3]);
    wait(1_000, 4);
    wait(20, 5);
    assert_eq!(joined(), 2, "each is a load of 2");
    assert_eq!(queue.end_and_take(&LANE, 9), [4, 5]);
    // The decisions of the call after the next one join too.
    wait(1_000, 6);
    wait(100, 7);
    assert_eq!(joined(), 36, "each is a load of 7");
    assert_eq!([4, 1].map(|decisions| queue.end_and_take(&LANE, decisions)), [[6], [7]]);
    wait(1_000, 8);
    wait(1_000, 9);
    assert!(!join());
}

#[test]
fn one_that_joined_leaves_without_the_others() {
    let (queue, ids) = waiting(&[1, 1]);
    let joined = queue.join_last(&LANE, |_, _| true).unwrap();
    let first = ids[1];
    assert!(!queue.leave(&LANE, joined, |_| false), "it was not there");
    for leaving in [first, joined] {
        assert_eq!(queue.arrived(&LANE), if leaving == first { 3 } else { 2 });
        assert!(queue.leave(&LANE, leaving, |decision| *decision == 1));
    }
    assert_eq!(queue.counts(&LANE), (MAX_CALLS, 1));
    assert!(!queue.leave(&LANE, joined, |decision| *decision == 1), "it is not another one");
    assert!(queue.leave(&LANE, ids[0], |decision| *decision == 0));
    queue.wait_on(&LANE, MAX_LOAD - 1, 2).unwrap();
    assert_eq!(queue.arrived(&LANE), 1, "no load is left of the others");

    // Decisions that have left leave room for others.
    let (queue, _) = waiting(&[1]);
    for _ in 0..20 {
        let joined = queue.join_last(&LANE, |_, _| true).unwrap();
        assert!(queue.leave(&LANE, joined, |_| true));
    }
}

#[test]
fn decision_joins_none_that_leaves_later() {
    let (queue, _) = waiting(&[]);
    let latest = Instant::now() + FAR;
    queue.wait(&LANE, 1, 3, latest, |_| 0).unwrap();
    let early = latest.checked_sub(Duration::from_nanos(1)).unwrap();
    assert_eq!(queue.join(&LANE, early, |_, _| unreachable!()), None);
    assert!(queue.join(&LANE, latest, |_, _| true).is_some());
}
