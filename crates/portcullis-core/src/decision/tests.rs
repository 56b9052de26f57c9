use super::*;
use crate::Quota;

const POLICY: Policy = Policy::gcra("search", Quota::per_second(2).burst(5));
const NOW: Timestamp = Timestamp::from_micros(7);

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn snapshot(retry: Option<Retry>, remaining: u64, reset_after: u64) -> Snapshot {
    let (reset_after, next_after) = (seconds(reset_after), seconds(reset_after / 2));
    Snapshot { limit: 5, remaining, reset_after, next_after, retry, delay: seconds(1), is_blocked: false }
}

fn decision(retry: Option<Retry>, remaining: u64, reset_after: u64) -> Decision {
    Decision::new(&POLICY, NOW, snapshot(retry, remaining, reset_after))
}

#[test]
fn accessors_report_the_snapshot() {
    let allowed = decision(None, 3, 8);
    assert!(allowed.is_allowed() && !allowed.is_degraded());
    assert_eq!((allowed.verdict(), allowed.retry()), (Verdict::Allow { delay: seconds(1) }, None));
    assert_eq!((allowed.limit(), allowed.remaining(), allowed.delay()), (5, 3, seconds(1)));
    assert_eq!((allowed.reset_after(), allowed.next_after(), allowed.at()), (seconds(8), seconds(4), NOW));
    assert_eq!(allowed.policy().as_str(), "search");

    let denied = decision(Some(Retry::Never), 0, 8);
    assert!(!denied.is_allowed() && !denied.is_degraded());
    assert_eq!((denied.verdict(), denied.retry()), (Verdict::Deny(Retry::Never), Some(Retry::Never)));
    assert_eq!(denied.delay(), Duration::ZERO);
}

#[test]
fn degraded_decision_reports_the_full_limit() {
    let degraded = Decision::degraded(&POLICY, NOW);
    assert!(degraded.is_allowed() && degraded.is_degraded() && !degraded.is_metered());
    assert_eq!((degraded.limit(), degraded.remaining(), degraded.reset_after()), (5, 5, Duration::ZERO));
    assert_eq!((degraded.next_after(), degraded.delay()), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn fallback_decision_keeps_its_figures() {
    let denied = decision(Some(Retry::Never), 3, 8);
    let as_fallback = denied.clone().as_fallback();
    assert!(as_fallback.is_degraded() && as_fallback.is_metered());
    assert_eq!((as_fallback.verdict(), as_fallback.remaining()), (denied.verdict(), denied.remaining()));
    assert!(denied.is_metered() && denied != as_fallback);
}

#[test]
fn rank_is_wait_then_least_remaining_then_longest_reset() {
    let after = |wait| Some(Retry::After(seconds(wait)));
    let ranks = [
        Decision::degraded(&POLICY, NOW),
        decision(None, 3, 8),
        decision(None, 3, 9),
        decision(None, 2, 1),
        decision(after(1), 4, 1),
        decision(after(2), 4, 1),
        decision(after(2), 3, 1),
        decision(after(2), 3, 2),
        decision(Some(Retry::Never), 5, 0),
    ];
    for (lower, decision) in ranks.iter().enumerate() {
        for (higher, other) in ranks.iter().enumerate() {
            assert_eq!(decision.outranks(other), lower > higher, "{lower} {higher}");
        }
    }
}

#[test]
fn denials_are_never_delayed() {
    let mut allowed = decision(None, 3, 8);
    allowed.delayed_by(seconds(3));
    assert_eq!(allowed.verdict(), Verdict::Allow { delay: seconds(3) });
    let mut denied = decision(Some(Retry::Never), 3, 8);
    denied.delayed_by(seconds(3));
    assert_eq!(denied.verdict(), Verdict::Deny(Retry::Never));
}
