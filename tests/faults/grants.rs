//! A client whose quota is granted and revoked, and whose state is reset.

use std::time::Duration;

use portcullis_core::Quota;
use portcullis_core::store::{Checks, Store as _};
use portcullis_histories::{Call, Op};
use portcullis_redis::RedisStore;

use crate::single_key::{SingleKey, answer, done};

/// Grants quotas of a key, revokes them, and resets and checks the key, until the process stops.
pub(crate) async fn run(store: RedisStore, mut client: SingleKey) -> Vec<Op> {
    while let Some(turn) = client.next_turn() {
        let (policy, key) = (turn.key_id.family.policy(), turn.key_id.key());
        let (call, outcome) = match client.random.u64(..20) {
            0..2 => {
                let (limit, length) = (
                    *client.random.choice(&LIMITS).expect("there is one"),
                    *client.random.choice(&LENGTHS).expect("there is one"),
                );
                let quota = Quota::new(limit, turn.key_id.family.quota().period(), None)
                    .expect("the limit is in bounds");
                let answer = store.set_grant(&policy, key, Some((quota, length))).await;
                let length = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
                (Call::Grant { limit, length }, done(answer))
            }
            2 => (Call::Revoke, done(store.set_grant(&policy, key, None).await)),
            3..6 => (Call::Reset, done(store.reset(&policy, key).await)),
            choice => {
                let cost = u64::from(choice > 7);
                (Call::Check(cost), answer(store.check(Checks::one(policy, key, cost)).await))
            }
        };
        client.record(turn, call, outcome).await;
    }
    client.into_ops()
}

/// Less and more than the limit of the policy.
const LIMITS: [u64; 3] = [5, 60, 80];
const LENGTHS: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(2), Duration::from_secs(60)];
