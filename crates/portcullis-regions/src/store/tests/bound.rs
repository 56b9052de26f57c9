//! The bound: random requests, delays, losses and clocks.

use portcullis_core::Quota;
use portcullis_core::Strategy::{Gcra, TokenBucket};
use proptest::prelude::*;
use tokio::runtime::Builder;

use super::*;

const QUOTA: Quota = Quota::per_second(60);

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request to a process, with a cost.
    Request(usize, u64),
    /// A process refunds one of its requests.
    Refund(usize),
    /// Messages at an index of those on their way arrive, or are lost.
    Deliver(usize),
    Lose(usize),
    Advance(u64),
}

fn step() -> impl proptest::strategy::Strategy<Value = Step> {
    prop_oneof![
        12 => (0..PROCESSES, 1_u64..7).prop_map(|(process, cost)| Step::Request(process, cost)),
        1 => any::<usize>().prop_map(Step::Refund),
        12 => any::<usize>().prop_map(Step::Deliver),
        1 => any::<usize>().prop_map(Step::Lose),
        2 => (1_u64..60).prop_map(Step::Advance),
    ]
}

/// A request that was admitted.
#[derive(Debug)]
struct Admitted {
    /// On the clock of all.
    micros: u64,
    /// On the clock of its region.
    at: Timestamp,
    units: u64,
    process: usize,
    receipt: Option<Receipt>,
}

/// Three regions with two processes each, whose clocks differ from that of home by `skews` milliseconds.
async fn admitted(policy: &Policy, skews: [u64; 4], steps: &[Step], deadline: Duration) -> Vec<Admitted> {
    let start = 3_600_000_000;
    let clock = |skew: u64| ManualClock::new(Timestamp::from_micros(start + 1_000 * skew));
    let clocks = skews.map(clock);
    let hops = Arc::default();
    let home = Link::new(&clocks[3], &hops, true);
    let regions = [0, 1, 2].map(|region| Link::new(&clocks[region], &hops, false));
    let processes: Vec<RegionalStore> = (0..PROCESSES)
        .map(|process| {
            let store = RegionalStore::builder(regions[process % 3].clone(), home.clone(), shares());
            store.deadline(deadline).build().unwrap()
        })
        .collect();
    let mut all: Vec<Admitted> = Vec::new();
    let mut micros = start;
    for step in steps {
        match *step {
            Step::Request(process, cost) => {
                let checks = Checks::one(policy.clone(), key(), cost);
                let outcome = processes[process].check(checks).await.unwrap();
                if outcome.is_allowed() {
                    let at = outcome.decision().at();
                    let receipt = outcome.into_receipts().next();
                    all.push(Admitted { micros, at, units: cost, process, receipt });
                }
            }
            Step::Refund(index) if !all.is_empty() && !is_rate(policy) => {
                let index = index % all.len();
                let Admitted { process, receipt, .. } = &mut all[index];
                if let Some(receipt) = receipt.take() {
                    // It goes on without its caller, and counts as not admitted from the start.
                    drop(processes[*process].refund(receipt));
                    all.swap_remove(index);
                }
            }
            Step::Deliver(index) | Step::Lose(index) => {
                let mut hops = hops.lock().unwrap();
                if !hops.is_empty() {
                    let index = index % hops.len();
                    let _ = hops.remove(index).send(matches!(step, Step::Deliver(_)));
                }
            }
            Step::Advance(millis) => {
                for clock in &clocks {
                    clock.advance(Duration::from_millis(millis));
                }
                micros += 1_000 * millis;
                tokio::time::advance(Duration::from_millis(millis)).await;
            }
            Step::Refund(_) => {}
        }
        settle_down().await;
    }
    all
}

fn is_rate(policy: &Policy) -> bool {
    matches!(policy.strategy(), Gcra(_) | TokenBucket(_))
}

/// Three regions have a sixth of each limit, and home has half of it.
fn shares() -> Shares {
    Shares::equal(3).unwrap().set_aside(50).unwrap()
}

fn run(policy: &Policy, skews: [u64; 4], steps: &[Step], deadline: Duration) -> Vec<Admitted> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(admitted(policy, skews, steps, deadline))
}

fn sum<'a>(admitted: impl Iterator<Item = &'a Admitted>) -> u64 {
    admitted.map(|admitted| admitted.units).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_fixed_window_admits_at_most_its_limit(
        steps in proptest::collection::vec(step(), 100..800), skews in any::<[u16; 4]>(), short in any::<bool>()
    ) {
        let policy = Policy::fixed_window("api", QUOTA);
        let deadline = Duration::from_millis(if short { 200 } else { 3_600_000 });
        let all = run(&policy, skews.map(|skew| u64::from(skew % 700)), &steps, deadline);
        let window = |admitted: &Admitted| admitted.at.as_micros() / 1_000_000;
        for one in &all {
            prop_assert!(sum(all.iter().filter(|other| window(other) == window(one))) <= 60);
        }
    }

    #[test]
    fn a_sliding_log_admits_at_most_its_limit_in_any_period(
        steps in proptest::collection::vec(step(), 100..800), skews in any::<[u16; 4]>(), short in any::<bool>()
    ) {
        let policy = Policy::sliding_log("api", QUOTA);
        let deadline = Duration::from_millis(if short { 200 } else { 3_600_000 });
        let all = run(&policy, skews.map(u64::from), &steps, deadline);
        for last in &all {
            let is_in = |one: &&Admitted| one.micros <= last.micros && last.micros - one.micros < 1_000_000;
            prop_assert!(sum(all.iter().filter(is_in)) <= 60);
        }
    }

    #[test]
    fn sliding_window_admits_at_most_twice_its_limit_in_a_period(
        steps in proptest::collection::vec(step(), 100..800), skews in any::<[u16; 4]>()
    ) {
        let policy = Policy::sliding_window("api", QUOTA);
        let all = run(&policy, skews.map(u64::from), &steps, Duration::from_secs(3_600));
        for last in &all {
            let is_in = |one: &&Admitted| one.micros <= last.micros && last.micros - one.micros < 1_000_000;
            prop_assert!(sum(all.iter().filter(is_in)) <= 120);
        }
    }

    #[test]
    fn a_rate_admits_its_bound_and_what_is_on_its_way(
        steps in proptest::collection::vec(step(), 100..800), is_bucket in any::<bool>()
    ) {
        let quota = QUOTA.burst(60);
        let policy = if is_bucket { Policy::token_bucket("api", quota) } else { Policy::gcra("api", quota) };
        let all = run(&policy, [0; 4], &steps, Duration::from_secs(3_600));
        // One purchase of at most the region's share for each process.
        let pending = PROCESSES as u64 * 10;
        for first in &all {
            for last in all.iter().filter(|last| last.micros >= first.micros) {
                let span = last.micros - first.micros;
                let is_in = |one: &&Admitted| (first.micros..=last.micros).contains(&one.micros);
                prop_assert!(sum(all.iter().filter(is_in)) <= 60 + 60 * span / 1_000_000 + pending);
            }
        }
    }
}

const PROCESSES: usize = 6;
