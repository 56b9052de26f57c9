//! Quotas in text, as in a configuration file.

use portcullis_core::{
    FixedWindow, Gcra, LeakyBucket, Mistakes, Policy, PolicyError, PolicySettings, Quota, QuotaError,
    SlidingLog, SlidingWindow, Strategy, TokenBucket,
};

use crate::sane;

/// Checks the properties of any text as a quota: it is an error, or it parses to a quota whose printed form parses to the same
/// quota, and every strategy accepts that quota or returns an error.
pub fn quota(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match text.parse::<Quota>() {
        Ok(quota) => {
            round_trips_as_text(quota);
            is_accepted_or_an_error(quota);
        }
        Err(error) => sane::message(&error.to_string()),
    }
}

fn round_trips_as_text(quota: Quota) {
    assert!(quota.explicit_burst() != Some(0) || quota.is_zero());
    assert!(!quota.period().is_zero() && quota.period() <= Quota::MAX_PERIOD);
    let printed = quota.to_string();
    assert_eq!(printed.parse(), Ok(quota), "{printed}");
}

fn policy(strategy: Result<impl Into<Strategy>, QuotaError>) -> Result<Policy, Mistakes<PolicyError>> {
    Policy::try_new("p", strategy, PolicySettings::default())
}

fn is_accepted_or_an_error(quota: Quota) {
    let (limit, burst) = (quota.limit(), quota.explicit_burst());
    let meters = [
        (policy(TokenBucket::new(quota)), burst.unwrap_or(limit)),
        (policy(Gcra::new(quota)), burst.unwrap_or(if quota.is_unlimited() { limit } else { limit.min(1) })),
        (policy(LeakyBucket::new(quota)), burst.unwrap_or(limit)),
    ];
    let windows = [
        (policy(FixedWindow::new(quota)), limit),
        (policy(SlidingWindow::new(quota)), limit),
        (policy(SlidingLog::new(quota)), limit),
    ];
    if burst.is_some() {
        assert!(windows.iter().all(|(window, _)| window.is_err()), "{quota} has a burst");
    }
    for (policy, limit) in meters.into_iter().chain(windows) {
        match policy {
            Ok(policy) => {
                assert_eq!(policy.strategy().limit(), limit, "{quota}");
                sane::policy(&policy);
            }
            Err(error) => sane::message(&error.to_string()),
        }
    }
    for slots in [0, 1, 7, 60, SlidingWindow::MAX_SLOTS, SlidingWindow::MAX_SLOTS + 1, u32::MAX] {
        if let Err(error) = SlidingWindow::with_slots(quota, slots) {
            sane::message(&error.to_string());
        }
    }
}
