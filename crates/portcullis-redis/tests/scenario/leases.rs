//! Random timelines of one process whose policies lease, alone and together with a policy without a lease, of which a key may be blocked
//! or granted another quota: it admits no more than the memory store, and both report the same figures once nothing is in lease.
//!
//! The store is on the server's time, because on the time of a scenario it does not lease. The quotas replenish nothing while
//! a test runs, so the figures do not depend on time.

use std::time::{Duration, Instant};

use fastrand::Rng;
use portcullis_core::store::{Checks, Outcome, Store};
use portcullis_core::{
    Anchor, FixedWindow, Key, Policy, Quota, Receipt, Refill, Secret, SlidingWindow, Strategy, Timestamp,
    TokenBucket,
};
use portcullis_memory::MemoryStore;
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use portcullis_testing::{ManualClock, timeline};

use crate::support::{DEADLINE, patient};

const LIMIT: u64 = 500;
const LEASE: u64 = 50;

/// All algorithms that can be leased, with their options: each with the quotas of its callers, which share its states.
fn policies() -> Vec<Vec<Policy>> {
    let quota = Quota::per_week(LIMIT);
    let refilled = TokenBucket::new(quota).unwrap().refilled(Refill::Interval);
    let window = |anchor| Strategy::FixedWindow(FixedWindow::new(quota).unwrap().anchored(anchor));
    let odd = Anchor::Instant(Timestamp::from_micros(1_000_000_000_000_007));
    let slots = SlidingWindow::with_slots(quota, 10).unwrap();
    let alone = [
        Policy::literal("leased_refilled", Strategy::TokenBucket(refilled)),
        Policy::literal("leased_since", window(Anchor::FirstRequest)),
        Policy::literal("leased_odd", window(odd)),
        Policy::literal("leased_slots", Strategy::SlidingWindow(slots)),
        Policy::token_bucket("leased_bucket", quota),
        Policy::gcra("leased_gcra", quota.burst(LIMIT)),
        Policy::fixed_window("leased_window", quota),
        Policy::sliding_window("leased_sliding", quota),
    ];
    let plans =
        [Policy::fixed_window("leased_plan", quota), Policy::sliding_window("leased_sliding_plan", quota)];
    let of_callers = |plan: Policy| {
        let limits = [LIMIT / 3, LIMIT, LIMIT * 2].map(Quota::per_week);
        let plan = plan.lease(LEASE).caller_quotas(limits[0], limits[2]);
        limits.map(|quota| plan.with_quota(quota).unwrap()).to_vec()
    };
    alone.map(|policy| vec![policy.lease(LEASE)]).into_iter().chain(plans.map(of_callers)).collect()
}

#[tokio::test]
async fn leased_timelines_agree_with_memory() {
    let server = RedisServer::start().unwrap();
    let (clock, seed) = (ManualClock::default(), timeline::seed());
    println!("seed {seed}");
    clock.set(Timestamp::from_micros(1_000_000_000_000_000));
    let memory = MemoryStore::builder().clock(clock).build();
    let mut redis = connect(&server).await;
    let mut rng = Rng::with_seed(seed);
    let (policies, steps) = (policies(), (timeline::steps() / 2).min(20_000));
    let (mut counts, mut episode) = (Counts::default(), 0);
    while counts.made < steps {
        let exact = u64::try_from(20 + rng.usize(..300)).unwrap();
        let callers = &policies[episode % policies.len()];
        let mut subject = Subject::new(callers[0].clone(), exact, episode);
        for _ in 0..200 + rng.usize(..600) {
            match rng.usize(..100) {
                0 => redis.return_leases().await,
                98 => subject.change_override(&redis, &memory, rng.usize(..5)).await,
                // Another caller, or the same one under another plan.
                99 => subject.policy = callers[rng.usize(..callers.len())].clone(),
                1..20 if subject.is_correctable() => subject.correct(&redis, &memory, &mut rng).await,
                _ => {
                    let (cost, exact) =
                        ([1, 1, 1, 1, 1, 2, 3, 8][rng.usize(..8)], [0, 0, 1, 2][rng.usize(..4)]);
                    subject.check(&redis, &memory, (cost, exact), &mut counts).await;
                }
            }
        }
        match rng.usize(..3) {
            // The leases expire.
            _ if episode == 0 => {}
            // The store before it is dropped, and returns its leases then.
            0 => redis = connect(&server).await,
            _ => redis.return_leases().await,
        }
        subject.wait_for_equal_figures(&redis, &memory).await;
        episode += 1;
    }
    let Counts { made, admitted, leased, denied, undone } = counts;
    println!(
        "{made} checks, {admitted} admitted, {leased} of them from leases, {denied} denied, {undone} by the other policy"
    );
    assert!(undone > 0);
    assert!(leased * 4 > admitted && denied > 0, "{leased} of {admitted} from leases, {denied} denied");
}

#[derive(Default)]
struct Counts {
    made: u64,
    admitted: u64,
    leased: u64,
    denied: u64,
    /// The requests that only the policy without a lease has denied.
    undone: u64,
}

/// A key under a policy.
struct Subject {
    policy: Policy,
    /// A policy without a lease, for some of the checks.
    exact: Policy,
    key: Key,
    /// The receipts of each charge, of Redis and of memory.
    receipts: Vec<(Receipt, Receipt)>,
}

impl Subject {
    fn new(policy: Policy, exact: u64, episode: usize) -> Self {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("episode", &episode.to_be_bytes());
        // The limit may differ at each key.
        let exact = Policy::fixed_window("exact", Quota::per_week(exact));
        let exact = if episode.is_multiple_of(2) { exact.allow_overrides() } else { exact };
        Self { policy, exact, key: hasher.finish().unwrap(), receipts: Vec::new() }
    }

    /// Checks in Redis, and charges memory with what is admitted. The second cost is that of the policy without a lease.
    async fn check(
        &mut self,
        redis: &RedisStore,
        memory: &impl Store,
        (cost, exact): (u64, u64),
        counts: &mut Counts,
    ) {
        let mut checks = Checks::one(self.policy.clone(), self.key, cost);
        if exact > 0 {
            checks = checks.and(self.exact.clone(), self.key, exact).unwrap();
        }
        let outcome = redis.check(checks.clone()).await.unwrap();
        counts.made += 1;
        if outcome.is_allowed() {
            let expected = memory.check(checks).await.unwrap();
            assert!(expected.is_allowed(), "more than the limit of {:?} is admitted", self.policy);
            self.assert_same_limit(&outcome, &expected);
            counts.admitted += 1;
            counts.leased += u64::from(outcome.is_leased());
            self.receipts.extend(outcome.into_receipts().zip(expected.into_receipts()));
        } else {
            // A cost that exceeds the rest of a lease is denied if the server does not have it without that rest.
            let left = self.remaining(memory, &self.policy).await;
            let is_denied_by_exact = self.remaining(memory, &self.exact).await < exact;
            let is_denied = left < cost + LEASE || is_denied_by_exact;
            assert!(is_denied, "{cost} units of {:?} are denied, with {left} left", self.policy);
            counts.denied += 1;
            counts.undone += u64::from(left >= cost + LEASE);
        }
    }

    /// Blocks the key under the policy without a lease, grants it another quota, or ends that.
    async fn change_override(&self, redis: &RedisStore, memory: &impl Store, choice: usize) {
        let (policy, key) = (&self.exact, self.key);
        if !policy.reads_overrides() {
            return;
        }
        let day = Duration::from_secs(24 * 3_600);
        let grant = |limit| Some((Quota::per_week(limit), day));
        for store in [redis as &dyn Store, memory] {
            let answer = match choice {
                0 => store.block(policy, key, day),
                1 | 2 => store.unblock(policy, key),
                3 => store.set_grant(policy, key, grant(LIMIT / 2)),
                _ => store.set_grant(policy, key, None),
            };
            answer.await.unwrap();
        }
    }

    /// The policy without a lease reports an equal limit and equally many remaining units, under a grant as well.
    fn assert_same_limit(&self, outcome: &Outcome, expected: &Outcome) {
        let [own, expected] = [outcome, expected].map(|outcome| {
            let mut decisions = outcome.decisions().iter();
            let exact = decisions.find(|decision| decision.policy() == self.exact.name());
            exact.map(|decision| (decision.limit(), decision.remaining()))
        });
        assert_eq!(own, expected);
    }

    /// Whether there is a charge to correct. Under a bucket the figures after a refund depend on how much is replenished.
    fn is_correctable(&self) -> bool {
        let is_window =
            matches!(self.policy.strategy(), Strategy::FixedWindow(_) | Strategy::SlidingWindow(_));
        is_window && !self.receipts.is_empty()
    }

    /// Refunds a charge, or settles it to fewer units.
    async fn correct(&mut self, redis: &RedisStore, memory: &impl Store, rng: &mut Rng) {
        let (receipt, expected) = self.receipts.swap_remove(rng.usize(..self.receipts.len()));
        let to = if rng.usize(..2) == 0 { 0 } else { receipt.cost() / 2 };
        let settled = redis.settle(receipt, to).await.unwrap();
        let expected = memory.settle(expected, to).await.unwrap();
        let left = settled.receipt.zip(expected.receipt);
        self.receipts.extend(left.filter(|(receipt, _)| receipt.cost() > 0));
    }

    /// Waits until all unused units are returned: tasks in the background may do that.
    async fn wait_for_equal_figures(&self, redis: &RedisStore, memory: &impl Store) {
        let exact = self.remaining(memory, &self.exact).await;
        assert_eq!(self.remaining(redis, &self.exact).await, exact);
        let (expected, started) = (self.remaining(memory, &self.policy).await, Instant::now());
        loop {
            let left = self.remaining(redis, &self.policy).await;
            if left == expected {
                return;
            }
            let is_pending = left < expected && started.elapsed() < DEADLINE;
            assert!(is_pending, "{left} units of {:?} remain, and {expected} in memory", self.policy);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn remaining(&self, store: &impl Store, policy: &Policy) -> u64 {
        let peek = store.check(Checks::one(policy.clone(), self.key, 0)).await.unwrap();
        peek.decision().remaining()
    }
}

async fn connect(server: &RedisServer) -> RedisStore {
    patient(server).connect().await.unwrap()
}
