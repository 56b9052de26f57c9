//! Long random walks of one key: a real Redis agrees with the arithmetic of core in every field of every answer.
//!
//! They cover what the random timelines do not reach: logs that span many blocks, wrap around and grow, and counts whose
//! products are not exact in a double.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use portcullis_core::algorithm::State;
use portcullis_core::store::{CheckResult, Checks, Renewal, Run, Store as _, Structure};
use portcullis_core::{
    CalendarWindow, Decision, FixedWindow, InFlight, Key, LeakyBucket, Policy, PolicyName, PolicySettings,
    Quota, Receipt, Refill, Retry, Secret, SlidingLog, SlidingWindow, Strategy, Timestamp, TokenBucket,
    WindowTable,
};
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use portcullis_testing::timeline;
use portcullis_testing::{ManualClock, calendars};

use crate::support::patient;

/// Runs walks until they have made `most` steps in all, or half as many as the random timelines if these are fewer, under
/// policies that `strategy` generates.
fn walk(most: u64, strategy: fn(&mut Rng) -> Strategy) {
    let steps = most.min(timeline::steps() / 2);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = RedisServer::start().unwrap();
    let clock = ManualClock::default();
    let redis = patient(&server).scenario_clock(clock.clone()).connect();
    let redis = runtime.block_on(redis).unwrap();
    let seed = timeline::seed();
    println!("seed {seed}");
    let mut rng = Rng(fastrand::Rng::with_seed(seed));
    let (mut done, mut denied) = (0, 0);
    while done < steps {
        let mut walker = Walker::new(&redis, &clock, done, strategy(&mut rng), &mut rng);
        for _ in 0..rng.below(600) {
            if rng.one_in(100) {
                walker.change_strategy(strategy(&mut rng));
            }
            denied += u64::from(runtime.block_on(walker.step(&mut rng)));
            done += 1;
        }
    }
    println!("{done} steps, {denied} denied");
    assert!(denied * 20 > done, "too few denials: {denied}");
}

#[test]
fn a_token_bucket_refilled_at_intervals_agrees() {
    walk(10_000, |rng| {
        let quota = Quota::new(rng.pick(&[1, 2, 3, 7, 100]), rng.period(), None).unwrap();
        let burst = rng.pick(&[1, 3, 10, 250]);
        Strategy::TokenBucket(TokenBucket::new(quota.burst(burst)).unwrap().refilled(Refill::Interval))
    });
}

#[test]
fn a_leaky_bucket_agrees() {
    walk(10_000, |rng| {
        let quota = Quota::new(rng.pick(&[1, 2, 3, 7, 100]), rng.period(), None).unwrap();
        Strategy::LeakyBucket(LeakyBucket::new(quota).unwrap())
    });
}

#[test]
fn token_buckets_with_a_longest_wait_agree() {
    walk(20_000, |rng| {
        let quota = if rng.one_in(4) {
            rng.large_quota()
        } else {
            Quota::new(rng.pick(&[1, 3, 7]), rng.period(), None).unwrap()
        };
        let quota = quota.burst(rng.pick(&[1, 3, 10]));
        let bucket = TokenBucket::new(quota).unwrap();
        let bucket = if rng.one_in(2) { bucket.refilled(Refill::Interval) } else { bucket };
        let rejects = Strategy::TokenBucket(bucket);
        let wait = Duration::from_micros(rng.pick(&[1, 7, 1_000, 999_999, 60_000_000, 3_600_000_000]));
        // Interval refill needs a wait as long as its period.
        let settings = PolicySettings { max_wait: Some(wait), ..PolicySettings::default() };
        let waits = Policy::try_new("walk", Ok(rejects), settings);
        waits.map_or(rejects, |waits| *waits.strategy())
    });
}

#[test]
fn the_largest_fixed_windows_agree() {
    walk(10_000, |rng| Strategy::FixedWindow(FixedWindow::new(rng.large_quota()).unwrap()));
}

#[test]
fn calendar_windows_of_several_time_zones_agree() {
    static SAME: OnceLock<[WindowTable; 3]> = OnceLock::new();
    // Under one name, as versions of the time zone data are, so that they share a state.
    let same = |table: &WindowTable| WindowTable::new("same", table.first(), table.starts()).unwrap();
    SAME.get_or_init(|| [0, 1, 2].map(|index| same(&calendars()[index])));
    walk(10_000, |rng| {
        let index = usize::try_from(rng.below(3)).unwrap();
        let table = if rng.one_in(8) { &calendars()[index] } else { &SAME.get().unwrap()[index] };
        let limit = rng.pick(&[1, 2, 3, 7, 100, Quota::MAX_UNITS]);
        Strategy::CalendarWindow(CalendarWindow::new(limit, table).unwrap())
    });
}

/// Before the first start and after the last one, where the clock steps in and out of them, with two versions of the data.
#[test]
fn calendar_windows_at_the_ends_of_a_table_agree() {
    const DAY: u64 = 86_400_000_000;
    let table = |first, days: &[u64]| -> &'static WindowTable {
        let starts: Vec<_> =
            days.iter().map(|day| Timestamp::from_micros(START * 3 / 2 + day * DAY)).collect();
        Box::leak(Box::new(WindowTable::new("days", first, starts.leak()).unwrap()))
    };
    TABLES.get_or_init(|| [table(1, &[0, 200]), table(1, &[1, 200]), table(7, &[0, 190, 200])]);
    walk(10_000, |rng| {
        let table = TABLES.get().unwrap()[usize::try_from(rng.below(3)).unwrap()];
        Strategy::CalendarWindow(CalendarWindow::new(rng.pick(&[1, 2, 3, 7]), table).unwrap())
    });
}

#[test]
fn the_largest_token_buckets_agree() {
    walk(20_000, |rng| {
        let quota = rng.large_quota();
        let burst = quota.burst(rng.pick(&[1, quota.limit() / 3 + 1, quota.limit(), Quota::MAX_UNITS]));
        let bucket = TokenBucket::new(burst).or_else(|_| TokenBucket::new(quota)).unwrap();
        Strategy::TokenBucket(if rng.one_in(2) { bucket.refilled(Refill::Interval) } else { bucket })
    });
}

#[test]
fn a_sliding_window_of_many_slots_and_large_counts_agrees() {
    walk(20_000, |rng| {
        let limit = rng.pick(&[1, 2, 5, 100, 1_000_000, 3_999_999_999, SlidingWindow::MAX_LIMIT]);
        let period = rng.pick(&[60, 600, 60_000_000, 2_592_000_000_000, LONGEST / 1_000 * 1_000]);
        let slots = rng.pick(&[1, 1, 2, 6, 60, 1_000]);
        let slots = if period % u64::from(slots) == 0 { slots } else { 1 };
        let quota = Quota::new(limit, Duration::from_micros(period), None).unwrap();
        Strategy::SlidingWindow(SlidingWindow::with_slots(quota, slots).unwrap())
    });
}

#[test]
fn a_sliding_log_of_many_blocks_agrees() {
    walk(30_000, |rng| {
        let limit = rng.pick(&[1, 2, 5, 60, 64, 65, 66, 100, 150, 300, 1_000, 2_000]);
        let quota = Quota::new(limit, rng.period(), None).unwrap();
        Strategy::SlidingLog(SlidingLog::new(quota).unwrap())
    });
}

#[test]
fn requests_in_flight_agree() {
    walk(30_000, |rng| {
        let limit = InFlight::new(rng.pick(&[1, 2, 3, 10, 100, 1_000])).unwrap();
        let lease = Duration::from_micros(rng.pick(&[1_000_000, 1_000_001, 30_000_000, 3_600_000_000]));
        Strategy::InFlight(limit.with_lease(lease).unwrap())
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
    /// What was left under other structures of the strategy, such as windows of other lengths: each has its own.
    left: HashMap<Structure, (Option<State>, Vec<Receipt>)>,
    /// The instants at which the last decision said that something changes.
    change_times: Vec<u64>,
}

impl<'a> Walker<'a> {
    fn new(
        redis: &'a RedisStore,
        clock: &'a ManualClock,
        id: u64,
        strategy: Strategy,
        rng: &mut Rng,
    ) -> Self {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("walk", &id.to_be_bytes());
        let (policy, key) = (Policy::new(PolicyName::literal("walk"), strategy), hasher.finish().unwrap());
        let now = if rng.one_in(10) { rng.below(1_000_000) } else { START + rng.below(START) };
        let now = Timestamp::from_micros(now);
        let (receipts, left, change_times) = (Vec::new(), HashMap::new(), Vec::new());
        Self { redis, clock, policy, key, now, state: None, receipts, left, change_times }
    }

    /// Puts the key, with its state and its receipts, under another policy. It finds those that it had there, if its windows differ.
    fn change_strategy(&mut self, strategy: Strategy) {
        let before = self.policy.strategy().structure();
        if strategy.structure() != before {
            let found = self.left.remove(&strategy.structure()).unwrap_or_default();
            let found =
                (std::mem::replace(&mut self.state, found.0), std::mem::replace(&mut self.receipts, found.1));
            self.left.insert(before, found);
        }
        self.policy = Policy::new(self.policy.name().clone(), strategy);
        self.receipts = std::mem::take(&mut self.receipts)
            .into_iter()
            .map(|receipt| receipt.with_policy(&self.policy))
            .collect();
    }

    /// Makes one random call. Returns whether it was a check that was denied.
    async fn step(&mut self, rng: &mut Rng) -> bool {
        self.now = self.next_instant(rng);
        self.clock.set(self.now);
        match rng.below(100) {
            0..6 if !self.receipts.is_empty() => self.refund(rng).await,
            6..10 if !self.receipts.is_empty() => self.settle(rng).await,
            11..16 => self.merge_receipts(rng),
            16..26 if matches!(self.policy.strategy(), Strategy::InFlight(_)) => self.renew(rng).await,
            10 => {
                self.redis.reset(&self.policy, self.key).await.unwrap();
                self.state = None;
            }
            _ => return self.check(rng).await,
        }
        false
    }

    async fn check(&mut self, rng: &mut Rng) -> bool {
        let (strategy, limit) = (*self.policy.strategy(), self.policy.strategy().limit());
        let costs =
            [0, 1, 1, 1, 2, 3, limit / 16, limit / 7, limit / 2, limit, limit.saturating_add(1), u64::MAX];
        let cost = rng.pick(&costs);
        let evaluation = strategy.evaluate(self.state.as_ref(), self.now, cost);
        strategy.apply_decision(&mut self.state, self.now, cost, evaluation, evaluation.admitted);
        let result = CheckResult::of(&strategy, self.state.as_ref(), self.now, cost, evaluation.admitted);
        let expected = Decision::new(&self.policy, self.now, result.snapshot);
        let outcome = self.redis.check(Checks::one(self.policy.clone(), self.key, cost)).await.unwrap();
        assert_eq!(*outcome.decision(), expected, "cost {cost} under {strategy:?}");
        self.record_change_times(&expected);
        for receipt in outcome.into_receipts() {
            assert_eq!(receipt.at(), self.now);
            assert_eq!(receipt.runs(), [Run { units: cost, position: result.position }]);
            self.receipts.push(receipt);
        }
        !evaluation.admitted
    }

    async fn refund(&mut self, rng: &mut Rng) {
        let receipt = self.take_receipt(rng);
        let strategy = *self.policy.strategy();
        strategy.refund(&mut self.state, self.now, receipt.refund_to(0));
        let decision = self.redis.refund(receipt).await.unwrap();
        self.assert_decision(&decision);
    }

    async fn settle(&mut self, rng: &mut Rng) {
        let receipt = self.take_receipt(rng);
        let strategy = *self.policy.strategy();
        let to = rng.pick(&[0, 1, receipt.cost() / 2, strategy.limit() / 3, strategy.limit(), u64::MAX]);
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
        self.assert_decision(&settlement.decision);
        let receipt = settlement.receipt.unwrap();
        match run.filter(|run| run.units > 0) {
            // After a step back of the clock, a charge may lie before all of a full receipt.
            Some(run)
                if receipt.runs().len() == Receipt::MAX_RUNS && run.position < receipt.runs()[0].position => {
            }
            Some(run) => assert!(receipt.runs().iter().any(|held| held.position == run.position), "{run:?}"),
            None => assert!(receipt.runs().len() <= runs.len()),
        }
        self.receipts.push(receipt);
    }

    /// Renews some of the receipts, one of them twice.
    async fn renew(&mut self, rng: &mut Rng) {
        let first = self.receipts.len().saturating_sub(usize::try_from(rng.below(150)).unwrap());
        let receipts = self.receipts[first..].iter().chain(self.receipts.last());
        let renewals: Vec<Renewal> = receipts.map(Renewal::of).collect();
        let strategy = *self.policy.strategy();
        let expected: Vec<_> = renewals
            .iter()
            .map(|renewal| {
                let held = strategy.renew(&mut self.state, self.now, renewal.runs()).held;
                renewal.found(held)
            })
            .collect();
        assert_eq!(self.redis.renew(renewals).await.unwrap(), expected);
    }

    /// Merges several receipts into one.
    fn merge_receipts(&mut self, rng: &mut Rng) {
        let Some(mut merged) = self.receipts.pop() else { return };
        for _ in 0..rng.pick(&[1, 2, 5, 100]) {
            let Some(receipt) = self.receipts.pop() else { break };
            if let Some(unmerged) = merged.absorb(receipt) {
                self.receipts.push(unmerged);
                break;
            }
        }
        self.receipts.push(if rng.one_in(4) { merged.if_newest() } else { merged });
    }

    fn assert_decision(&mut self, decision: &Decision) {
        let snapshot = self.policy.strategy().snapshot(self.state.as_ref(), self.now, 0, true);
        assert_eq!(
            *decision,
            Decision::new(&self.policy, self.now, snapshot),
            "{:?}",
            self.policy.strategy()
        );
        self.record_change_times(decision);
    }

    fn record_change_times(&mut self, decision: &Decision) {
        let retry = match decision.retry() {
            Some(Retry::After(wait)) => wait,
            _ => Duration::ZERO,
        };
        let waits = [decision.reset_after(), decision.next_after(), retry];
        self.change_times = waits.map(|wait| self.now.saturating_add(wait).as_micros()).to_vec();
    }

    /// Removes one of the held receipts, mostly one of the last five.
    fn take_receipt(&mut self, rng: &mut Rng) -> Receipt {
        let first = if rng.one_in(5) { 0 } else { self.receipts.len().saturating_sub(5) as u64 };
        let index = first + rng.below(self.receipts.len() as u64 - first);
        self.receipts.remove(usize::try_from(index).unwrap())
    }

    /// Mostly the same instant, or one close to one at which a figure changes; sometimes the clock steps, even backwards.
    fn next_instant(&self, rng: &mut Rng) -> Timestamp {
        let now = self.now.as_micros();
        let period = match self.policy.strategy() {
            Strategy::SlidingLog(log) => log.period(),
            Strategy::CalendarWindow(window) => window.table().longest(),
            Strategy::SlidingWindow(window) => window.period(),
            Strategy::InFlight(limit) => limit.lease(),
            _ => Duration::from_secs(1),
        };
        let period = u64::try_from(period.as_micros()).unwrap();
        let next = match rng.below(100) {
            0..40 => now,
            40..65 if !self.change_times.is_empty() => {
                (rng.pick(&self.change_times) + rng.below(3)).saturating_sub(1)
            }
            95.. => (now + rng.below(6 * period)).saturating_sub(3 * period),
            _ => {
                let part = rng.pick(&[1, 10, 100, 1_000]);
                now + rng.below(period / part + 2)
            }
        };
        Timestamp::from_micros(if next > START * 3 { START } else { next })
    }
}

/// Random choices for a walk.
struct Rng(fastrand::Rng);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0.u64(..end.max(1))
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.0.usize(..values.len())]
    }

    fn large_quota(&mut self) -> Quota {
        let most = Quota::MAX_UNITS;
        let limit = self.pick(&[1, 1 << 32, 123_456_789_012_345, 1 << 49, most - 1, most]);
        Quota::new(limit, self.period(), None).unwrap()
    }

    fn period(&mut self) -> Duration {
        Duration::from_micros(self.pick(&[60, 1_000, 100_000, 60_000_000, 3_600_000_000, 2_592_000_000_000]))
    }
}

static TABLES: OnceLock<[&WindowTable; 3]> = OnceLock::new();
/// An instant in the year 2001.
const START: u64 = 1_000_000_000_000_000;
/// The longest period that a quota may have, in microseconds.
const LONGEST: u64 = 1 << 51;
