use alloc::string::ToString;

use super::*;

const MICRO: Duration = Duration::from_micros(1);

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

#[test]
fn timestamps_saturate_below_2_to_the_53() {
    let last = 9_007_199_254_740_991;
    assert_eq!(Timestamp::MAX.as_micros(), last);
    assert_eq!(at(last - 1).as_micros(), last - 1);
    assert_eq!((at(last), at(last + 1), at(u64::MAX)), (Timestamp::MAX, Timestamp::MAX, Timestamp::MAX));
}

#[test]
fn sums_and_differences_saturate() {
    assert_eq!(at(5).saturating_add(Duration::from_nanos(2_999)), at(7));
    assert_eq!(at(5).saturating_sub(Duration::from_nanos(2_999)), at(3));
    assert_eq!(at(5).saturating_sub(MICRO * 6), Timestamp::EPOCH);
    assert_eq!(at(5).saturating_since(at(3)), MICRO * 2);
    assert_eq!(at(3).saturating_since(at(5)), Duration::ZERO);
    for endless in [Duration::MAX, Duration::from_secs(u64::MAX / 1_000_000 + 1)] {
        assert_eq!(at(5).saturating_add(endless), Timestamp::MAX);
        assert_eq!(at(5).saturating_sub(endless), Timestamp::EPOCH);
    }
}

#[test]
fn whole_microseconds_saturate() {
    let longest = Duration::from_micros(u64::MAX);
    assert_eq!(saturating_micros(Duration::from_micros(u64::MAX - 1)), u64::MAX - 1);
    assert_eq!(saturating_micros(longest), u64::MAX);
    assert_eq!(saturating_micros(longest + MICRO), u64::MAX);
    assert_eq!(saturating_micros(MICRO * 2), 2);
}

#[test]
fn timestamps_print_as_seconds() {
    assert_eq!(at(1_767_225_600_000_001).to_string(), "1767225600.000001");
    assert_eq!(at(999_999).to_string(), "0.999999");
}

#[cfg(feature = "std")]
#[test]
fn system_time_is_converted_from_the_epoch() {
    use std::time::SystemTime;

    assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH + MICRO * 7), at(7));
    assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH - MICRO), Timestamp::EPOCH);
}
