//! Long walks of one key: a real Redis agrees with the arithmetic of core in every field of every answer.
//!
//! Beside the random timelines, these go where a log spans many blocks, wraps round and grows, and where counts are too
//! large for a double to multiply.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use portcullis_core::{
    CheckResult, Checks, Decision, Key, LeakyBucket, Policy, PolicyName, Quota, Receipt, Refill, Retry, Run,
    Secret, SlidingLog, SlidingWindow, State, Store as _, Strategy, Timestamp, TokenBucket,
};
use portcullis_redis::RedisStore;
use portcullis_testing::timeline::seed;
use portcullis_testing::{ManualClock, RedisServer};

/// Walks until `steps` are made, each under policies that `strategy` makes up.
fn walk(steps: u32, strategy: fn(&mut Dice) -> Strategy) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = RedisServer::start().unwrap();
    let clock = ManualClock::default();
    let redis = RedisStore::builder(server.url()).deadline(PATIENCE).scenario_clock(clock.clone()).connect();
    let redis = runtime.block_on(redis).unwrap();
    let seed = seed();
    println!("seed {seed}");
    let mut dice = Dice(seed | 1);
    let (mut done, mut denied) = (0, 0);
    while done < steps {
        let mut walker = Walker::new(&redis, &clock, done, strategy(&mut dice), &mut dice);
        for _ in 0..dice.below(600) {
            if dice.one_in(100) {
                walker.adopt(strategy(&mut dice));
            }
            denied += u32::from(runtime.block_on(walker.step(&mut dice)));
            done += 1;
        }
    }
    println!("{done} steps, {denied} denied");
    assert!(denied * 20 > done, "too few denials: {denied}");
}

#[test]
fn of_a_token_bucket_refilled_as_a_whole() {
    walk(10_000, |dice| {
        let quota = Quota::new(dice.pick(&[1, 2, 3, 7, 100]), dice.period()).unwrap();
        let burst = dice.pick(&[1, 3, 10, 250]);
        Strategy::TokenBucket(TokenBucket::new(quota.burst(burst)).unwrap().refilled(Refill::Interval))
    });
}

#[test]
fn of_a_leaky_bucket() {
    walk(10_000, |dice| {
        let quota = Quota::new(dice.pick(&[1, 2, 3, 7, 100]), dice.period()).unwrap();
        Strategy::LeakyBucket(LeakyBucket::new(quota).unwrap())
    });
}

#[test]
fn of_a_sliding_window_of_many_slots_and_of_large_counts() {
    walk(20_000, |dice| {
        let limit = dice.pick(&[1, 2, 5, 100, 1_000_000, 3_999_999_999, u32::MAX]);
        let period = dice.pick(&[60, 600, 60_000_000, 2_592_000_000_000, LONGEST / 1_000 * 1_000]);
        let slots = dice.pick(&[1, 1, 2, 6, 60, 1_000]);
        let slots = if period % u64::from(slots) == 0 { slots } else { 1 };
        let quota = Quota::new(limit, Duration::from_micros(period)).unwrap();
        Strategy::SlidingWindow(SlidingWindow::with_slots(quota, slots).unwrap())
    });
}

#[test]
fn of_a_sliding_log_of_many_blocks() {
    walk(30_000, |dice| {
        let limit = dice.pick(&[1, 2, 5, 60, 64, 65, 66, 100, 150, 300, 1_000, 2_000]);
        let quota = Quota::new(limit, dice.period()).unwrap();
        Strategy::SlidingLog(SlidingLog::new(quota).unwrap())
    });
}

struct Walker<'a> {
    redis: &'a RedisStore,
    clock: &'a ManualClock,
    policy: Policy,
    key: Key,
    now: Timestamp,
    state: Option<State>,
    receipts: Vec<Receipt>,
    announced: Vec<u64>,
}

impl<'a> Walker<'a> {
    fn new(redis: &'a RedisStore, clock: &'a ManualClock, id: u32, of: Strategy, dice: &mut Dice) -> Self {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("walk", &id.to_be_bytes());
        let (policy, key) = (Policy::new(PolicyName::literal("walk"), of), hasher.finish().unwrap());
        let now = if dice.one_in(10) { dice.below(1_000_000) } else { START + dice.below(START) };
        let now = Timestamp::from_micros(now);
        Self { redis, clock, policy, key, now, state: None, receipts: Vec::new(), announced: Vec::new() }
    }

    /// Another quota for the living key.
    fn adopt(&mut self, strategy: Strategy) {
        self.policy = Policy::new(self.policy.name().clone(), strategy);
        self.receipts = std::mem::take(&mut self.receipts)
            .into_iter()
            .map(|receipt| receipt.with_policy(&self.policy))
            .collect();
    }

    /// Whether it was denied.
    async fn step(&mut self, dice: &mut Dice) -> bool {
        self.now = self.later(dice);
        self.clock.set(self.now);
        match dice.below(100) {
            0..6 if !self.receipts.is_empty() => self.refund(dice).await,
            6..10 if !self.receipts.is_empty() => self.settle(dice).await,
            11..16 => self.join(dice),
            10 => {
                self.redis.reset(&self.policy, self.key).await.unwrap();
                self.state = None;
            }
            _ => return self.check(dice).await,
        }
        false
    }

    async fn check(&mut self, dice: &mut Dice) -> bool {
        let (strategy, limit) = (*self.policy.strategy(), self.policy.strategy().limit());
        let costs =
            [0, 1, 1, 1, 2, 3, limit / 16, limit / 7, limit / 2, limit, limit.saturating_add(1), u32::MAX];
        let cost = dice.pick(&costs);
        let evaluation = strategy.evaluate(self.state.as_ref(), self.now, cost);
        strategy.conclude(&mut self.state, self.now, cost, evaluation, evaluation.admitted);
        let standing = CheckResult::of(&strategy, self.state.as_ref(), self.now, cost, evaluation.admitted);
        let expected = Decision::new(&self.policy, self.now, standing.snapshot);
        let outcome = self.redis.check(Checks::one(self.policy.clone(), self.key, cost)).await.unwrap();
        assert_eq!(*outcome.decision(), expected, "cost {cost} under {strategy:?}");
        self.announce(&expected);
        for receipt in outcome.into_receipts() {
            assert_eq!(receipt.at(), self.now);
            assert_eq!(receipt.runs(), [Run { units: cost, position: standing.position }]);
            self.receipts.push(receipt);
        }
        !evaluation.admitted
    }

    async fn refund(&mut self, dice: &mut Dice) {
        let receipt = self.receipt(dice);
        let strategy = *self.policy.strategy();
        strategy.refund(&mut self.state, self.now, receipt.refund_to(0));
        let decision = self.redis.refund(receipt).await.unwrap();
        self.expect(&decision);
    }

    async fn settle(&mut self, dice: &mut Dice) {
        let receipt = self.receipt(dice);
        let strategy = *self.policy.strategy();
        let to = dice.pick(&[0, 1, receipt.cost() / 2, strategy.limit() / 3, strategy.limit(), u32::MAX]);
        let (mut uncharged, mut run, missing) = (0, None, receipt.missing(to));
        if missing == 0 {
            strategy.refund(&mut self.state, self.now, receipt.refund_to(to));
        } else {
            let forced = strategy.force_charge(&mut self.state, self.now, missing);
            let position = strategy.position(self.state.as_ref(), self.now);
            (uncharged, run) = (forced.uncharged, Some(Run { units: forced.charged, position }));
        }
        let runs = receipt.runs().to_vec();
        let settlement = self.redis.settle(receipt, to).await.unwrap();
        assert_eq!(settlement.uncharged, uncharged);
        self.expect(&settlement.decision);
        let receipt = settlement.receipt.unwrap();
        match run.filter(|run| run.units > 0) {
            Some(run) => assert!(receipt.runs().iter().any(|held| held.position == run.position), "{run:?}"),
            None => assert!(receipt.runs().len() <= runs.len()),
        }
        self.receipts.push(receipt);
    }

    /// Makes one receipt of several.
    fn join(&mut self, dice: &mut Dice) {
        let Some(mut all) = self.receipts.pop() else { return };
        for _ in 0..dice.pick(&[1, 2, 5, 100]) {
            let Some(receipt) = self.receipts.pop() else { break };
            if let Some(of_another_kind) = all.absorb(receipt) {
                self.receipts.push(of_another_kind);
                break;
            }
        }
        self.receipts.push(if dice.one_in(4) { all.if_newest() } else { all });
    }

    fn expect(&mut self, decision: &Decision) {
        let snapshot = self.policy.strategy().snapshot(self.state.as_ref(), self.now, 0, true);
        assert_eq!(
            *decision,
            Decision::new(&self.policy, self.now, snapshot),
            "{:?}",
            self.policy.strategy()
        );
        self.announce(decision);
    }

    fn announce(&mut self, decision: &Decision) {
        let retry = match decision.retry() {
            Some(Retry::After(wait)) => wait,
            _ => Duration::ZERO,
        };
        let waits = [decision.reset_after(), decision.next_after(), retry];
        self.announced = waits.map(|wait| self.now.saturating_add(wait).as_micros()).to_vec();
    }

    fn receipt(&mut self, dice: &mut Dice) -> Receipt {
        let latest = if dice.one_in(5) { 0 } else { self.receipts.len().saturating_sub(5) as u64 };
        let index = latest + dice.below(self.receipts.len() as u64 - latest);
        self.receipts.remove(usize::try_from(index).unwrap())
    }

    /// Mostly the same instant or one that was announced; at times the clock steps.
    fn later(&self, dice: &mut Dice) -> Timestamp {
        let now = self.now.as_micros();
        let period = match self.policy.strategy() {
            Strategy::SlidingLog(log) => log.period(),
            Strategy::SlidingWindow(window) => window.period(),
            _ => Duration::from_secs(1),
        };
        let period = u64::try_from(period.as_micros()).unwrap();
        let then = match dice.below(100) {
            0..40 => now,
            40..65 if !self.announced.is_empty() => {
                (dice.pick(&self.announced) + dice.below(3)).saturating_sub(1)
            }
            95.. => (now + dice.below(6 * period)).saturating_sub(3 * period),
            _ => {
                let part = dice.pick(&[1, 10, 100, 1_000]);
                now + dice.below(period / part + 2)
            }
        };
        Timestamp::from_micros(if then > START * 3 { START } else { then })
    }
}

/// Marsaglia's xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 3) % end.max(1)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    fn period(&mut self) -> Duration {
        Duration::from_micros(self.pick(&[60, 1_000, 100_000, 60_000_000, 3_600_000_000, 2_592_000_000_000]))
    }
}

/// In the year 2001.
const START: u64 = 1_000_000_000_000_000;
/// The longest period that there is.
const LONGEST: u64 = 1 << 51;
/// What is late here is not wrong.
const PATIENCE: Duration = Duration::from_secs(10);
