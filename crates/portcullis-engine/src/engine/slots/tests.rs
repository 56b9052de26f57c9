use portcullis_core::store::{Check, CheckResult, Position};
use portcullis_core::{Policy, Quota, Secret, Timestamp};

use super::*;

/// A request that was charged for the slot that begins after `micros`, in the queue of `user`.
fn charged(user: u32, micros: u64) -> (Outcome, QueueId, Slot) {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", &user.to_be_bytes());
    let policy = Policy::leaky_bucket("queue", Quota::per_second(1_000_000).burst(1_000_000));
    let checks = Checks::one(policy, hasher.finish().unwrap(), 1);
    let at = Timestamp::EPOCH;
    let result = |Check { policy, .. }: &Check| {
        let mut state = None;
        policy.strategy().charge(&mut state, at, 1);
        let result = CheckResult::of(policy.strategy(), state.as_ref(), at, 1, true);
        CheckResult { position: Position { micros: micros + 1, remainder: 0 }, ..result }
    };
    let results: Vec<_> = checks.iter().map(result).collect();
    let outcome = Outcome::new(checks, at, results).unwrap();
    let id = SlotId { position: outcome.position(0).unwrap(), number: micros };
    let queue = QueueId::new(&outcome, 0).unwrap();
    (outcome, queue, Slot { id, at: Instant::now() + Duration::from_micros(micros) })
}

impl Shared {
    fn add(&mut self, user: u32, micros: u64) -> QueueId {
        let (outcome, id, slot) = charged(user, micros);
        self.queues.entry(id).or_insert_with(|| Queue::new(&outcome, 0));
        self.update(id, |queue| drop(queue.add_spare([slot])));
        id
    }
}

#[tokio::test(start_paused = true)]
async fn a_refund_is_for_the_last_64_spare_slots() {
    let mut shared = Shared::default();
    let mut ids: Vec<_> = (1..=100).map(|slot| shared.add(0, slot * 1_000_000)).collect();
    ids.dedup();
    let [id] = ids[..] else { panic!("one queue") };
    let (outcome, _, waiting) = charged(0, 101_000_000);
    shared.update(id, |queue| queue.join(waiting));
    let (receipt, slots) = shared.begin_refund(id).unwrap();
    let seconds: Vec<_> = slots.iter().map(|slot| slot.id.position.micros / 1_000_000).collect();
    assert_eq!(seconds, (38..=101).rev().collect::<Vec<_>>());
    assert_eq!((receipt.cost(), receipt.runs().len(), shared.spare), (64, 64, 36));
    assert!(shared.begin_refund(id).is_none(), "one at a time");

    // The queue ends after slot 90 now, which another process was charged for.
    let at = Timestamp::from_micros(90_000_001);
    let snapshot = outcome.checks().iter().next().unwrap().policy.strategy().snapshot(None, at, 0, true);
    let result = CheckResult { admitted: true, snapshot, position: Position::default() };
    let answer = Outcome::new(outcome.checks().clone(), at, [result]).unwrap().into_decision();
    let (goes_on, waker) = shared.update(id, |queue| queue.end_refund(slots, Some(&answer))).unwrap();
    assert!(goes_on && waker.is_none());
    assert_eq!(shared.spare, 36 + 53, "those from 91 on are freed");
}

#[tokio::test(start_paused = true)]
async fn spare_slots_are_bounded_in_all_queues_together() {
    let mut shared = Shared::default();
    let (first, second) = (shared.add(0, 1_000_000), shared.add(1, 1_000_000));
    let held = [first, second].map(|id| shared.begin_refund(id).unwrap());
    for slot in 2..=3_000 {
        for user in [0, 1] {
            let id = shared.add(user, slot * 1_000_000);
            assert!(shared.begin_refund(id).is_none());
            assert!(shared.spare <= MAX_SPARE);
        }
    }
    assert_eq!((shared.spare, held.len()), (MAX_SPARE, 2));
    shared.update(first, |queue| queue.end_refund(Vec::new(), None));
    let (_, slots) = shared.begin_refund(first).unwrap();
    assert_eq!(
        slots[0].id.number, 3_000_000_000,
        "the earliest are dropped, so that later ones can be refunded"
    );
}

#[tokio::test(start_paused = true)]
async fn a_queue_without_requests_or_slots_is_not_kept() {
    let mut shared = Shared::default();
    let left = shared.add(0, 1_000_000);
    let (outcome, id, slot) = charged(1, 2_000_000);
    shared.queues.insert(id, Queue::new(&outcome, 0));
    shared.update(id, |queue| queue.join(slot));
    assert_eq!((shared.queues.len(), shared.spare), (2, 1));
    tokio::time::advance(Duration::from_secs(3)).await;
    // Any event sweeps all queues.
    assert!(shared.begin_refund(id).is_none());
    assert!(!shared.queues.contains_key(&left));
    assert_eq!((shared.queues.len(), shared.spare), (1, 0), "a request that waits keeps its slot");
    let wakers = shared.update(id, |queue| queue.leave(slot.id.number, slot.at));
    wakers.into_iter().for_each(Wakers::wake);
    assert!(shared.begin_refund(id).is_none(), "the slot was due");
    assert_eq!((shared.queues.len(), shared.spare), (0, 0));
}
