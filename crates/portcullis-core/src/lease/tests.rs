mod steady;

use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::strategy::Strategy as Generate;

use super::*;
use crate::algorithm::{Snapshot, State};
use crate::store::{Refund, Run};
use crate::{Anchor, FixedWindow, Policy, Quota, Refill, SlidingWindow, Strategy, Timestamp, TokenBucket};

const PAGES: Policy = Policy::gcra("pages", Quota::per_second(3).burst(60));
const DAILY: Policy = Policy::fixed_window("daily", Quota::per_day(60));

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Charges a lease, and a request of cost 1, at the instant `at` of the store.
fn charge(policy: &Policy, state: &mut Option<State>, at: Timestamp, units: u64, sent: Duration) -> Answer {
    let strategy = policy.strategy();
    strategy.charge(state, at, units + 1);
    let snapshot = strategy.snapshot(state.as_ref(), at, units + 1, true);
    Answer { units, sent, at, snapshot, position: strategy.position(state.as_ref(), at) }
}

/// A lease of `units` that was charged from an empty state at the instant 0 of the process.
fn leased(policy: &Policy, units: u64) -> (KeyLease, Option<State>) {
    let (mut lease, mut state) = (KeyLease::new(*policy.strategy(), units), None);
    assert_eq!(lease.ask(units), units);
    let answer = charge(policy, &mut state, Timestamp::from_micros(3_600_000_000), units, millis(0));
    assert_eq!(lease.granted(policy.strategy(), answer, millis(1)), None);
    (lease, state)
}

fn runs(returned: Option<Returned>) -> Vec<u64> {
    returned.map_or_else(Vec::new, |returned| returned.runs().iter().map(|run| run.units).collect())
}

#[test]
fn a_lease_expires_a_second_after_the_call_was_sent() {
    let (mut lease, _) = leased(&DAILY, 10);
    assert!(lease.spend(DAILY.strategy(), 1, millis(999)).is_some());
    assert!(lease.take_expired(millis(999)).is_none());
    assert!(lease.spend(DAILY.strategy(), 1, millis(1_000)).is_none());
    assert_eq!(runs(lease.take_expired(millis(1_000))), [9]);
    // Until they are refunded they count, so that there is never more in lease than the maximum.
    assert_eq!((lease.in_lease(), lease.room()), (9, 1));
    lease.returned(9);
    assert!(lease.is_idle() && lease.room() == 10);
}

#[test]
fn a_lease_ends_with_its_fixed_window() {
    let policy = Policy::fixed_window("seconds", Quota::per_second(60));
    let (mut lease, mut state) = (KeyLease::new(*policy.strategy(), 9), None);
    assert_eq!(lease.ask(9), 9);
    let answer = charge(&policy, &mut state, Timestamp::from_micros(3_600_700_000), 9, millis(0));
    assert_eq!(lease.granted(policy.strategy(), answer, millis(1)), None);
    assert_eq!(lease.until(), Some(millis(300)));
}

#[test]
fn a_lease_ends_with_the_window_from_the_first_request() {
    let window = FixedWindow::new(Quota::per_second(60)).unwrap().anchored(Anchor::FirstRequest);
    let policy = Policy::literal("seconds", Strategy::FixedWindow(window));
    let (mut lease, mut state) = (KeyLease::new(*policy.strategy(), 9), None);
    policy.strategy().charge(&mut state, Timestamp::from_micros(3_600_700_000), 1);
    assert_eq!(lease.ask(9), 9);
    let answer = charge(&policy, &mut state, Timestamp::from_micros(3_601_100_000), 9, millis(0));
    assert_eq!(lease.granted(policy.strategy(), answer, millis(1)), None);
    assert_eq!(lease.until(), Some(millis(600)));
}

#[test]
fn a_reply_after_the_end_of_the_lease_is_returned() {
    let (mut lease, mut state) = (KeyLease::new(*DAILY.strategy(), 9), None);
    assert_eq!(lease.ask(9), 9);
    let answer = charge(&DAILY, &mut state, Timestamp::from_micros(0), 9, millis(0));
    assert_eq!(runs(lease.granted(DAILY.strategy(), answer, millis(1_000))), [9]);
    assert!(lease.spend(DAILY.strategy(), 1, millis(1_000)).is_none());
}

#[test]
fn there_is_one_call_for_a_lease_at_a_time() {
    let mut lease = KeyLease::new(*DAILY.strategy(), 9);
    assert_eq!((lease.ask(20), lease.ask(1), lease.room()), (9, 0, 0));
    lease.not_granted();
    assert_eq!(lease.ask(20), 9);
}

#[test]
fn another_quota_ends_the_lease() {
    let more = Policy::fixed_window("daily", Quota::per_day(90));
    let (mut lease, _) = leased(&DAILY, 9);
    assert!(lease.spend(more.strategy(), 1, millis(2)).is_none());
    assert_eq!(runs(lease.adapt(more.strategy(), 9)), [9]);
    assert!(lease.spend(DAILY.strategy(), 1, millis(2)).is_none());
}

#[test]
fn a_reset_drops_the_lease_and_older_replies() {
    let (mut lease, mut state) = leased(&DAILY, 9);
    lease.reset(millis(5));
    assert!(lease.spend(DAILY.strategy(), 1, millis(6)).is_none());
    assert_eq!(lease.ask(9), 9);
    let older = charge(&DAILY, &mut state, Timestamp::from_micros(0), 9, millis(5));
    assert_eq!(lease.granted(DAILY.strategy(), older, millis(6)), None);
    assert!(lease.is_idle());
}

#[test]
fn the_nth_unit_has_its_own_position() {
    let (mut lease, _) = leased(&PAGES, 9);
    let spends = [1, 2].map(|cost| lease.spend(PAGES.strategy(), cost, millis(2)).unwrap().run);
    // The request that has charged the lease has the first third of a second.
    let begun = 3_600_000_000;
    assert_eq!(spends.map(|run| run.position.micros - begun), [666_666, 1_333_333]);
    let [first, second] = spends;
    // A charge that is put back is spent again, and after the others.
    assert!(lease.put_back(first, millis(3)) && !lease.put_back(first, millis(1_000)));
    assert_eq!(runs(lease.take()), [1, 6]);
    assert!(!lease.put_back(second, millis(3)));
}

#[test]
fn figures_count_the_whole_lease_as_spent() {
    let (mut lease, _) = leased(&PAGES, 9);
    let spend = lease.spend(PAGES.strategy(), 1, millis(601)).unwrap();
    assert_eq!((spend.snapshot.remaining, spend.at.as_micros()), (50, 3_600_600_000));
    assert_eq!(spend.snapshot.next_after, Duration::from_micros(1));
}

#[test]
fn figures_follow_later_answers() {
    let (mut lease, state) = leased(&PAGES, 9);
    let [before, after] = [3_599_900_000, 3_600_100_000].map(Timestamp::from_micros);
    let denied = PAGES.strategy().snapshot(state.as_ref(), after, 55, false);
    assert!(denied.retry.is_some());
    lease.update(after, Snapshot { remaining: 7, ..denied }, millis(101));
    lease.update(before, Snapshot { remaining: 60, ..denied }, millis(102));
    let spend = lease.spend(PAGES.strategy(), 1, millis(201)).unwrap();
    assert_eq!((spend.snapshot.remaining, spend.snapshot.retry), (7, None));
    assert_eq!(spend.at.as_micros(), 3_600_200_000);
}

#[test]
fn keys_with_few_requests_are_not_leased() {
    let mut sizing = Sizing::new(millis(0));
    sizing.answered(1_000, millis(0));
    for request in 1..Sizing::HOT {
        sizing.requested(1, millis(request));
        assert_eq!(sizing.size(1, 100, millis(request)), 0);
    }
    sizing.requested(1, millis(10));
    // Ten requests in less than an interval count as ten in an interval.
    assert_eq!(sizing.size(1, 100, millis(10)), 40);
    assert_eq!(sizing.size(1, 20, millis(10)), 20);
    assert_eq!(sizing.size(1, 100, millis(600)), 0);
    sizing.denied(millis(10));
    sizing.answered(1_000, millis(11));
    assert_eq!(sizing.size(1, 100, millis(100)), 0);
}

/// A policy of each kind that can be leased. Within 15 seconds, units leave each but the second one.
fn policies() -> [Policy; 5] {
    let quota = Quota::new(60, Duration::from_secs(6), None).unwrap();
    let refilled = TokenBucket::new(quota).unwrap().refilled(Refill::Interval);
    [
        PAGES,
        DAILY,
        Policy::literal("refilled", Strategy::TokenBucket(refilled)),
        Policy::sliding_window("sliding", quota),
        Policy::literal("slots", Strategy::SlidingWindow(SlidingWindow::with_slots(quota, 10).unwrap())),
    ]
}

/// What happens to a lease while it lasts.
#[derive(Clone, Copy, Debug)]
enum LeaseStep {
    Spend(u64),
    PutBack(usize),
}

fn steps() -> impl Generate<Value = Vec<LeaseStep>> {
    let step =
        prop_oneof![(1_u64..5).prop_map(LeaseStep::Spend), any::<usize>().prop_map(LeaseStep::PutBack)];
    proptest::collection::vec(step, 0..40)
}

/// Frees `runs` one by one, and returns what is left.
fn refund(strategy: &Strategy, state: Option<&State>, at: Timestamp, runs: &[Run]) -> u64 {
    let mut state = state.cloned();
    for run in runs {
        strategy.refund(&mut state, at, Refund::of(&[*run]));
    }
    strategy.snapshot(state.as_ref(), at, 0, true).remaining
}

proptest! {
    #[test]
    fn parts_of_a_lease_free_at_most_its_whole(
        steps in steps(), units in 1_u64..30, later in 0_u64..15_000_000, policy in prop::sample::select(policies().to_vec())
    ) {
        let strategy = policy.strategy();
        let (mut lease, state) = leased(&policy, units);
        let top = strategy.position(state.as_ref(), Timestamp::from_micros(3_600_000_000));
        let mut spent: Vec<Run> = Vec::new();
        for step in steps {
            match step {
                LeaseStep::Spend(cost) => {
                    let held = lease.in_lease();
                    let spend = lease.spend(strategy, cost, millis(2));
                    prop_assert_eq!(spend.is_some(), cost <= held);
                    spent.extend(spend.map(|spend| spend.run));
                }
                LeaseStep::PutBack(index) if !spent.is_empty() => {
                    let run = spent.swap_remove(index % spent.len());
                    prop_assert!(lease.put_back(run, millis(2)));
                }
                LeaseStep::PutBack(_) => {}
            }
            let out: u64 = spent.iter().map(|run| run.units).sum();
            prop_assert_eq!(lease.in_lease() + out, units);
        }
        let rest = lease.take();
        spent.extend(rest.iter().flat_map(|rest| rest.runs().iter().copied()));
        let at = Timestamp::from_micros(3_600_000_000 + later);
        let whole = refund(strategy, state.as_ref(), at, &[Run { units, position: top }]);
        prop_assert!(refund(strategy, state.as_ref(), at, &spent) <= whole);
    }
}
