//! Two processes whose versions of a policy differ in what a state cannot follow, on one server.

use std::time::Duration;

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{
    Anchor, FixedWindow, Policy, PolicyName, Quota, Refill, SlidingWindow, Strategy, Timestamp, TokenBucket,
};
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use portcullis_testing::ManualClock;

use crate::support::{key, patient};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Two stores, each with connections of its own, as two processes have.
struct Fleet {
    server: RedisServer,
    clock: ManualClock,
    stores: [RedisStore; 2],
}

impl Fleet {
    async fn start() -> Self {
        let server = RedisServer::start().unwrap();
        let clock = ManualClock::new(Timestamp::from_micros(1_800_000_000_000_000));
        let connect = || patient(&server).scenario_clock(clock.clone()).connect();
        let stores = [connect().await.unwrap(), connect().await.unwrap()];
        Self { server, clock, stores }
    }

    /// Both ask in turn, 20 times each. Returns how many each has admitted.
    async fn admitted(&self, policies: &[Policy; 2]) -> [usize; 2] {
        let mut admitted = [0; 2];
        for _ in 0..20 {
            for process in [0, 1] {
                let checks = Checks::one(policies[process].clone(), key("ada"), 1);
                let outcome = self.stores[process].check(checks).await.unwrap();
                admitted[process] += usize::from(outcome.is_allowed());
            }
        }
        admitted
    }
}

#[tokio::test]
async fn windows_of_two_lengths_each_enforce_their_limit() {
    let fleet = Fleet::start().await;
    let quotas = [Quota::new(3, HOUR, None).unwrap(), Quota::new(7, DAY, None).unwrap()];
    for (name, make) in [
        ("fixed", Policy::fixed_window as fn(&'static str, Quota) -> Policy),
        ("sliding", Policy::sliding_window),
        ("log", Policy::sliding_log),
    ] {
        let policies = quotas.map(|quota| make(name, quota));
        assert_eq!(fleet.admitted(&policies).await, [3, 7], "{name}");
        assert_eq!(fleet.admitted(&policies).await, [0, 0], "{name}");
    }
    // An hour later the short windows have ended, and the long ones have not.
    fleet.clock.advance(2 * HOUR);
    let policies = quotas.map(|quota| Policy::fixed_window("fixed", quota));
    assert_eq!(fleet.admitted(&policies).await, [3, 0]);
    let keys = fleet.server.cli(&["KEYS", "*:fixed:*"]).unwrap();
    let mut ends: Vec<_> = keys.lines().filter_map(|key| Some(key.trim().rsplit_once(':')?.1)).collect();
    ends.sort_unstable();
    assert_eq!(ends, ["fixed_window.3600s", "fixed_window.86400s"]);
}

#[tokio::test]
async fn slots_anchors_and_refills_have_states_of_their_own() {
    let fleet = Fleet::start().await;
    let quota = Quota::new(4, HOUR, None).unwrap();
    let slots = |slots| Strategy::SlidingWindow(SlidingWindow::with_slots(quota, slots).unwrap());
    let anchored = |anchor| Strategy::FixedWindow(FixedWindow::new(quota).unwrap().anchored(anchor));
    let refilled = |refill| Strategy::TokenBucket(TokenBucket::new(quota).unwrap().refilled(refill));
    for strategies in [
        [slots(6), slots(60)],
        [anchored(Anchor::Epoch), anchored(Anchor::FirstRequest)],
        [refilled(Refill::Greedy), refilled(Refill::Interval)],
    ] {
        let policies = strategies.map(|strategy| Policy::new(PolicyName::literal("p"), strategy));
        assert_eq!(fleet.admitted(&policies).await, [4, 4], "{strategies:?}");
    }
}

#[tokio::test]
async fn limits_that_differ_alone_share_a_state() {
    let fleet = Fleet::start().await;
    let policies = [3, 7].map(|limit| Policy::fixed_window("fixed", Quota::new(limit, HOUR, None).unwrap()));
    let [few, many] = fleet.admitted(&policies).await;
    let keys = fleet.server.cli(&["KEYS", "*:fixed:*"]).unwrap();
    assert_eq!((few + many, keys.lines().filter(|key| !key.trim().is_empty()).count()), (7, 1));
}

#[tokio::test]
async fn a_receipt_of_the_old_window_is_refunded_there() {
    let fleet = Fleet::start().await;
    let [old, new] =
        [HOUR, DAY].map(|period| Policy::fixed_window("fixed", Quota::new(3, period, None).unwrap()));
    let check = async |process: usize, policy: &Policy, cost| {
        fleet.stores[process].check(Checks::one(policy.clone(), key("ada"), cost)).await.unwrap()
    };
    let receipt = check(0, &old, 2).await.into_receipts().next().unwrap();
    assert!(check(1, &new, 2).await.is_allowed());
    let refunded = fleet.stores[1].refund(receipt.with_policy(&new)).await.unwrap();
    assert_eq!(refunded.remaining(), 3);
    assert_eq!(check(1, &new, 0).await.decision().remaining(), 1);
    assert_eq!(check(0, &old, 0).await.decision().remaining(), 3);
}

#[tokio::test]
async fn a_block_and_a_grant_outlive_a_change_of_the_window() {
    let fleet = Fleet::start().await;
    let [old, new] = [HOUR, DAY]
        .map(|period| Policy::fixed_window("fixed", Quota::new(3, period, None).unwrap()).allow_overrides());
    fleet.stores[0].block(&old, key("ada"), HOUR).await.unwrap();
    assert_eq!(fleet.admitted(&[old.clone(), new.clone()]).await, [0, 0]);
    fleet.stores[1].unblock(&new, key("ada")).await.unwrap();
    let more = Quota::new(5, HOUR, None).unwrap();
    fleet.stores[1].set_grant(&old, key("ada"), Some((more, HOUR))).await.unwrap();
    // The grant has the period of the old window, and no effect under the new one.
    assert_eq!(fleet.admitted(&[old.clone(), new.clone()]).await, [5, 3]);
    let record = fleet.stores[0].overrides(&new, key("ada")).await.unwrap();
    assert!(record.grant().is_some());
}
