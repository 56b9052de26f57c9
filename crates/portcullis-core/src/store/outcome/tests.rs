use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::{Quota, Secret};

const TWO: Policy = Policy::gcra("two", Quota::per_second(1).burst(2));
const DAY: Policy = Policy::fixed_window("day", Quota::per_day(9));
const QUEUE: Policy = Policy::leaky_bucket("queue", Quota::per_second(4));
const NOW: Timestamp = Timestamp::from_micros(1_000_000);

fn key() -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"ada");
    hasher.finish().unwrap()
}

/// The outcome of checks in a store, as tuples of a policy, the units charged before and the cost.
fn outcome(checks: &[(Policy, u64, u64)]) -> Outcome {
    let ((first, _, cost), rest) = checks.split_first().unwrap();
    let asked = rest.iter().fold(Checks::one(first.clone(), key(), *cost), |asked, (policy, _, cost)| {
        asked.and(policy.clone(), key(), *cost).unwrap()
    });
    let results = checks.iter().map(|(policy, used, cost)| {
        let strategy = policy.strategy();
        let mut state = None;
        let _ = strategy.force_charge(&mut state, NOW, *used);
        let evaluation = strategy.evaluate(state.as_ref(), NOW, *cost);
        strategy.apply_decision(&mut state, NOW, *cost, evaluation, evaluation.admitted);
        CheckResult::of(strategy, state.as_ref(), NOW, *cost, evaluation.admitted)
    });
    Outcome::new(asked, NOW, results.collect::<Vec<_>>()).unwrap()
}

#[test]
fn each_charged_check_has_a_receipt_and_a_peek_has_none() {
    let allowed = outcome(&[(TWO, 0, 1), (DAY, 0, 3), (QUEUE, 0, 0)]);
    assert!(allowed.is_allowed());
    assert_eq!(allowed.decisions().len(), 3);
    assert_eq!(allowed.decision(), &allowed.decisions()[0]);
    let receipts: Vec<_> = allowed.into_receipts().collect();
    let figures: Vec<_> = receipts.iter().map(|of| (of.policy().name().as_str(), of.cost())).collect();
    assert_eq!(figures, [("two", 1), ("day", 3)]);
    assert!(receipts.iter().all(|receipt| receipt.key() == key() && receipt.at() == NOW));
    // The level ends one second later, and the day began at the epoch.
    let runs: Vec<_> = receipts.iter().flat_map(Receipt::runs).copied().collect();
    let run = |units, micros| Run { units, position: Position { micros, remainder: 0 } };
    assert_eq!(runs, [run(1, 2_000_000), run(3, 0)]);
}

#[test]
fn a_denial_has_no_receipts() {
    let denied = outcome(&[(DAY, 0, 3), (TWO, 2, 1)]);
    assert!(!denied.is_allowed());
    assert_eq!(denied.decision().policy().as_str(), "two");
    assert_eq!(denied.decisions()[0].policy().as_str(), "day");
    assert_eq!(denied.clone().into_decision(), *denied.decision());
    assert_eq!(denied.into_receipts().count(), 0);
}

#[test]
fn the_decisive_decision_has_the_longest_delay() {
    let allowed = outcome(&[(QUEUE, 2, 1), (TWO, 1, 1)]);
    assert_eq!(allowed.decision().policy().as_str(), "two");
    assert_eq!(allowed.decision().delay(), Duration::from_millis(500));
    let denied = outcome(&[(QUEUE, 2, 1), (TWO, 2, 1)]);
    assert!(!denied.is_allowed());
    assert!(denied.decisions().iter().all(|decision| decision.delay().is_zero()));
}

#[test]
fn too_few_results_make_no_outcome() {
    let checks = Checks::one(TWO, key(), 1).and(DAY, key(), 1).unwrap();
    let result = CheckResult::of(TWO.strategy(), None, NOW, 0, true);
    assert!(Outcome::new(checks.clone(), NOW, []).is_none());
    assert!(Outcome::new(checks.clone(), NOW, [result]).is_none());
    assert!(Outcome::new(checks, NOW, [result; 2]).is_some());
}

#[test]
fn with_policy_requires_the_same_name_and_strategy() {
    let receipt = || outcome(&[(TWO, 0, 2)]).into_receipts().next().unwrap();
    let changed = Policy::gcra("two", Quota::per_second(7));
    assert_eq!(receipt().with_policy(&changed).policy(), &changed);
    assert_eq!(receipt().with_policy(&changed).cost(), 2);
    assert_eq!(receipt().with_policy(&DAY), receipt());
    // Another strategy has another key: a charge under one is not refunded under the other.
    assert_eq!(receipt().with_policy(&Policy::token_bucket("two", Quota::per_second(7))), receipt());
    // Neither is one under a window refunded under a longer one.
    let weekly = Policy::fixed_window("day", Quota::per_week(9));
    let receipt = || outcome(&[(DAY, 0, 2)]).into_receipts().next().unwrap();
    assert_eq!(receipt().with_policy(&weekly), receipt());
    let more = Policy::fixed_window("day", Quota::per_day(9));
    assert_eq!(receipt().with_policy(&more).policy(), &more);
}

fn failure() -> StoreError {
    StoreError::new(crate::StoreErrorKind::Unavailable, "no connection")
}

#[test]
fn fallback_decides_and_has_receipts_for_counted_checks() {
    let asked = Checks::one(TWO, key(), 1).and(DAY, key(), 3).unwrap().and(QUEUE, key(), 1).unwrap();
    let metered = outcome(&[(DAY, 2, 3)]);
    let answer = Outcome::from_fallback(asked, Some(&metered), NOW, failure(), NonZeroU64::MIN);
    assert!(answer.is_allowed() && answer.decisions().iter().all(Decision::is_degraded));
    // Less remains of "two", but it is not metered.
    assert_eq!(answer.decision().policy().as_str(), "day");
    assert_eq!((answer.decision().remaining(), answer.decision().is_metered()), (4, true));
    assert_eq!((answer.failure(), answer.fallback_id()), (Some(&failure()), Some(NonZeroU64::MIN)));
    let receipts: Vec<_> = answer.into_receipts().collect();
    assert_eq!(receipts.len(), 1);
    assert_eq!((receipts[0].policy(), receipts[0].cost()), (&DAY, 3));
    assert_eq!(receipts[0].fallback_id(), Some(NonZeroU64::MIN));
}

#[test]
fn fallback_denial_has_no_receipts() {
    let asked = Checks::one(TWO, key(), 1).and(DAY, key(), 3).unwrap();
    let metered = outcome(&[(DAY, 9, 3)]);
    let answer = Outcome::from_fallback(asked, Some(&metered), NOW, failure(), NonZeroU64::MIN);
    assert!(!answer.is_allowed());
    assert_eq!(answer.decision().policy().as_str(), "day");
    assert_eq!(answer.into_receipts().count(), 0);
}

#[test]
fn with_policy_keeps_the_fallback_id() {
    let receipt = outcome(&[(TWO, 0, 1)]).into_receipts().next().unwrap();
    assert_eq!(receipt.fallback_id(), None);
    let fallback_id = receipt.charged_by(Some(NonZeroU64::MAX));
    let other = Policy::gcra("two", Quota::per_second(5).burst(5));
    assert_eq!(fallback_id.with_policy(&other).fallback_id(), Some(NonZeroU64::MAX));
}

/// Two outcomes of one request, joined. The tuples are those of [`outcome`].
fn two(first: &[(Policy, u64, u64)], later: &[(Policy, u64, u64)]) -> Option<Outcome> {
    outcome(first).joined(outcome(later))
}

#[test]
fn joined_outcomes_decide_as_if_made_at_once() {
    for (first, later) in [
        (vec![(TWO, 0, 1)], vec![(DAY, 0, 3)]),
        (vec![(DAY, 0, 3)], vec![(TWO, 0, 1)]),
        (vec![(QUEUE, 2, 1)], vec![(TWO, 1, 1), (DAY, 8, 1)]),
        (vec![(TWO, 1, 1)], vec![(QUEUE, 2, 1)]),
        (vec![(DAY, 0, 0)], vec![(QUEUE, 0, 2)]),
    ] {
        let at_once = outcome(&[first.clone(), later.clone()].concat());
        let joined = two(&first, &later).unwrap();
        assert_eq!(joined.decision(), at_once.decision());
        assert_eq!(joined.checks(), at_once.checks());
        assert!(joined.failure().is_none() && joined.fallback_id().is_none());
        let names = |outcome: &Outcome| -> Vec<_> {
            outcome.decisions().iter().map(|decision| decision.policy().clone()).collect()
        };
        assert_eq!(names(&joined), names(&at_once));
        let receipts: Vec<_> = joined.into_receipts().collect();
        assert_eq!(receipts, at_once.into_receipts().collect::<Vec<_>>());
    }
}

#[test]
fn joined_outcomes_are_leased_if_both_are() {
    let made = |policy: Policy, is_leased| {
        let exact = outcome(&[(policy, 0, 1)]);
        let results = exact.results().map(|result| (NOW, result));
        let leased = Outcome::leased(exact.checks().clone(), results.collect::<Vec<_>>()).unwrap();
        if is_leased { leased } else { exact }
    };
    for (first, later) in [(true, true), (true, false), (false, true), (false, false)] {
        let joined = made(TWO, first).joined(made(DAY, later)).unwrap();
        assert_eq!(joined.is_leased(), first && later);
    }
}

#[test]
fn a_denial_and_a_repeated_check_are_not_joined() {
    assert!(two(&[(TWO, 2, 1)], &[(DAY, 0, 1)]).is_none());
    assert!(two(&[(DAY, 0, 1)], &[(TWO, 2, 1)]).is_none());
    assert!(two(&[(DAY, 0, 1)], &[(DAY, 0, 1)]).is_none());
}

#[test]
fn joined_receipts_keep_their_fallback_ids() {
    let failure = StoreError::new(crate::StoreErrorKind::Unavailable, "no connection");
    let [one, other] = [7, 9].map(|id| NonZeroU64::new(id).unwrap());
    let by = |id: NonZeroU64, policy: Policy| {
        let checks = Checks::one(policy.clone(), key(), 1);
        Outcome::from_fallback(checks, Some(&outcome(&[(policy, 0, 1)])), NOW, failure.clone(), id)
    };
    let open = Outcome::unanswered(Checks::one(QUEUE, key(), 1), NOW, failure.clone());
    assert!(open.is_allowed() && !open.decision().is_metered());
    let hour = Policy::fixed_window("hour", Quota::per_hour(9));
    let joined = [by(one, DAY), open, by(other, hour)]
        .into_iter()
        .fold(outcome(&[(TWO, 0, 1)]), |joined, later| joined.joined(later).unwrap());
    assert_eq!(joined.failure(), Some(&failure));
    let charged: Vec<_> =
        joined.into_receipts().map(|receipt| (receipt.policy().clone(), receipt.fallback_id())).collect();
    let hour = Policy::fixed_window("hour", Quota::per_hour(9));
    assert_eq!(charged, [(TWO, None), (DAY, Some(one)), (hour, Some(other))]);
}

#[test]
fn with_position_moves_the_receipt_to_that_slot() {
    let ahead = outcome(&[(QUEUE, 0, 1), (DAY, 0, 1)]);
    let behind = outcome(&[(DAY, 1, 1), (QUEUE, 1, 1)]);
    assert_eq!([ahead.queue_index(), behind.queue_index()], [Some(0), Some(1)]);
    let (front, back) = (ahead.position(0).unwrap(), behind.position(1).unwrap());
    assert!(front < back);
    let positions = |outcome: Outcome| -> Vec<_> {
        outcome.into_receipts().flat_map(|receipt| receipt.runs().to_vec()).map(|run| run.position).collect()
    };
    let window = positions(behind.clone())[0];
    assert_eq!(positions(behind.with_position(1, front)), [window, front]);
}

#[test]
fn only_one_charged_leaky_bucket_is_a_queue() {
    let other = Policy::leaky_bucket("other", Quota::per_second(4));
    for none in [[(DAY, 0, 1), (TWO, 0, 1)], [(DAY, 0, 1), (QUEUE, 0, 0)], [(other, 0, 1), (QUEUE, 0, 1)]] {
        assert_eq!(outcome(&none).queue_index(), None);
    }
    assert_eq!(outcome(&[(QUEUE, 4, 1)]).queue_index(), None, "a denial charges nothing");
    assert_eq!(
        outcome(&[(QUEUE, 0, 1), (TWO, 2, 1)]).queue_index(),
        None,
        "nor does the denial of another policy"
    );
}

/// The result of one check in a server, for a key that was charged `used` units before.
fn by_server(policy: &Policy, used: u64, cost: u64) -> ServerResult<'static> {
    let strategy = policy.strategy();
    let mut state = None;
    let _ = strategy.force_charge(&mut state, NOW, used);
    let evaluation = strategy.evaluate(state.as_ref(), NOW, cost);
    strategy.apply_decision(&mut state, NOW, cost, evaluation, evaluation.admitted);
    ServerResult::Store(NOW, CheckResult::of(strategy, state.as_ref(), NOW, cost, evaluation.admitted))
}

fn by_standby(checks: &[(Policy, u64, u64)], asked: Checks) -> Outcome {
    Outcome::from_fallback(asked, Some(&outcome(checks)), NOW, failure(), NonZeroU64::MIN)
}

#[test]
fn servers_and_standby_form_one_outcome() {
    let asked = || {
        let first = Checks::one(TWO, key(), 1).and(DAY, key(), 3).unwrap();
        first.and(QUEUE, key(), 1).unwrap()
    };
    let local = by_standby(&[(DAY, 8, 1)], Checks::one(DAY, key(), 3));
    let results = [by_server(&TWO, 0, 1), ServerResult::Standby(&local), ServerResult::Missing];
    let mixed = Outcome::partial(asked(), results, Some(failure())).unwrap();
    assert!(mixed.is_allowed());
    let seen: Vec<_> =
        mixed.decisions().iter().map(|decision| (decision.is_degraded(), decision.is_metered())).collect();
    assert_eq!(seen, [(false, true), (true, true), (true, false)]);
    assert_eq!((mixed.decision().policy().as_str(), mixed.decision().remaining()), ("day", 0));
    let fallback_ids: Vec<_> = (0..3).map(|index| mixed.fallback_id_of(index)).collect();
    assert_eq!(fallback_ids, [None, Some(NonZeroU64::MIN), None]);
    let receipts: Vec<_> = mixed.into_receipts().collect();
    let figures: Vec<_> = receipts.iter().map(|of| (of.policy(), of.cost(), of.fallback_id())).collect();
    assert_eq!(figures, [(&TWO, 1, None), (&DAY, 3, Some(NonZeroU64::MIN))]);
}

#[test]
fn a_denial_by_a_standby_denies_all() {
    let asked = Checks::one(TWO, key(), 1).and(DAY, key(), 3).unwrap();
    let local = by_standby(&[(DAY, 9, 3)], Checks::one(DAY, key(), 3));
    let results = [by_server(&TWO, 0, 1), ServerResult::Standby(&local)];
    let denied = Outcome::partial(asked, results, Some(failure())).unwrap();
    assert_eq!((denied.is_allowed(), denied.decision().policy().as_str()), (false, "day"));
    assert!(denied.decision().is_degraded());
    assert_eq!(denied.into_receipts().count(), 0);
}

#[test]
fn unasked_policy_after_a_denial_is_not_degraded() {
    let asked = Checks::one(TWO, key(), 1).and(DAY, key(), 3).unwrap();
    let results = [ServerResult::NotAsked, by_server(&DAY, 9, 3)];
    let denied = Outcome::partial(asked, results, None).unwrap();
    assert_eq!((denied.is_allowed(), denied.decision().policy().as_str()), (false, "day"));
    let not_asked = &denied.decisions()[0];
    assert!(not_asked.is_allowed() && !not_asked.is_degraded() && !not_asked.is_metered());
    assert_eq!(not_asked.at(), NOW);
}

#[test]
fn incomplete_results_make_no_outcome() {
    let asked = || Checks::one(TWO, key(), 1).and(DAY, key(), 3).unwrap();
    let of = |results: Vec<ServerResult<'_>>, failure| Outcome::partial(asked(), results, failure);
    let local = by_standby(&[(DAY, 0, 3)], Checks::one(DAY, key(), 3));
    assert!(of(vec![by_server(&TWO, 0, 1)], Some(failure())).is_none());
    assert!(of(vec![by_server(&TWO, 0, 1), ServerResult::Missing], None).is_none());
    assert!(of(vec![by_server(&TWO, 0, 1), ServerResult::Standby(&local)], None).is_none());
    // The standby has no decision for the first check.
    assert!(of(vec![ServerResult::Standby(&local), by_server(&DAY, 0, 3)], Some(failure())).is_none());
    assert!(of(vec![by_server(&TWO, 0, 1), ServerResult::Standby(&local)], Some(failure())).is_some());
}
