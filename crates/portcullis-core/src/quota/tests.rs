use alloc::string::ToString;
use core::time::Duration;

use proptest::prelude::*;

use super::*;

#[test]
fn per_second_is_always_that_many_per_second() {
    assert_eq!(Quota::per_second(7), Quota::new(7, Duration::from_secs(1), None).unwrap());
    assert_eq!(Quota::per_minute(7).period(), Duration::from_mins(1));
    assert_eq!(Quota::per_hour(7).period(), Duration::from_hours(1));
    assert_eq!(Quota::per_day(7).period(), Duration::from_hours(24));
    assert_eq!(Quota::per_week(7).period(), Duration::from_hours(168));
}

#[test]
fn invalid_quotas_have_specific_errors() {
    let second = Duration::from_secs(1);
    assert_eq!(Quota::new(0, second, Some(1)), Err(QuotaError::BurstOfZero { burst: 1 }));
    assert_eq!(Quota::new(1, Duration::ZERO, None), Err(QuotaError::ZeroPeriod));
    assert_eq!(Quota::new(1, second, Some(0)), Err(QuotaError::ZeroBurst));
    let most = Quota::MAX_UNITS;
    assert!(Quota::new(most, second, Some(most)).is_ok());
    let too_many = Err(QuotaError::TooManyUnits { units: most + 1 });
    assert_eq!(Quota::new(most + 1, second, None), too_many);
    assert_eq!(Quota::new(1, second, Some(most + 1)), too_many);
    let odd = Duration::from_nanos(1_500);
    assert_eq!(Quota::new(1, odd, None), Err(QuotaError::FractionalPeriod(odd)));
    assert!(Quota::new(1, Quota::MAX_PERIOD, None).is_ok());
    let long = Quota::MAX_PERIOD + Duration::from_micros(1);
    assert_eq!(Quota::new(1, long, None), Err(QuotaError::PeriodTooLong(long)));
    assert_eq!(Quota::new(1, Duration::MAX, None), Err(QuotaError::PeriodTooLong(Duration::MAX)));
}

#[test]
#[should_panic(expected = "a quota of zero units has no burst")]
fn burst_of_literal_zero_panics() {
    let _ = Quota::per_second(0).burst(1);
}

#[test]
fn zero_and_unlimited_have_texts() {
    let zero = Quota::per_day(0);
    assert!(zero.is_zero() && !zero.is_unlimited() && zero.explicit_burst().is_none());
    assert_eq!(
        (zero.to_string().as_str(), "0/d".parse(), "0/d burst 0".parse()),
        ("0/d", Ok(zero), Ok(zero))
    );
    let unlimited = Quota::UNLIMITED;
    assert!(unlimited.is_unlimited() && !unlimited.is_zero());
    assert_eq!((unlimited.to_string().as_str(), " unlimited ".parse()), ("unlimited", Ok(unlimited)));
    assert!("unlimited/d".parse::<Quota>().is_err() && "Unlimited".parse::<Quota>().is_err());
}

#[test]
fn parse_errors_name_the_reason_and_the_text() {
    for (text, why) in [
        ("", "expected `<limit>/<period>`"),
        ("100", "expected `<limit>/<period>`"),
        ("/s", "the limit is not a number"),
        ("-1/s", "the limit is not a number"),
        ("+1/s", "the limit is not a number"),
        ("1000000000000000/s", "1000000000000000 units are more than the maximum of 999999999999999"),
        ("99999999999999999999/s", "from 0 to 999999999999999"),
        ("1/s burst 99999999999999999999", "from 1 to 999999999999999"),
        ("1/s burst 1000000000000000", "more than the maximum of 999999999999999"),
        ("0/s burst 3", "cannot have a burst of 3"),
        ("0/0s", "at least 1 microsecond"),
        ("many", "or `unlimited`"),
        ("1/0s", "at least 1 microsecond"),
        ("1/parsec", "us, ms, s, min, h, d or w"),
        ("1/s burst", "the burst is not a number"),
        ("1/s burst 0", "must be at least 1"),
        ("1/99999999999999999999s", "the period is not a number"),
        ("1/9999999999999999999w", "71 years"),
    ] {
        let error = text.parse::<Quota>().unwrap_err().to_string();
        assert!(error.contains(why), "{text:?}: {error}");
        assert!(error.contains(text), "{text:?}: {error}");
    }
}

#[test]
fn an_error_does_not_echo_a_megabyte() {
    let error = "9".repeat(1 << 20).parse::<Quota>().unwrap_err();
    assert!(error.to_string().len() < 300);
}

#[cfg(feature = "serde")]
#[test]
fn serde_reads_and_writes_the_text_form() {
    let quota: Quota = serde_json::from_str("\"10/s burst 20\"").unwrap();
    assert_eq!(quota, Quota::per_second(10).burst(20));
    assert_eq!(serde_json::to_string(&quota).unwrap(), "\"10/s burst 20\"");
    assert!(serde_json::from_str::<Quota>("\"10 apples\"").is_err());
}

proptest! {
    #[test]
    fn display_and_parse_round_trip(
        limit in 1..=Quota::MAX_UNITS, micros in 1u64..=MAX_MICROS, unit in 0usize..4, burst in proptest::option::of(1..=Quota::MAX_UNITS)
    ) {
        let unit = [1, 1_000, 1_000_000, 86_400_000_000][unit];
        let micros = (micros - micros % unit).max(unit);
        let mut quota = Quota::new(limit, Duration::from_micros(micros), None).unwrap();
        if let Some(burst) = burst {
            quota = quota.burst(burst);
        }
        prop_assert_eq!(quota.to_string().parse::<Quota>(), Ok(quota));
    }

    #[test]
    fn parsing_never_panics(text in ".*") {
        let _ = text.parse::<Quota>();
    }
}
