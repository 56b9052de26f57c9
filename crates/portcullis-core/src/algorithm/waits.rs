//! A test of the waits in snapshots: each is sufficient, and one microsecond less is not.

use core::time::Duration;

use super::Algorithm;
use crate::{Retry, Timestamp};

/// Compares each wait in the snapshot of `state` at `now` with the decisions of the algorithm after that wait.
pub(crate) fn are_sufficient_and_tight<A: Algorithm>(
    algorithm: &A,
    state: Option<&A::State>,
    now: Timestamp,
    cost: u64,
) {
    let after = |wait: Duration| now.saturating_add(wait);
    let just_before = |wait: Duration| after(wait).saturating_sub(Duration::from_micros(1));
    let admits = |then, cost| algorithm.evaluate(state, then, cost).admitted;
    let remaining = |then| algorithm.snapshot(state, then, 0, true).remaining;

    let snapshot = algorithm.snapshot(state, now, cost, admits(now, cost));
    if let Some(Retry::After(wait)) = snapshot.retry {
        assert!(admits(after(wait), cost) && !admits(just_before(wait), cost), "{wait:?}");
    }
    assert_eq!(snapshot.retry == Some(Retry::Never), cost > snapshot.limit);
    if snapshot.remaining < snapshot.limit {
        assert!(remaining(after(snapshot.next_after)) > snapshot.remaining);
        assert_eq!(remaining(just_before(snapshot.next_after)), snapshot.remaining);
    }
    if let Some(held) = state
        && !snapshot.reset_after.is_zero()
    {
        let expiry = after(snapshot.reset_after);
        assert_eq!(algorithm.expires_at(held), expiry.as_micros());
        assert_eq!(algorithm.decide(state, expiry, cost), algorithm.decide(None, expiry, cost));
        assert!(remaining(just_before(snapshot.reset_after)) < snapshot.limit);
    }
}
