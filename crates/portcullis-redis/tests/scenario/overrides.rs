//! Grants, blocks and lock-outs: a real Redis agrees with the memory store in every field of every answer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use portcullis_core::overrides::{LockOut, Override};
use portcullis_core::store::{Checks, Outcome, Receipt, Renewal, Store};
use portcullis_core::{
    Anchor, Concurrency, Decision, FixedWindow, Key, Policy, PolicyName, Quota, Refill, SlidingWindow,
    Strategy, Timestamp, TokenBucket,
};
use portcullis_memory::MemoryStore;
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use portcullis_testing::{ManualClock, Scenario, StoreSubject, calendars, run, timeline};

use crate::support::{key, patient};

const QUOTA: Quota = Quota::per_minute(7);
const LOCK_OUT: LockOut =
    LockOut::after(5).within(Duration::from_secs(20)).block_for(Duration::from_secs(15)).up_to(MINUTE);
const MINUTE: Duration = Duration::from_secs(60);

/// All algorithms; all but the last of each kind read overrides.
fn policies() -> Vec<Policy> {
    let named =
        |name: &'static str, strategy| Policy::new(PolicyName::literal(name), strategy).allow_overrides();
    let refilled = TokenBucket::new(QUOTA).unwrap().refilled(Refill::Interval);
    let since = FixedWindow::new(QUOTA).unwrap().anchored(Anchor::FirstRequest);
    let slots = SlidingWindow::with_slots(QUOTA, 10).unwrap();
    vec![
        Policy::token_bucket("bucket", QUOTA).allow_overrides(),
        named("refilled", Strategy::TokenBucket(refilled)),
        Policy::gcra("gcra", QUOTA.burst(3)).allow_overrides(),
        Policy::leaky_bucket("queue", QUOTA).allow_overrides(),
        Policy::fixed_window("window", QUOTA).allow_overrides(),
        named("since", Strategy::FixedWindow(since)),
        Policy::calendar_window("calendar", 7, &calendars()[0]).allow_overrides(),
        Policy::sliding_window("sliding", QUOTA).allow_overrides(),
        named("slots", Strategy::SlidingWindow(slots)),
        Policy::sliding_log("log", QUOTA).allow_overrides(),
        Concurrency::new("permits", 7).policy().allow_overrides(),
        Policy::fixed_window("plain", QUOTA),
    ]
}

struct Walk {
    policies: Vec<Policy>,
    users: [Key; 3],
    rng: Rng,
}

impl Walk {
    fn policy(&mut self) -> Policy {
        let index = self.rng.usize(..self.policies.len());
        self.policies[index].clone()
    }

    fn user(&mut self) -> Key {
        let index = self.rng.usize(..self.users.len());
        self.users[index]
    }

    /// A decision under one to three policies.
    fn decision(&mut self) -> Checks {
        let (first, count) = (self.rng.usize(..self.policies.len()), 1 + self.rng.usize(..3));
        let mut checks: Option<Checks> = None;
        for offset in 0..count {
            let policy = self.policies[(first + offset) % self.policies.len()].clone();
            let (user, cost) = (self.user(), self.rng.u64(..5));
            checks = Some(match checks {
                None => Checks::one(policy, user, cost),
                Some(checks) => checks.and(policy, user, cost).unwrap(),
            });
        }
        checks.unwrap()
    }

    fn length(&mut self) -> Duration {
        Duration::from_micros(1 + self.rng.u64(..90_000_000))
    }

    fn grant(&mut self, policy: &Policy) -> Option<(Quota, Duration)> {
        if self.rng.u64(..4) == 0 {
            return None;
        }
        match self.rng.u64(..6) {
            0 => return Some((Quota::per_minute(0), self.length())),
            1 => return Some((Quota::UNLIMITED, self.length())),
            _ => {}
        }
        let quota = Quota::per_minute(1 + self.rng.u64(..20));
        let has_burst = matches!(policy.strategy().tag(), "gcra" | "token_bucket") && self.rng.u64(..2) == 0;
        let quota = if has_burst { quota.burst(1 + self.rng.u64(..20)) } else { quota };
        Some((quota, self.length()))
    }
}

/// All figures of an outcome. When the limit of a blocked key would be available without the block is not compared: a state that a
/// grant has filled beyond twice the policy's own limit is cut by the script, but not written.
fn shown(outcome: &Outcome) -> String {
    let decisions: Vec<_> = outcome
        .decisions()
        .iter()
        .map(|decision| {
            if !decision.is_blocked() {
                return format!("{decision:?}");
            }
            format!("blocked {:?} {} {}", decision.retry(), decision.limit(), decision.remaining())
        })
        .collect();
    let now = outcome.decision().at();
    let grant = |index| outcome.grant(index).map(|grant| (grant.quota(), grant.left(now)));
    let grants: Vec<_> = (0..outcome.checks().len()).map(grant).collect();
    format!("{decisions:?} {grants:?} {:?}", outcome.checks())
}

/// What a record has at an instant.
fn live(record: &Override, now: u64) -> String {
    let now = Timestamp::from_micros(now);
    let grant = record.grant().and_then(|grant| Some((grant.quota(), grant.left(now)?)));
    let counts = (record.denials(now), record.strikes(now));
    format!("{:?} {grant:?} {counts:?}", record.block_until(now))
}

/// Removes the records that have ended, which a store may have removed or not, before the clock steps back.
async fn forget_ended(walk: &Walk, redis: &RedisStore, memory: &impl Store, now: u64) {
    for policy in walk.policies.iter().filter(|policy| policy.reads_overrides()) {
        for user in walk.users {
            let record = redis.overrides(policy, user).await.unwrap();
            if record.expires_at().as_micros() > now {
                continue;
            }
            redis.unblock(policy, user).await.unwrap();
            memory.unblock(policy, user).await.unwrap();
            redis.set_grant(policy, user, None).await.unwrap();
            memory.set_grant(policy, user, None).await.unwrap();
        }
    }
}

#[tokio::test]
async fn grants_and_blocks_agree_with_memory() {
    let server = RedisServer::start().unwrap();
    let (clock, seed) = (ManualClock::default(), timeline::seed());
    println!("seed {seed}");
    let connect = || patient(&server).scenario_clock(clock.clone()).connect();
    // What one store changes, the others find.
    let redis = [connect().await.unwrap(), connect().await.unwrap()];
    let memory = MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build();
    let users = ["ada", "grace", "barbara"].map(key);
    let mut walk = Walk { policies: policies(), users, rng: Rng::with_seed(seed) };
    let mut now = 1_700_000_000_000_000_u64;
    let mut receipts: Vec<[Receipt; 2]> = Vec::new();
    let (mut denied, mut blocked, mut granted) = (0, 0, 0);
    let steps = timeline::steps().min(20_000);
    for step in 0..steps {
        now += walk.rng.u64(..4_000_000);
        if walk.rng.u64(..50) == 0 {
            forget_ended(&walk, &redis[0], &memory, now).await;
            now -= walk.rng.u64(..100_000_000);
        }
        clock.set(Timestamp::from_micros(now));
        let (policy, user) = (walk.policy(), walk.user());
        let redis = &redis[walk.rng.usize(..2)];
        let context = format!("step {step} under {}", policy.name());
        match walk.rng.u64(..20) {
            0 => {
                let grant = walk.grant(&policy);
                let [one, other] = [
                    redis.set_grant(&policy, user, grant).await,
                    memory.set_grant(&policy, user, grant).await,
                ];
                assert_eq!(one, other, "{context}");
            }
            1 => {
                let length = walk.length();
                let [one, other] =
                    [redis.block(&policy, user, length).await, memory.block(&policy, user, length).await];
                assert_eq!(one, other, "{context}");
            }
            2 => {
                let [one, other] = [redis.unblock(&policy, user).await, memory.unblock(&policy, user).await];
                assert_eq!(one, other, "{context}");
            }
            3 | 4 => {
                let count = walk.rng.u32(..4);
                let one = redis.record_denials(&policy, user, count, &LOCK_OUT).await;
                assert_eq!(one, memory.record_denials(&policy, user, count, &LOCK_OUT).await, "{context}");
            }
            5 if walk.rng.u64(..4) == 0 => {
                redis.reset(&policy, user).await.unwrap();
                memory.reset(&policy, user).await.unwrap();
            }
            6 => {
                let one = redis.overrides(&policy, user).await.map(|record| live(&record, now));
                let other = memory.overrides(&policy, user).await.map(|record| live(&record, now));
                assert_eq!(one, other, "{context}");
            }
            7 if !receipts.is_empty() => {
                let [one, other] = receipts.swap_remove(walk.rng.usize(..receipts.len()));
                let [one, other] = [redis.refund(one).await, memory.refund(other).await];
                assert_eq!(one, other, "{context}");
            }
            8 if !receipts.is_empty() => {
                let [one, other] = receipts.swap_remove(walk.rng.usize(..receipts.len()));
                let cost = walk.rng.u64(..9);
                let [one, other] = [redis.settle(one, cost).await, memory.settle(other, cost).await];
                assert_eq!(format!("{one:?}"), format!("{other:?}"), "{context}");
            }
            9 if !receipts.is_empty() => {
                // By the policy of the charge, or by the one without its grant.
                let renewals = |of: usize| {
                    let renewals = receipts.iter().map(move |receipts| Renewal::of(&receipts[of]));
                    renewals.map(|renewal| if step % 2 == 0 { renewal.with_policy(&policy) } else { renewal })
                };
                let [one, other] =
                    [redis.renew(renewals(0).collect()).await, memory.renew(renewals(1).collect()).await];
                assert_eq!(one, other, "{context}");
            }
            _ => {
                let checks = walk.decision();
                let one = redis.check(checks.clone()).await.unwrap();
                let other = memory.check(checks.clone()).await.unwrap();
                assert_eq!(shown(&one), shown(&other), "{context}: {checks:?}");
                denied += u64::from(!one.is_allowed());
                blocked += u64::from(one.decisions().iter().any(Decision::is_blocked));
                granted += u64::from((0..checks.len()).any(|index| one.grant(index).is_some()));
                receipts.extend(one.into_receipts().zip(other.into_receipts()).map(Into::into));
                receipts.truncate(20);
            }
        }
    }
    println!("{steps} steps, {denied} denied, {blocked} blocked, {granted} under grants");
    assert!(denied * 10 > steps && blocked * 100 > steps && granted * 100 > steps);
}

#[tokio::test]
async fn redis_passes_the_corpus_of_overrides() {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/overrides/grants_and_blocks.toml");
    let corpus = Scenario::read(file).unwrap();
    let server = RedisServer::start().unwrap();
    let clock = ManualClock::default();
    let redis = patient(&server).scenario_clock(clock.clone());
    let mut redis = StoreSubject::new(Arc::new(redis.connect().await.unwrap()), clock);
    let report = run(corpus.cases(), &mut redis).await;
    assert!(report.is_success() && report.skipped().is_empty(), "{report}");
    assert_eq!(report.passed(), corpus.cases().len());
}
