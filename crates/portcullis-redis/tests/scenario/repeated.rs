//! Equal decisions about one key, which the script makes in one step: a real Redis agrees in every figure and position with the
//! memory store, which makes one after another.

mod damaged;
mod policies;

use fastrand::Rng;
use portcullis_core::store::{Checks, Outcome, Receipt, Store as _};
use portcullis_core::{Key, Policy, Timestamp};
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_testing::{ManualClock, timeline};

use crate::support::{key, patient};

fn users() -> [Key; 2] {
    ["ada", "grace"].map(key)
}

/// Decisions that arrive together: some series of equal ones, in between each other, and a few decisions under two policies.
fn arrivals(policies: &[Policy], users: &[Key], rng: &mut Rng) -> Vec<Checks> {
    let one = |rng: &mut Rng| {
        let (policy, user) = (policies[rng.usize(..policies.len())].clone(), users[rng.usize(..users.len())]);
        let limit = policy.strategy().limit();
        let cost = if limit > 100 && rng.usize(..2) == 0 {
            [limit / 16, limit / 7 + 1, limit / 3, limit, limit + 1][rng.usize(..5)]
        } else {
            [0, 1, 1, 1, 2, 3, u64::MAX][rng.usize(..7)]
        };
        Checks::one(policy, user, cost)
    };
    let kinds: Vec<Checks> = (0..=rng.usize(..3)).map(|_| one(rng)).collect();
    // Some fill more than a call.
    let most = [60, 60, 60, 180][rng.usize(..4)];
    let count = 2 + rng.usize(..most);
    let mut decisions = Vec::with_capacity(count);
    while decisions.len() < count {
        let kind = &kinds[rng.usize(..kinds.len())];
        decisions.push(kind.clone());
        if rng.usize(..12) == 0 {
            let (key, other) = (kind.iter().next().unwrap().key, &policies[rng.usize(..policies.len())]);
            // An error if it has the same policy.
            decisions.extend(kind.clone().and(other.clone(), key, 1));
        }
    }
    decisions
}

/// A few seconds later; sometimes the clock is set back.
fn next_instant(now: u64, rng: &mut Rng) -> u64 {
    let later = now + rng.u64(..20_000_000);
    if rng.usize(..20) == 0 { later - rng.u64(..200_000_000) } else { later }
}

fn receipts(outcome: Outcome) -> Vec<Receipt> {
    outcome.into_receipts().collect()
}

/// The tasks of a runtime with one thread begin in the order in which they are spawned.
#[tokio::test]
async fn repeated_decisions_agree_with_memory() {
    let server = RedisServer::start().unwrap();
    let (clock, seed) = (ManualClock::default(), timeline::seed());
    println!("seed {seed}");
    let redis = patient(&server).scenario_clock(clock.clone());
    let redis = redis.denial_memory(0).connect().await.unwrap();
    let memory = MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build();
    let mut rng = Rng::with_seed(seed);
    let (policies, users) = (policies::all(), users());
    let (mut now, mut made, mut denied, mut mixed) = (1_600_000_000_000_000_u64, 0_u64, 0_u64, 0_u64);
    let steps = timeline::steps().min(20_000);
    while made < steps {
        now = next_instant(now, &mut rng);
        clock.set(Timestamp::from_micros(now));
        let decisions = arrivals(&policies, &users, &mut rng);
        let tasks: Vec<_> =
            decisions.iter().map(|checks| tokio::spawn(redis.check(checks.clone()))).collect();
        let (mut admitted, mut rejected, mut charged) = (0_u64, 0_u64, Vec::new());
        for (checks, task) in decisions.into_iter().zip(tasks) {
            let expected = memory.check(checks.clone()).await.unwrap();
            let outcome = task.await.unwrap().unwrap();
            assert_eq!(outcome.decisions(), expected.decisions(), "{checks:?} at {now}");
            admitted += u64::from(outcome.is_allowed());
            rejected += u64::from(!outcome.is_allowed());
            made += 1;
            let (own, expected) = (receipts(outcome), receipts(expected));
            assert_eq!(own, expected, "{checks:?} at {now}");
            charged.extend(own.into_iter().zip(expected));
        }
        denied += rejected;
        mixed += u64::from(admitted > 0 && rejected > 0);
        // Refunds, and charges beyond the limit.
        if !charged.is_empty() && rng.usize(..3) == 0 {
            let (own, expected) = charged.swap_remove(rng.usize(..charged.len()));
            let limit = own.policy().strategy().limit();
            let cost = [rng.u64(..30), limit / 2, own.cost() / 2][rng.usize(..3)];
            let settled = redis.settle(own, cost).await.unwrap();
            let expected = memory.settle(expected, cost).await.unwrap();
            assert_eq!((settled.decision, settled.uncharged), (expected.decision, expected.uncharged));
        }
    }
    let [calls, reads] = ["evalsha", "get"].map(|command| server.calls(command).unwrap());
    println!("{made} decisions in {calls} calls with {reads} reads, {denied} denied, {mixed} mixed");
    assert!(calls * 4 < made && denied * 10 > made && mixed > 0, "{made} in {calls} calls, {denied} denied");
}
