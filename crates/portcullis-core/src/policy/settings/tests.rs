use alloc::string::{String, ToString};
use core::num::NonZeroU32;

use super::*;
use crate::{FixedWindow, Gcra, InFlight, Refill, TokenBucket};

const SECOND: Duration = Duration::from_secs(1);

fn made(name: &str, quota: Quota, settings: PolicySettings) -> Result<Policy, Mistakes<PolicyError>> {
    Policy::try_new(name, Gcra::new(quota), settings)
}

/// Settings of which each is wrong under any strategy.
fn wrong() -> PolicySettings {
    PolicySettings {
        failure_mode: FailureMode::OpenFor(Duration::ZERO),
        max_lease: Some(0),
        max_wait: Some(Duration::ZERO),
        max_debt: Some(u64::MAX),
        ..PolicySettings::default()
    }
}

#[test]
fn name_is_printable_ascii_and_short() {
    let longest = "x".repeat(PolicyName::MAX_LEN);
    assert!(made(&longest, Quota::per_second(1), PolicySettings::default()).is_ok());
    for (name, why) in [
        ("", "empty"),
        ("caf\u{e9}", "printable ASCII"),
        ("a\nb", "printable ASCII"),
        ("a\u{7f}", "printable ASCII"),
        ("x".repeat(65).as_str(), "65 characters"),
    ] {
        let error = made(name, Quota::per_second(1), PolicySettings::default()).unwrap_err().to_string();
        assert!(error.contains(why), "{name:?}: {error}");
    }
}

#[test]
fn strategy_error_names_the_policy() {
    let window = FixedWindow::new(Quota::per_second(1).burst(2));
    let error = Policy::try_new("login", window, PolicySettings::default()).unwrap_err().to_string();
    assert!(error.starts_with("policy login: a burst of 2"), "{error}");
}

#[test]
fn all_mistakes_are_returned_at_once() {
    let window = FixedWindow::new(Quota::per_second(1).burst(2));
    let errors = Policy::try_new("", window, wrong()).unwrap_err();
    let messages = [
        "the name of a policy is empty: it must be 1 to 64 printable ASCII characters",
        "policy unnamed: a burst of 2 is not supported by this strategy: only GCRA, the token bucket and the leaky bucket have one",
        "policy unnamed: open for 0 s is never open: use a longer time, or the mode closed",
        "policy unnamed: a lease of 0 units saves no call: it must be at least 1, or left out",
        "policy unnamed: a wait of at most 0 s is no wait: it must be at least 1 us, or left out",
        "policy unnamed: a debt of 18446744073709551615 units is too large: at this limit and rate it is at most 999999999999999",
    ];
    assert_eq!(errors.to_string(), messages.join("; "));
    assert_eq!(errors.len(), messages.len());
    assert!(errors.into_iter().map(|error| error.to_string()).eq(messages));
}

#[test]
fn mistakes_of_a_right_strategy_are_returned_at_once() {
    let quota = Quota::per_minute(60).burst(20);
    let callers = Some((Quota::per_minute(100), Quota::per_minute(10)));
    let settings = PolicySettings { max_lease: Some(21), caller_quotas: callers, ..wrong() };
    let errors = made("plans", quota, settings).unwrap_err();
    let starts: [&str; 5] = [
        "policy plans: open for 0 s",
        "policy plans: a lease of 21 units is more than the policy admits at one instant, which is 20",
        "policy plans: a wait of at most 0 s",
        "policy plans: a debt of 18446744073709551615 units",
        "policy plans: quotas from 100/min to 10/min: ",
    ];
    let errors: alloc::vec::Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(errors.iter().zip(starts).all(|(error, start)| error.starts_with(start)), "{errors:?}");
    assert_eq!(errors.len(), starts.len());
}

#[test]
fn mistake_is_no_cause_of_another() {
    // The share among too many instances is not an error of the wait as well.
    let slow = Quota::per(2, Quota::MAX_PERIOD);
    let instances = NonZeroU32::new(3).unwrap();
    let local =
        PolicySettings { failure_mode: FailureMode::Local { instances }, ..PolicySettings::default() };
    let errors = made("slow", slow, PolicySettings { max_debt: Some(0), ..local }).unwrap_err();
    assert!(
        matches!(
            errors.iter().as_slice(),
            [PolicyError::Part { error: PolicyPartError::FailureMode(_), .. }]
        ),
        "{errors}"
    );

    // Each of the three is right alone.
    let settings = PolicySettings {
        max_lease: Some(5),
        max_wait: Some(SECOND),
        allow_overrides: true,
        ..PolicySettings::default()
    };
    let errors = made("all", Quota::per_second(10).burst(10), settings).unwrap_err();
    assert!(matches!(
        errors.iter().as_slice(),
        [
            PolicyError::Part { error: PolicyPartError::Wait(_), .. },
            PolicyError::Part { error: PolicyPartError::Lease(LeaseError::Overrides), .. }
        ]
    ));

    // Nothing is compared with a quota that is wrong.
    let wide = Some((Quota::per_second(1), Quota::per_hour(1)));
    let settings = PolicySettings { caller_quotas: wide, ..PolicySettings::default() };
    let window = FixedWindow::new(Quota::per_second(1).burst(2));
    let errors = Policy::try_new("login", window, settings).unwrap_err();
    assert!(
        matches!(errors.iter().as_slice(), [PolicyError::Part { error: PolicyPartError::Quota(_), .. }]),
        "{errors}"
    );
}

#[test]
fn right_settings_are_no_mistakes_of_a_wrong_strategy() {
    let settings = PolicySettings {
        failure_mode: FailureMode::Local { instances: NonZeroU32::MAX },
        max_wait: Some(Policy::MAX_WAIT),
        max_debt: Some(Quota::MAX_UNITS),
        allow_overrides: true,
        ..PolicySettings::default()
    };
    let leased = PolicySettings { max_lease: Some(Quota::MAX_UNITS), ..PolicySettings::default() };
    for settings in [settings, leased] {
        let errors = Policy::try_new("exports", InFlight::new(1_001), settings).unwrap_err();
        assert!(
            matches!(errors.iter().as_slice(), [PolicyError::Part { error: PolicyPartError::Quota(_), .. }]),
            "{errors}"
        );
    }
}

#[test]
fn settings_of_a_policy_make_it_again() {
    let quota = Quota::per_minute(60).burst(20);
    let interval = TokenBucket::new(quota).unwrap().refilled(Refill::Interval);
    for policy in [
        Policy::gcra("a", quota),
        Policy::token_bucket("a", quota).on_store_failure(FailureMode::local(4)).lease(10),
        Policy::literal("a", Strategy::TokenBucket(interval))
            .wait_at_most(Policy::MAX_WAIT)
            .allow_debt(7)
            .caller_quotas(quota, Quota::per_minute(100).burst(200))
            .allow_overrides(),
    ] {
        let again = Policy::try_new("a", Ok(*policy.strategy()), policy.settings());
        assert_eq!(again, Ok(policy));
    }
}

#[test]
fn replaced_quota_keeps_all_settings() {
    let settings = PolicySettings {
        failure_mode: FailureMode::Closed,
        max_wait: Some(SECOND),
        max_debt: Some(3),
        caller_quotas: Some((Quota::per_second(5).burst(5), Quota::per_second(50).burst(50))),
        allow_overrides: true,
        ..PolicySettings::default()
    };
    let policy = made("search", Quota::per_second(10).burst(20), settings).unwrap();
    let replaced = policy.replace_quota(Quota::per_second(30)).unwrap();
    assert_eq!(replaced, made("search", Quota::per_second(30).burst(20), settings).unwrap());
    let burst = policy.replace_quota(Quota::per_second(10).burst(30)).unwrap();
    assert_eq!(burst, made("search", Quota::per_second(10).burst(30), settings).unwrap());
    let error = policy.replace_quota(Quota::per_second(51)).unwrap_err().to_string();
    assert!(error.starts_with("policy search: ") && error.contains("50/s"), "{error}");
}

#[test]
fn replaced_quota_keeps_the_strategy() {
    let day = Quota::per_day(5);
    let interval = TokenBucket::new(Quota::per_minute(5)).unwrap().refilled(Refill::Interval);
    for strategy in
        [interval.into(), *Policy::sliding_log("p", day).strategy(), InFlight::new(4).unwrap().into()]
    {
        let strategy: Strategy = strategy;
        let policy = Policy::literal("p", strategy);
        let replaced = policy.replace_quota(Quota::new(7, SECOND * 60, None).unwrap()).unwrap();
        assert_eq!((replaced.strategy().tag(), replaced.strategy().limit()), (strategy.tag(), 7));
    }
    let window = Policy::fixed_window("p", day);
    let error = window.replace_quota(day.burst(9)).unwrap_err().to_string();
    assert!(error.contains("a burst of 9 is not supported"), "{error}");
    let leased = Policy::fixed_window("p", day).lease(5);
    assert!(leased.replace_quota(Quota::per_day(4)).unwrap_err().to_string().contains("lease"));
}
