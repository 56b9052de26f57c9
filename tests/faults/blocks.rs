//! A client that is blocked and unblocked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use portcullis_core::StoreError;
use portcullis_core::store::{Checks, Outcome as Decided, Store as _};
use portcullis_histories::{
    Answer, Call, Family, KeyId, Op, Outcome, ROTATION_MICROS, Random, monotonic_micros,
};
use portcullis_redis::RedisStore;
use tokio::time::sleep;

/// Blocks, unblocks and checks the key of `caller`, below its rate, until the process stops.
pub(crate) async fn run(
    store: RedisStore,
    stopped: Arc<AtomicBool>,
    start: u64,
    mut random: Random,
    caller: u8,
) -> Vec<Op> {
    let mut ops = Vec::new();
    while !stopped.load(Ordering::Relaxed) && ops.len() < MAX_OPS {
        let rotation = u32::try_from((monotonic_micros() - start) / ROTATION_MICROS).unwrap_or_default();
        let key_id = KeyId { rotation, family: Family::Blocked, caller };
        let (policy, key) = (key_id.family.policy(), key_id.key());
        let invoked = monotonic_micros();
        let (call, outcome) = match random.below(20) {
            0..2 => {
                let length = *random.one_of(&LENGTHS);
                let answer = store.block(&policy, key, length).await;
                (Call::Block(u64::try_from(length.as_micros()).unwrap_or(u64::MAX)), done(answer))
            }
            2..5 => (Call::Unblock, done(store.unblock(&policy, key).await)),
            choice => {
                let cost = u64::from(choice > 6);
                (Call::Check(cost), answer(store.check(Checks::one(policy, key, cost)).await))
            }
        };
        let completed = monotonic_micros();
        ops.push(Op { process: 0, key_id, call, invoked, completed, outcome });
        sleep(Duration::from_millis(60 + random.below(20))).await;
    }
    ops
}

/// The outcome of a check of one key.
pub(crate) fn answer(answer: Result<Decided, StoreError>) -> Outcome {
    match answer {
        Ok(outcome) => {
            let answer = Answer::new(outcome.decision(), outcome.is_allowed());
            let position = outcome.into_receipts().next().map(|it| it.runs()[0].position);
            Outcome::Answered(Answer { position: position.unwrap_or_default(), ..answer })
        }
        Err(error) => Outcome::of_error(error.kind()),
    }
}

/// The outcome of a call without an answer.
pub(crate) fn done(answer: Result<(), StoreError>) -> Outcome {
    match answer {
        Ok(()) => Outcome::Done(0),
        Err(error) => Outcome::of_error(error.kind()),
    }
}

const MAX_OPS: usize = 200_000;
const LENGTHS: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(2), Duration::from_secs(60)];
