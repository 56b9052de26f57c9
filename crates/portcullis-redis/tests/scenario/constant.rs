//! Quotas of zero and none: a real Redis answers as the memory store does, and keeps what was used before.

use std::time::Duration;

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Concurrency, Policy, Quota, Retry, Timestamp};
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_testing::{ManualClock, calendars};

use crate::support::{key, patient};

/// A policy of each algorithm, with a limit or none.
fn policies(quota: Quota) -> Vec<Policy> {
    let limit = quota.limit();
    vec![
        Policy::token_bucket("bucket", quota),
        Policy::gcra("gcra", quota),
        Policy::leaky_bucket("queue", quota),
        Policy::fixed_window("window", quota),
        Policy::calendar_window("calendar", limit, &calendars()[0]),
        Policy::sliding_window("sliding", quota),
        Policy::sliding_log("log", quota),
        Concurrency::new("permits", limit).policy(),
    ]
}

#[tokio::test]
async fn zero_and_unlimited_agree_with_memory() {
    let server = RedisServer::start().unwrap();
    let clock = ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000));
    let redis = patient(&server).scenario_clock(clock.clone()).connect().await.unwrap();
    let memory = MemoryStore::builder().clock(clock.clone()).build();
    let minute = Quota::per_minute;
    let plans = policies(minute(7)).into_iter().map(|policy| policy.caller_quotas(minute(1), minute(9)));
    let ada = key("ada");
    for (plan, (closed, open)) in plans.zip(policies(minute(0)).into_iter().zip(policies(Quota::UNLIMITED))) {
        let (zero, none) = (plan.with_quota(minute(0)).unwrap(), plan.with_quota(Quota::UNLIMITED).unwrap());
        let mut left = Vec::new();
        for (policy, cost) in
            [(&plan, 1), (&zero, 1), (&none, 100), (&closed, 1), (&open, 100), (&zero, 0), (&plan, 0)]
        {
            let checks = Checks::one(policy.clone(), ada, cost);
            let expected = memory.check(checks.clone()).await.unwrap();
            let outcome = redis.check(checks).await.unwrap();
            assert_eq!(outcome.decision(), expected.decision(), "{policy:?}");
            if policy.strategy().limit() == 0 && cost > 0 {
                assert_eq!(outcome.decision().retry(), Some(Retry::Never), "{policy:?}");
            } else {
                assert!(outcome.is_allowed(), "{policy:?}");
                assert_eq!(outcome.decision().is_unlimited(), policy.is_unlimited());
            }
            left.push(outcome.decision().remaining());
        }
        // The unit of the plan is still used, and no other.
        assert_eq!(left.first(), left.last(), "{plan:?}");
        clock.advance(Duration::from_micros(1));
    }
}
