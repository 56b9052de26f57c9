//! Checks that join equal ones.

use super::*;

#[test]
fn check_joins_only_the_last_waiting() {
    let queue = queue();
    for _ in 0..MAX_CALLS {
        assert_eq!(queue.wait_on(LANE, 1, 0), None);
    }
    let may_join = |number| {
        let mut is_asked = false;
        let end = Instant::now() + FAR * 2;
        let joined = queue.queue.join(&LANE, tag(number).unwrap(), end, |_, _| {
            is_asked = true;
            None::<u64>
        });
        is_asked && joined.is_none()
    };
    assert!(queue.join_last(|_, _| true).is_none() && !may_join(3));
    for (number, check) in [(3, 1), (5, 2)] {
        queue.wait(LANE, 1, tag(number), Instant::now() + FAR, check).unwrap();
        assert!(may_join(number) && !may_join(4));
    }
    // Equal to the first, it would overtake the second.
    assert!(!may_join(3));
    assert_eq!(queue.join_last(|last, _| *last == 1), None);
    let join = || {
        queue.join_last(|last, _| {
            *last += 10;
            true
        })
    };
    assert!(join() < join());
    assert_eq!((queue.arrived(), queue.queue.waiting(|_| 3), queue.counts(LANE)), (4, 6, (MAX_CALLS, 2)));
    assert_eq!(join(), None, "they fill a quarter of a call");

    // Checks that have joined leave together, in a call that is shared.
    assert_eq!(queue.end_and_take(LANE, 1), [1, 22]);
    assert!(!may_join(5), "none waits");
    assert!(queue.end_and_take(LANE, 1).is_empty() && !queue.begin(LANE));
    assert!(queue.end_and_take(LANE, 4).is_empty() && queue.is_empty());
}

#[test]
fn checks_that_join_keep_a_call_within_its_load() {
    let queue = Calls::new(1_024);
    assert!(queue.begin(LANE) && queue.begin(LANE));
    let wait = |load, check| queue.wait_on(LANE, load, check).unwrap();
    let join = || queue.join_last(|_, _| true).is_some();
    let joined = || (0..2_000).take_while(|_| join()).count();

    // One with many slots takes fewer.
    wait(8, 0);
    assert_eq!(joined(), 256);
    assert_eq!(queue.end_and_take(LANE, 1), [0]);
    wait(607, 1);
    assert_eq!(joined(), 6, "each is a load of 38");
    assert_eq!(queue.end_and_take(LANE, 257), [1]);
    wait(1_007, 2);
    assert!(!join(), "it fills the call");
    // They do not push the one that they join out of its call.
    wait(10, 3);
    assert_eq!(joined(), 7);
    assert_eq!(queue.end_and_take(LANE, 7), [2, 3]);
    wait(1_000, 4);
    wait(20, 5);
    assert_eq!(joined(), 2, "each is a load of 2");
    assert_eq!(queue.end_and_take(LANE, 9), [4, 5]);
    // The checks of the call after the next one join too.
    wait(1_000, 6);
    wait(100, 7);
    assert_eq!(joined(), 36, "each is a load of 7");
    assert_eq!([4, 1].map(|checks| queue.end_and_take(LANE, checks)), [[6], [7]]);
    wait(1_000, 8);
    wait(1_000, 9);
    assert!(!join());
}

#[test]
fn one_that_joined_leaves_without_the_others() {
    let (queue, ids) = waiting(&[1, 1]);
    let joined = queue.join_last(|_, _| true).unwrap();
    let first = ids[1];
    assert!(!queue.queue.leave(&LANE, joined, |_| false), "it was not there");
    for leaving in [first, joined] {
        assert_eq!(queue.arrived(), if leaving == first { 3 } else { 2 });
        assert!(queue.queue.leave(&LANE, leaving, |check| *check == 1));
    }
    assert_eq!(queue.counts(LANE), (MAX_CALLS, 1));
    assert!(!queue.queue.leave(&LANE, joined, |check| *check == 1), "it is not another one");
    assert!(queue.queue.leave(&LANE, ids[0], |check| *check == 0));
    queue.wait_on(LANE, MAX_LOAD - 1, 2).unwrap();
    assert_eq!(queue.arrived(), 1, "no load is left of the others");

    // Checks that have left leave room for others.
    let (queue, _) = waiting(&[1]);
    for _ in 0..20 {
        let joined = queue.join_last(|_, _| true).unwrap();
        assert!(queue.queue.leave(&LANE, joined, |_| true));
    }
}

#[test]
fn check_joins_none_that_leaves_later() {
    let (queue, _) = waiting(&[]);
    let latest = Instant::now() + FAR;
    queue.wait(LANE, 1, tag(3), latest, 0).unwrap();
    let early = latest.checked_sub(Duration::from_nanos(1)).unwrap();
    let join = |end| queue.queue.join(&LANE, tag(3).unwrap(), end, |_, id| Some(id));
    assert_eq!(join(early), None);
    assert!(join(latest).is_some());
}
