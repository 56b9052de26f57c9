use alloc::string::ToString as _;

use super::*;
use crate::{FailureMode, PolicySettings, Timestamp};

static STARTS: [Timestamp; 2] = [Timestamp::from_micros(100), Timestamp::from_micros(200)];
static TABLE: WindowTable = match WindowTable::new("test", 1, &STARTS) {
    Ok(table) => table,
    Err(_) => panic!("the starts ascend"),
};
const POLICY: Policy = Policy::calendar_window("monthly", 10, &TABLE).on_store_failure(FailureMode::local(4));

#[test]
fn a_limit_out_of_range_names_the_policy() {
    for (limit, why) in
        [(Quota::MAX_UNITS + 2, "1000000000000001 units"), (u64::MAX, "18446744073709551615 units")]
    {
        let window = CalendarWindow::new(limit, &TABLE);
        let error = Policy::try_new("monthly", window, PolicySettings::default()).unwrap_err().to_string();
        assert!(error.contains("monthly") && error.contains(why), "{error}");
    }
}

#[test]
fn a_share_is_a_part_of_each_window_and_has_a_unit() {
    let share = POLICY.share().unwrap();
    assert_eq!((share.strategy().limit(), share.strategy().window()), (2, POLICY.strategy().window()));
    let error = POLICY.clone().set_failure_mode(FailureMode::local(11)).unwrap_err().to_string();
    assert!(error.contains("11 instances") && error.contains("10 units"), "{error}");
}

#[test]
fn calendar_windows_are_not_leasable() {
    let error = POLICY.clone().set_lease(1).unwrap_err().to_string();
    assert!(error.contains("calendar_window"), "{error}");
}

#[test]
#[should_panic(expected = "1 to 64 printable ASCII characters")]
fn invalid_literal_name_panics() {
    let _ = Policy::gcra("caf\u{e9}", Quota::per_second(1));
}

#[test]
fn names_compare_by_their_text() {
    assert_eq!(PolicyName::literal("a"), PolicyName::new("a").unwrap());
    assert_ne!(PolicyName::literal("a"), PolicyName::literal("b"));
}
