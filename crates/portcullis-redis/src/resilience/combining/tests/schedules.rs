//! Random schedules.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// Random checks that arrive, join, leave, and are sent early, under random ends of calls.
#[test]
fn no_schedule_loses_repeats_or_reorders_a_check() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..2_000 {
        let queue = Calls::<Vec<u64>>::new(16);
        // The number of checks of each call on its way, and the turns that are about to take what waits.
        let (mut on_their_way, mut about_to_leave) = (Vec::new(), 0);
        let (mut waiting, mut left) = (BTreeMap::new(), BTreeSet::new());
        let (mut next, mut last_sent) = (0, None);
        for _ in 0..100 {
            let sent = match rng.u64(..6) {
                0 | 1 => {
                    let check = next;
                    next += 1;
                    let load = rng.u32(..18);
                    match queue.wait(LANE, load, queue.other_tag(), Instant::now() + FAR, vec![check]) {
                        None => {
                            assert!(waiting.is_empty(), "it overtakes");
                            vec![vec![check]]
                        }
                        Some(Waits { id, begins_call, .. }) => {
                            waiting.insert(check, id);
                            about_to_leave += usize::from(begins_call);
                            queue.queue.assert_counts();
                            continue;
                        }
                    }
                }
                2 => {
                    let check = next;
                    next += 1;
                    let joined = queue.join_last(|last, _| {
                        last.push(check);
                        true
                    });
                    waiting.extend(joined.map(|id| (check, id)));
                    queue.queue.assert_counts();
                    continue;
                }
                3 if !on_their_way.is_empty() => {
                    let ended = on_their_way.swap_remove(rng.usize(..on_their_way.len()));
                    let begins = rng.bool() && queue.continues(LANE, ended) || queue.end(LANE, ended);
                    about_to_leave += usize::from(begins);
                    continue;
                }
                4 if about_to_leave > 0 => {
                    let (taken, begins) = queue.take(LANE);
                    about_to_leave -= usize::from(!begins);
                    if taken.is_empty() {
                        about_to_leave += usize::from(queue.end(LANE, 0));
                    }
                    taken
                }
                _ => {
                    let Some((&check, &id)) = waiting.iter().nth(rng.usize(..4)) else {
                        continue;
                    };
                    if rng.u64(..3) > 0 {
                        let remove = |own: &mut Vec<u64>| {
                            let before = own.len();
                            own.retain(|other| *other != check);
                            own.len() < before
                        };
                        let leave = || queue.queue.leave(&LANE, id, remove);
                        assert!(leave() && !leave());
                        waiting.remove(&check);
                        left.insert(check);
                        queue.queue.assert_counts();
                        continue;
                    }
                    queue.take_early(LANE, id).unwrap()
                }
            };
            queue.queue.assert_counts();
            let sent: Vec<_> = sent.into_iter().flatten().collect();
            if !sent.is_empty() {
                on_their_way.push(sent.len());
            }
            for check in sent {
                waiting.remove(&check);
                assert!(!left.contains(&check) && last_sent < Some(check), "{check}");
                last_sent = Some(check);
            }
            let calls = on_their_way.len() + about_to_leave;
            assert_eq!(queue.counts(LANE).0, calls);
            assert_eq!(queue.queue.waiting(Vec::len), waiting.len());
            let has_turn = calls >= MAX_CALLS || about_to_leave > 0;
            assert!(waiting.is_empty() || has_turn, "it waits in vain");
        }
    }
}
