//! Random timelines of one process that remembers denials: it decides as the memory store, which decides about every check anew.
//!
//! The store is on the server's time, because on the time of a scenario it remembers none. The quotas replenish nothing while a test
//! runs, so the figures do not depend on time.

use fastrand::Rng;
use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{
    Anchor, Decision, FixedWindow, Policy, Quota, Receipt, SlidingWindow, Strategy, Timestamp,
};
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_testing::{ManualClock, timeline};

use crate::support::{key, patient};

const LIMIT: u64 = 12;

/// The algorithms whose figures are the same for as long as a test runs, with quotas of single callers, which share states, and windows
/// of any anchor and of many slots. No two of them that are three apart share a name.
fn policies() -> [Policy; 11] {
    let quota = Quota::per_week(LIMIT);
    let [few, many] = [LIMIT / 2, LIMIT * 2].map(Quota::per_week);
    let plan = Policy::fixed_window("remembered_plan", quota).caller_quotas(few, many);
    let sliding = Policy::sliding_window("remembered_sliding_plan", few).caller_quotas(few, many);
    let anchored = |anchor| Strategy::FixedWindow(FixedWindow::new(quota).unwrap().anchored(anchor));
    let odd = Anchor::Instant(Timestamp::from_micros(1_000_000_000_000_007));
    let slots = SlidingWindow::with_slots(quota, 168).unwrap();
    [
        Policy::fixed_window("remembered_window", quota),
        Policy::sliding_window("remembered_sliding", quota),
        Policy::sliding_log("remembered_log", quota),
        plan.with_quota(few).unwrap(),
        plan.with_quota(many).unwrap(),
        plan,
        sliding.with_quota(many).unwrap(),
        sliding,
        Policy::literal("remembered_first", anchored(Anchor::FirstRequest)),
        Policy::literal("remembered_odd", anchored(odd)),
        Policy::literal("remembered_slots", Strategy::SlidingWindow(slots)),
    ]
}

/// Nothing ends or refills meanwhile, so that a denial holds until the process itself corrects its key.
#[tokio::test]
async fn remembered_denials_agree_with_memory() {
    let server = RedisServer::start().unwrap();
    let (clock, seed) = (ManualClock::default(), timeline::seed());
    println!("seed {seed}");
    clock.set(Timestamp::from_micros(1_000_000_000_000_000));
    let memory = MemoryStore::builder().clock(clock).build();
    let redis = patient(&server).connect().await.unwrap();
    let mut rng = Rng::with_seed(seed);
    let (policies, keys) = (policies(), ["ada", "grace", "barbara"].map(key));
    let mut receipts: Vec<(Receipt, Receipt)> = Vec::new();
    let (mut denied, mut remembered) = (0, 0);
    for _ in 0..(timeline::steps() / 2).min(20_000) {
        let (first, user) = (rng.usize(..policies.len()), keys[rng.usize(..keys.len())]);
        match rng.usize(..40) {
            0 => {
                receipts.retain(|(receipt, _)| {
                    receipt.policy().name() != policies[first].name() || receipt.key() != user
                });
                redis.reset(&policies[first], user).await.unwrap();
                memory.reset(&policies[first], user).await.unwrap();
            }
            1..4 if !receipts.is_empty() => {
                let (receipt, expected) = receipts.swap_remove(rng.usize(..receipts.len()));
                let to = rng.u64(..4);
                let settled = redis.settle(receipt, to).await.unwrap();
                let expected = memory.settle(expected, to).await.unwrap();
                assert_eq!(settled.decision.remaining(), expected.decision.remaining());
                receipts.extend(settled.receipt.zip(expected.receipt).filter(|(left, _)| left.cost() > 0));
            }
            choice => {
                let cost = |choice: usize| [0, 1, 1, 2, 3][choice];
                let mut checks = Checks::one(policies[first].clone(), user, cost(rng.usize(..5)));
                if choice % 3 == 0 {
                    let second = policies[(first + 3) % policies.len()].clone();
                    checks = checks.and(second, keys[rng.usize(..keys.len())], cost(rng.usize(..5))).unwrap();
                }
                let outcome = redis.check(checks.clone()).await.unwrap();
                let expected = memory.check(checks.clone()).await.unwrap();
                assert_eq!(outcome.is_allowed(), expected.is_allowed(), "{checks:?}");
                // A remembered denial names the policy that has denied, and no other. What lower costs have charged since is not in
                // its figures.
                for decision in outcome.decisions() {
                    let same =
                        expected.decisions().iter().find(|it| it.policy() == decision.policy()).unwrap();
                    let figures = |it: &Decision| (it.is_allowed(), it.limit());
                    assert_eq!(figures(decision), figures(same), "{checks:?}");
                    let (left, expected) = (decision.remaining(), same.remaining());
                    let is_right = left == expected || (outcome.is_remembered() && left > expected);
                    assert!(is_right, "{left} instead of {expected} units remain: {checks:?}");
                }
                denied += u32::from(!outcome.is_allowed());
                remembered += u32::from(outcome.is_remembered());
                receipts.extend(outcome.into_receipts().zip(expected.into_receipts()));
            }
        }
    }
    println!("{denied} denied, {remembered} of them remembered");
    assert!(remembered * 4 > denied, "{remembered} of {denied} denials were remembered");
}
