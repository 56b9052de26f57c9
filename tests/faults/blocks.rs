//! A client that is blocked and unblocked.

use std::time::Duration;

use portcullis_core::store::{Checks, Store as _};
use portcullis_histories::{Call, Op};
use portcullis_redis::RedisStore;

use crate::single_key::{SingleKey, answer, done};

/// Blocks, unblocks and checks a key, below its rate, until the process stops.
pub(crate) async fn run(store: RedisStore, mut client: SingleKey) -> Vec<Op> {
    while let Some(turn) = client.next_turn() {
        let (policy, key) = (turn.key_id.family.policy(), turn.key_id.key());
        let (call, outcome) = match client.random.u64(..20) {
            0..2 => {
                let length = *client.random.choice(&LENGTHS).expect("there is one");
                let answer = store.block(&policy, key, length).await;
                (Call::Block(u64::try_from(length.as_micros()).unwrap_or(u64::MAX)), done(answer))
            }
            2..5 => (Call::Unblock, done(store.unblock(&policy, key).await)),
            choice => {
                let cost = u64::from(choice > 6);
                (Call::Check(cost), answer(store.check(Checks::one(policy, key, cost)).await))
            }
        };
        client.record(turn, call, outcome).await;
    }
    client.into_ops()
}

const LENGTHS: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(2), Duration::from_secs(60)];
