//! A client whose quota is granted and revoked, and whose state is reset.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use portcullis_core::Quota;
use portcullis_core::store::{Checks, Store as _};
use portcullis_histories::{Call, Family, KeyId, Op, ROTATION_MICROS, Random, monotonic_micros};
use portcullis_redis::RedisStore;
use tokio::time::sleep;

use crate::blocks::{answer, done};

/// Grants quotas of the key of `caller`, revokes them, and resets and checks the key, until the process stops.
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
        let key_id = KeyId { rotation, family: Family::Granted, caller };
        let (policy, key) = (key_id.family.policy(), key_id.key());
        let invoked = monotonic_micros();
        let (call, outcome) = match random.below(20) {
            0..2 => {
                let (limit, length) = (*random.one_of(&LIMITS), *random.one_of(&LENGTHS));
                let quota =
                    Quota::new(limit, key_id.family.quota().period()).expect("the limit is in bounds");
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
        let completed = monotonic_micros();
        ops.push(Op { process: 0, key_id, call, invoked, completed, outcome });
        sleep(Duration::from_millis(60 + random.below(20))).await;
    }
    ops
}

const MAX_OPS: usize = 200_000;
/// Less and more than the limit of the policy.
const LIMITS: [u64; 3] = [5, 60, 80];
const LENGTHS: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(2), Duration::from_secs(60)];
