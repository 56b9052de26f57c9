//! Properties of every answer, for any call and store.

use std::time::Duration;

use portcullis_core::algorithm::{Meter, State};
use portcullis_core::{Decision, FixedWindow, Policy, Retry, Strategy, Timestamp};

/// An error that may be logged is one short line.
pub(crate) fn message(text: &str) {
    assert!(!text.is_empty() && text.len() <= MAX_MESSAGE, "{} bytes: {text}", text.len());
    assert!(!text.contains(char::is_control), "{text:?}");
}

/// The figures of a decision on `cost` are consistent.
pub(crate) fn decision(decision: &Decision, policy: &Policy, cost: u64) {
    let (limit, remaining) = (decision.limit(), decision.remaining());
    let (next, reset) = (decision.next_after(), decision.reset_after());
    assert_eq!((limit, decision.policy()), (policy.strategy().limit(), policy.name()));
    assert!(remaining <= limit, "{decision:?}");
    assert_eq!(remaining == limit, reset.is_zero(), "{decision:?}");
    // When a permit comes back is unknown.
    let is_known = !matches!(policy.strategy(), Strategy::InFlight(_));
    assert_eq!(remaining < limit && is_known, !next.is_zero(), "{decision:?}");
    assert!(next <= reset && reset <= longest(policy.strategy()), "{decision:?}");
    match decision.retry() {
        None => assert!(decision.delay() <= reset, "{decision:?}"),
        Some(Retry::Unknown) => assert!(cost > remaining && cost <= limit, "{decision:?}"),
        Some(Retry::Never) => assert!(cost > limit, "{decision:?}"),
        Some(Retry::After(wait)) => {
            assert!(cost > remaining && cost <= limit, "{decision:?}");
            // With a longest wait a request is admitted before it fits.
            assert!(policy.max_wait().is_some() || next <= wait, "{decision:?}");
            assert!(wait <= reset, "{decision:?}");
        }
    }
    assert!(policy.strategy().queues() || decision.delay().is_zero(), "{decision:?}");
}

/// A policy decides at any time without panicking.
pub(crate) fn policy(policy: &Policy) {
    let strategy = policy.strategy();
    for now in [Timestamp::EPOCH, PRESENT, Timestamp::MAX] {
        let mut state: Option<State> = None;
        for cost in [0, 1, strategy.limit(), u64::MAX] {
            let admitted = strategy.evaluate(state.as_ref(), now, cost).admitted;
            let charges = admitted && cost > 0 && cost <= MAX_UNITS;
            if charges {
                strategy.charge(&mut state, now, cost);
            }
            if charges || !admitted {
                let snapshot = strategy.snapshot(state.as_ref(), now, cost, admitted);
                decision(&Decision::new(policy, now, snapshot), policy, cost);
            }
        }
    }
}

/// The maximum time for which stored state matters: two periods, plus one slot for a sliding window, or the time in which the highest
/// level drains that the policy's debt and quotas permit.
fn longest(strategy: &Strategy) -> Duration {
    match strategy {
        Strategy::TokenBucket(bucket) => draining(bucket.meter()),
        Strategy::Gcra(gcra) => draining(gcra.meter()),
        Strategy::LeakyBucket(bucket) => draining(bucket.meter()),
        Strategy::FixedWindow(window) => FixedWindow::period(window) * 2,
        // Outside of its table there are two long windows.
        Strategy::CalendarWindow(_) => Timestamp::MAX.saturating_since(Timestamp::EPOCH),
        Strategy::SlidingWindow(window) => window.period() * 2 + window.slot(),
        Strategy::SlidingLog(log) => log.period() * 2,
        Strategy::InFlight(limit) => limit.lease(),
    }
}

fn draining(meter: &Meter) -> Duration {
    let ceiling = meter.ceiling().unwrap_or((meter.highest().micros + 1) * 2);
    Duration::from_micros(ceiling + meter.grain())
}

pub(crate) const PRESENT: Timestamp = Timestamp::from_micros(1_767_225_600_123_456);
const MAX_MESSAGE: usize = 1_000;
/// The most units that a log stores quickly.
const MAX_UNITS: u64 = 1_000;
