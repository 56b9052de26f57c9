//! Decisions that share calls: a real Redis agrees in every figure with the memory store, which makes one after another.

use fastrand::Rng;
use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{
    Concurrency, Key, Policy, PolicyName, Quota, Refill, SlidingWindow, Strategy, Timestamp, TokenBucket,
};
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_testing::{ManualClock, timeline};

use crate::support::{key, patient};

const QUOTA: Quota = Quota::per_minute(7);

/// All algorithms but the log, of which every decision has a call of its own.
fn policies() -> Vec<Policy> {
    let named = |name: &'static str, strategy| Policy::new(PolicyName::literal(name), strategy);
    let refilled = TokenBucket::new(QUOTA).unwrap().refilled(Refill::Interval);
    let slots = SlidingWindow::with_slots(QUOTA, 10).unwrap();
    vec![
        Policy::token_bucket("bucket", QUOTA),
        named("refilled", Strategy::TokenBucket(refilled)),
        Policy::gcra("gcra", QUOTA.burst(3)),
        Policy::leaky_bucket("queue", QUOTA),
        Policy::fixed_window("window", QUOTA),
        Policy::sliding_window("sliding", QUOTA),
        named("slots", Strategy::SlidingWindow(slots)),
        Concurrency::new("permits", 7).into(),
    ]
}

fn users() -> [Key; 3] {
    ["ada", "grace", "barbara"].map(key)
}

/// A decision under one to three policies.
fn decision(policies: &[Policy], users: &[Key], rng: &mut Rng) -> Checks {
    let (first, count) = (rng.usize(..policies.len()), 1 + rng.usize(..3));
    let mut checks: Option<Checks> = None;
    for offset in 0..count {
        let policy = policies[(first + offset) % policies.len()].clone();
        let (user, cost) = (users[rng.usize(..users.len())], rng.u64(..4));
        checks = Some(match checks {
            None => Checks::one(policy, user, cost),
            Some(checks) => checks.and(policy, user, cost).unwrap(),
        });
    }
    checks.unwrap()
}

/// The tasks of a runtime with one thread begin in the order in which they are spawned.
#[tokio::test]
async fn decisions_that_share_calls_agree_with_memory() {
    let server = RedisServer::start().unwrap();
    let (clock, seed) = (ManualClock::default(), timeline::seed());
    println!("seed {seed}");
    let redis = patient(&server).scenario_clock(clock.clone());
    let redis = redis.connect().await.unwrap();
    let memory = MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build();
    let mut rng = Rng::with_seed(seed);
    let (policies, users) = (policies(), users());
    let (mut now, mut made, mut denied) = (1_000_000_000_000_000_u64, 0_u64, 0_u64);
    let steps = timeline::steps().min(20_000);
    while made < steps {
        now += rng.u64(..10_000_000);
        if rng.usize(..20) == 0 {
            now -= rng.u64(..100_000_000);
        }
        clock.set(Timestamp::from_micros(now));
        let decisions: Vec<Checks> =
            (0..=rng.usize(..60)).map(|_| decision(&policies, &users, &mut rng)).collect();
        let tasks: Vec<_> =
            decisions.iter().map(|checks| tokio::spawn(redis.check(checks.clone()))).collect();
        for (checks, task) in decisions.into_iter().zip(tasks) {
            let expected = memory.check(checks.clone()).await.unwrap();
            let outcome = task.await.unwrap().unwrap();
            assert_eq!(outcome.decisions(), expected.decisions(), "{checks:?} at {now}");
            denied += u64::from(!outcome.is_allowed());
            made += 1;
        }
    }
    let calls = server.calls("evalsha").unwrap();
    println!("{made} decisions in {calls} calls, {denied} denied");
    assert!(calls * 4 < made && denied * 10 > made, "{made} decisions in {calls} calls, {denied} denied");
}
