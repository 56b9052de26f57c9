//! What every announced wait has to be: sufficient, and one microsecond less is not.

use core::time::Duration;

use super::Algorithm;
use crate::{Retry, Timestamp};

/// Holds every wait that is announced about `state` at `now` against what the algorithm decides then.
pub(crate) fn are_sufficient_and_tight<A: Algorithm>(
    algorithm: &A,
    state: Option<&A::State>,
    now: Timestamp,
    cost: u32,
) {
    let after = |wait: Duration| now.saturating_add(wait);
    let just_before = |wait: Duration| after(wait).saturating_sub(Duration::from_micros(1));
    let admits = |then, cost| algorithm.rule(state, then, cost).admitted;
    let remaining = |then| algorithm.report(state, then, 0, true).remaining;

    let report = algorithm.report(state, now, cost, admits(now, cost));
    if let Some(Retry::After(wait)) = report.retry {
        assert!(admits(after(wait), cost) && !admits(just_before(wait), cost), "{wait:?}");
    }
    assert_eq!(report.retry == Some(Retry::Never), cost > report.limit);
    if report.remaining < report.limit {
        assert!(remaining(after(report.next_after)) > report.remaining);
        assert_eq!(remaining(just_before(report.next_after)), report.remaining);
    }
    if let Some(held) = state
        && !report.reset_after.is_zero()
    {
        let expiry = after(report.reset_after);
        assert_eq!(algorithm.expires_at(held), expiry.as_micros());
        assert_eq!(algorithm.decide(state, expiry, cost), algorithm.decide(None, expiry, cost));
        assert!(!admits(just_before(report.reset_after), report.limit));
    }
}
