use alloc::string::ToString;

use super::*;
use crate::{
    Anchor, FixedWindow, Gcra, PolicySettings, Quota, Refill, SlidingWindow, Timestamp, TokenBucket,
};

fn share(policy: Policy, instances: u32) -> Strategy {
    *policy.on_store_failure(FailureMode::local(instances)).share().unwrap().strategy()
}

#[test]
fn share_of_a_meter_divides_rate_and_burst() {
    let quota = Quota::per_second(10).burst(9);
    let period = Duration::from_secs(4);
    let quarter = Quota::new(10, period, Some(2)).unwrap();
    assert_eq!(share(Policy::gcra("a", quota), 4), *Policy::gcra("a", quarter).strategy());
    assert_eq!(share(Policy::leaky_bucket("a", quota), 4), *Policy::leaky_bucket("a", quarter).strategy());
    assert_eq!(share(Policy::gcra("a", quota), 1), *Policy::gcra("a", quota).strategy());
    assert_eq!(share(Policy::gcra("a", Quota::per_second(1)), 7).limit(), 1);
}

#[test]
fn a_policy_enforces_its_whole_limit_locally_by_default() {
    let quota = Quota::new(7, Quota::MAX_PERIOD, None).unwrap();
    for policy in [
        Policy::token_bucket("a", quota),
        Policy::gcra("a", quota),
        Policy::leaky_bucket("a", quota),
        Policy::fixed_window("a", quota),
        Policy::sliding_window("a", quota),
        Policy::sliding_log("a", quota),
        Policy::try_new("a", Gcra::new(quota), PolicySettings::default()).unwrap(),
    ] {
        assert_eq!(policy.failure_mode(), FailureMode::default());
        assert_eq!(policy.failure_mode(), FailureMode::local(1));
        assert_eq!(policy.share(), Some(policy));
    }
}

#[test]
fn modes_print_as_text() {
    let modes = [
        (FailureMode::default(), "local, whole limit"),
        (FailureMode::local(4), "local share 1/4"),
        (FailureMode::Open, "open"),
        (FailureMode::OpenFor(Duration::from_secs(30)), "open for 30s"),
        (FailureMode::Closed, "closed"),
    ];
    for (mode, text) in modes {
        assert_eq!(mode.to_string(), text);
    }
}

#[test]
fn share_of_an_interval_bucket_keeps_its_refill_instants() {
    let bucket = TokenBucket::new(Quota::per_minute(8)).unwrap().refilled(Refill::Interval);
    let Strategy::TokenBucket(share) = share(Policy::literal("a", Strategy::TokenBucket(bucket)), 4) else {
        panic!("it stays a token bucket");
    };
    assert_eq!((share.refill(), share.meter().burst()), (Refill::Interval, 2));
    assert_eq!(share.meter().grain(), 60_000_000);
    let strategy = Strategy::TokenBucket(share);
    let at = Timestamp::from_micros(30_000_000);
    let spent = strategy.decide(None, at, 2).after;
    let next = strategy.snapshot(spent.as_ref(), at, 1, false);
    assert_eq!((next.remaining, next.next_after), (0, Duration::from_secs(30)));
    assert_eq!(strategy.snapshot(spent.as_ref(), Timestamp::from_micros(60_000_000), 0, true).remaining, 2);
}

#[test]
fn share_of_a_window_is_per_period_or_one_per_several() {
    let policy = |limit| Policy::fixed_window("a", Quota::per_minute(limit));
    let window = |limit, minutes: u64| {
        let quota = Quota::new(limit, Duration::from_secs(60 * minutes), None).unwrap();
        Strategy::FixedWindow(FixedWindow::new(quota).unwrap())
    };
    assert_eq!(share(policy(100), 4), window(25, 1));
    assert_eq!(share(policy(7), 4), window(1, 1));
    assert_eq!(share(policy(4), 4), window(1, 1));
    assert_eq!(share(policy(3), 4), window(1, 2));
    assert_eq!(share(policy(1), 4), window(1, 4));

    let anchored = FixedWindow::new(Quota::per_minute(2)).unwrap().anchored(Anchor::FirstRequest);
    let Strategy::FixedWindow(half) = share(Policy::literal("a", Strategy::FixedWindow(anchored)), 2) else {
        panic!("it stays a fixed window");
    };
    assert_eq!((half.anchor(), half.limit()), (Anchor::FirstRequest, 1));

    let slotted = SlidingWindow::with_slots(Quota::per_minute(3), 6).unwrap();
    let Strategy::SlidingWindow(sixth) = share(Policy::literal("a", Strategy::SlidingWindow(slotted)), 6)
    else {
        panic!("it stays a sliding window");
    };
    assert_eq!((sixth.limit(), sixth.period(), sixth.slots()), (1, Duration::from_mins(2), 6));
    assert_eq!(
        share(Policy::sliding_log("a", Quota::per_minute(9)), 2),
        *Policy::sliding_log("a", Quota::per_minute(4)).strategy()
    );
}

#[test]
fn error_for_an_impossible_share_names_it() {
    let slow = Quota::new(1, Quota::MAX_PERIOD, None).unwrap();
    for policy in [
        Policy::gcra("slow", slow),
        Policy::token_bucket("slow", slow),
        Policy::leaky_bucket("slow", slow),
        Policy::fixed_window("slow", slow),
        Policy::sliding_window("slow", slow),
        Policy::sliding_log("slow", slow),
    ] {
        assert!(policy.clone().set_failure_mode(FailureMode::local(1)).is_ok());
        for instances in [2, u32::MAX] {
            let settings =
                PolicySettings { failure_mode: FailureMode::local(instances), ..PolicySettings::default() };
            let error = Policy::try_new("slow", Ok(*policy.strategy()), settings).unwrap_err().to_string();
            assert!(error.contains("slow") && error.contains(&instances.to_string()), "{error}");
            assert!(error.contains("2^51"), "{error}");
        }
    }
    let never = Policy::gcra("never", slow).set_failure_mode(FailureMode::OpenFor(Duration::ZERO));
    assert!(never.unwrap_err().to_string().contains("open for 0 s"));
}

#[test]
#[should_panic(expected = "longer than 2^51 microseconds")]
fn literal_share_beyond_the_bounds_panics() {
    let year = Quota::new(1, Duration::from_hours(8_760), None).unwrap();
    let _ = Policy::gcra("yearly", year).on_store_failure(FailureMode::local(100));
}

#[test]
#[should_panic(expected = "at least 1 instance")]
fn share_among_zero_instances_panics() {
    let _ = FailureMode::local(0);
}
