//! Errors name the field, the value and the fix.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use serde::de::DeserializeOwned;

use crate::{FailureMode, FailureModeError, Policy, PolicyName, Quota, Strategy};

fn error<T: DeserializeOwned>(text: &str) -> String {
    match serde_json::from_str::<T>(text) {
        Ok(_) => panic!("{text} is not an error"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn fails<T: DeserializeOwned>(text: &str, parts: &[&str]) {
    let error = error::<T>(text);
    for part in parts {
        assert!(error.contains(part), "{text}: {error:?} does not contain {part:?}");
    }
}

#[test]
fn unknown_fields_and_names_list_the_known_ones() {
    fails::<Strategy>(r#"{"strategi": "gcra"}"#, &["unknown field `strategi`", "`strategy`", "`slots`"]);
    let with_name = error::<Strategy>(r#"{"name": "a", "strategy": "gcra", "quota": "1/s"}"#);
    assert!(
        with_name.contains("unknown field `name`") && !with_name.contains("`on_store_failure`"),
        "{with_name}"
    );
    fails::<Policy>(
        r#"{"on_failure": "open"}"#,
        &["unknown field `on_failure`", "`name`", "`on_store_failure`"],
    );
    fails::<Strategy>(
        r#"{"strategy": "leaky_can", "quota": "1/s"}"#,
        &["unknown strategy `leaky_can`", "`leaky_bucket`", "`sliding_log`"],
    );
    fails::<Strategy>(
        r#"{"strategy": "token_bucket", "quota": "1/s", "refill": "hourly"}"#,
        &["unknown refill `hourly`", "`greedy`, `interval`"],
    );
    fails::<Strategy>(
        r#"{"strategy": "fixed_window", "quota": "1/s", "anchor": "monday"}"#,
        &["unknown anchor `monday`", "\"first_request\"", "microseconds since the Unix epoch"],
    );
}

#[test]
fn fields_of_other_strategies_are_errors() {
    fails::<Strategy>(
        r#"{"strategy": "token_bucket", "quota": "1/s", "slots": 6}"#,
        &["unknown field `slots` of token_bucket", "`burst`, `refill`", "`slots` is for `sliding_window`"],
    );
    fails::<Strategy>(
        r#"{"strategy": "sliding_log", "quota": "1/s", "anchor": "epoch"}"#,
        &["unknown field `anchor` of sliding_log", "only its quota", "`anchor` is for `fixed_window`"],
    );
    fails::<Strategy>(
        r#"{"strategy": "gcra", "quota": "1/s", "refill": "greedy"}"#,
        &["unknown field `refill` of gcra", "`refill` is for `token_bucket`"],
    );
    fails::<Strategy>(
        r#"{"strategy": "fixed_window", "limit": 1, "period": "1s", "burst": 2}"#,
        &["unknown field `burst` of fixed_window", "`token_bucket`, `gcra`, `leaky_bucket`"],
    );
}

#[test]
fn a_strategy_has_one_quota() {
    for field in [r#""limit": 5"#, r#""period": "1s""#, r#""burst": 5"#] {
        let name = field.split(':').next().unwrap().trim_matches('"');
        let text = format!(r#"{{"strategy": "gcra", "quota": "10/s burst 20", {field}}}"#);
        fails::<Strategy>(
            &text,
            &["`quota = \"10/s burst 20\"`", &format!("`{name}` are both given"), "write either"],
        );
    }
    fails::<Strategy>(r#"{"strategy": "gcra"}"#, &["missing field `quota`", "10/s burst 20"]);
    fails::<Strategy>(r#"{"strategy": "gcra", "period": "1s"}"#, &["missing field `limit`"]);
    fails::<Strategy>(r#"{"strategy": "gcra", "limit": 1}"#, &["missing field `period`", "15min"]);
    fails::<Strategy>(r#"{"strategy": "gcra", "burst": 1}"#, &["missing field `limit`"]);
    fails::<Strategy>(r#"{"quota": "1/s"}"#, &["missing field `strategy`", "`gcra`"]);
    fails::<Strategy>(
        r#"{"strategy": "gcra", "quota": "1/s", "quota": "2/s"}"#,
        &["duplicate field `quota`"],
    );
}

#[test]
fn invalid_values_are_named_with_their_field() {
    let gcra = |fields: &str| format!(r#"{{"strategy": "gcra", {fields}}}"#);
    for (fields, parts) in [
        (r#""quota": "10 apples""#, ["\"10 apples\"", "<limit>/<period>"]),
        (r#""quota": 10"#, ["integer `10`", "a quota, such as \"10/s burst 20\""]),
        (r#""limit": 0, "period": "1s", "burst": 3"#, ["`burst` of gcra", "zero units"]),
        (r#""limit": "all", "period": "1s""#, ["\"all\"", "whole number of units or \"unlimited\""]),
        (r#""limit": -1, "period": "1s""#, ["integer `-1`", "`limit`, a whole number"]),
        (r#""limit": 1.5, "period": "1s""#, ["`1.5`", "`limit`, a whole number"]),
        (r#""limit": 1000000000000000, "period": "1s""#, ["`limit` of gcra", "1000000000000000 units"]),
        (r#""limit": 1, "period": "0s""#, ["`period` of gcra", "at least 1 microsecond"]),
        (r#""limit": 1, "period": "72 years""#, ["\"72 years\"", "us, ms, s, min, h, d or w"]),
        (r#""limit": 1, "period": 60"#, ["integer `60`", "`period`, a duration such as \"15min\""]),
        (r#""limit": 1, "period": "9999w""#, ["`period` of gcra", "71 years"]),
        (r#""limit": 1, "period": "1s", "burst": 0"#, ["`burst` of gcra", "at least 1"]),
        (r#""limit": 1, "period": "1w", "burst": 999999"#, ["`burst` of gcra", "a burst of 999999"]),
    ] {
        fails::<Strategy>(&gcra(fields), &parts);
    }
    fails::<Strategy>(
        r#"{"strategy": "fixed_window", "quota": "1/s burst 2"}"#,
        &["`quota` of fixed_window", "a burst of 2", "only GCRA"],
    );
    fails::<Strategy>(
        r#"{"strategy": "sliding_log", "limit": 100001, "period": "1s"}"#,
        &["`limit` of sliding_log", "100001", "use a sliding window"],
    );
    for slots in ["0", "7", "1001"] {
        let text = format!(r#"{{"strategy": "sliding_window", "quota": "1/s", "slots": {slots}}}"#);
        fails::<Strategy>(&text, &["`slots` of sliding_window", slots, "1 to 1000"]);
    }
    fails::<Strategy>(
        r#"{"strategy": "sliding_window", "quota": "1/s", "slots": 4294967296}"#,
        &["4294967296", "`slots`, a number from 1 to 1000"],
    );
    for anchor in ["-1", "9007199254740992"] {
        let text = format!(r#"{{"strategy": "fixed_window", "quota": "1/s", "anchor": {anchor}}}"#);
        fails::<Strategy>(&text, &[anchor, "`anchor`", "9007199254740991"]);
    }
    fails::<Strategy>("5", &["integer `5`", "a strategy, such as"]);
}

#[test]
fn invalid_failure_modes_name_the_forms() {
    for (text, parts) in [
        (r#""ajar""#, ["unknown failure mode `ajar`", "{ local = 4 }"]),
        ("4", ["integer `4`", "{ open_for = \"30s\" }"]),
        ("{}", ["`local` or `open_for`", "empty"]),
        (r#"{"closed": true}"#, ["unknown field `closed`", "`local`, `open_for`"]),
        (r#"{"local": 4, "open_for": "30s"}"#, ["one `local` or one `open_for`", "remove"]),
        (r#"{"local": 0}"#, ["0 instances", "at least 1"]),
        (r#"{"local": "4"}"#, ["string \"4\"", "`local`, a number of instances"]),
        (r#"{"open_for": "0s"}"#, ["open for 0 s", "closed"]),
        (r#"{"open_for": 30}"#, ["integer `30`", "`open_for`, a duration such as \"30s\""]),
        (r#"{"open_for": "soon"}"#, ["\"soon\"", "us, ms, s, min, h, d or w"]),
    ] {
        fails::<FailureMode>(text, &parts);
    }
    let fraction = FailureMode::OpenFor(Duration::from_nanos(1_500));
    let error = serde_json::to_string(&fraction).unwrap_err().to_string();
    assert!(error.contains("`open_for`") && error.contains("1.5µs"), "{error}");
}

#[test]
fn invalid_policies_are_named() {
    fails::<Policy>(r#"{"strategy": "gcra", "quota": "1/s"}"#, &["missing field `name`"]);
    fails::<Policy>(r#"{"name": "login", "strategy": "gcra"}"#, &["policy login: missing field `quota`"]);
    fails::<Policy>(
        r#"{"name": "login", "strategy": "gcra", "quota": "1/s", "slots": 6}"#,
        &["policy login: unknown field `slots` of gcra"],
    );
    fails::<Policy>(
        r#"{"name": "", "strategy": "gcra", "quota": "1/s"}"#,
        &["the name of a policy is empty"],
    );
    fails::<PolicyName>("7", &["integer `7`", "1 to 64 printable ASCII characters"]);
    fails::<Policy>(
        r#"{"name": "monthly", "strategy": "fixed_window", "quota": "1/30d", "on_store_failure": {"local": 1000}}"#,
        &["policy monthly: a local share among 1000 instances", "name fewer instances"],
    );
    fails::<Policy>(
        r#"{"name": "log", "strategy": "sliding_log", "quota": "10/s", "lease": 5}"#,
        &["policy log: a policy of the strategy sliding_log cannot be leased"],
    );
    for (fields, parts) in [
        (r#""lease": 5, "wait": "1s""#, &["leave out the lease or the wait"][..]),
        (
            r#""lease": 0, "wait": "0s""#,
            &["policy a: a lease of 0 units", "; policy a: a wait of at most 0 s"],
        ),
        (r#""wait": "0s", "lease": 5"#, &["0 s", "left out"]),
        (r#""wait": "2h""#, &["7200s", "one hour"]),
        (r#""wait": 5"#, &["integer `5`", "`wait`, a duration such as \"500ms\""]),
        (r#""debt": -1"#, &["integer `-1`", "`debt`, a whole number of units"]),
        (r#""debt": 999999999999999"#, &["policy a: a debt of 999999999999999 units", "at most 2"]),
        (r#""caller_quotas": ["1/s", "9/s"]"#, &["policy a: quotas from 1/s to 9/s", "widen"]),
        (r#""caller_quotas": ["1/s"]"#, &["invalid length 1"]),
        (r#""overrides": "yes""#, &["a boolean"]),
        (r#""lease": 5, "overrides": true"#, &["policy a: a policy with grants or blocks cannot be leased"]),
        (r#""wait": "soon""#, &["\"soon\"", "us, ms, s, min, h, d or w"]),
    ] {
        let text = format!(r#"{{"name": "a", "strategy": "gcra", "quota": "10/s burst 20", {fields}}}"#);
        fails::<Policy>(&text, parts);
    }
    fails::<Policy>(
        r#"{"name": "a", "strategy": "token_bucket", "quota": "10/min", "refill": "interval", "wait": "1s"}"#,
        &["policy a: a wait of at most 1s is shorter than the interval of 60s"],
    );
}

#[test]
fn a_lease_is_units_or_a_time_as_the_strategy_requires() {
    let exports = |fields: &str| format!(r#"{{"name": "exports", "strategy": "in_flight", {fields}}}"#);
    for (fields, parts) in [
        (r#""lease": "30s""#, ["missing field `limit`", "policy exports"]),
        (r#""limit": 4, "lease": 30"#, ["`lease` of in_flight", "\"30s\""]),
        (r#""limit": 4, "lease": "soon""#, ["`lease`", "\"soon\""]),
        (r#""limit": 4, "lease": "2h""#, ["`lease` of in_flight", "1 s to 1 h"]),
        (r#""limit": 4, "lease": -1"#, ["integer `-1`", "such as \"30s\""]),
        (r#""limit": 1001"#, ["`limit` of in_flight", "1001"]),
        (r#""limit": 4, "period": "1s""#, ["unknown field `period` of in_flight", "`lease`"]),
        (r#""quota": "4/s""#, ["unknown field `quota` of in_flight", "`limit`"]),
        (r#""limit": 4, "slots": 6"#, ["unknown field `slots` of in_flight", "its limit and lease"]),
        (r#""limit": 4, "wait": "0s""#, ["policy exports", "a wait of at most 0 s"]),
    ] {
        fails::<Policy>(&exports(fields), &parts);
    }
    fails::<Policy>(
        r#"{"name": "a", "strategy": "gcra", "quota": "10/s burst 20", "lease": "30s"}"#,
        &["policy a: `lease` of gcra is a whole number of units"],
    );
    fails::<Strategy>(
        r#"{"strategy": "gcra", "quota": "10/s burst 20", "lease": 5}"#,
        &["unknown field `lease` of gcra", "field of policies"],
    );
}

#[test]
fn errors_do_not_echo_a_megabyte() {
    let long = "9".repeat(1 << 20);
    for text in [
        format!(r#"{{"{long}": 1}}"#),
        format!(r#"{{"strategy": "{long}"}}"#),
        format!(r#"{{"quota": "{long}"}}"#),
        format!(r#"{{"period": "{long}"}}"#),
        format!(r#"{{"refill": "{long}"}}"#),
        format!(r#"{{"anchor": "{long}"}}"#),
        format!(r#"{{"limit": "{long}"}}"#),
        format!(r#"{{"burst": "{long}"}}"#),
        format!(r#"{{"slots": "{long}"}}"#),
        format!(r#""{long}""#),
    ] {
        assert!(error::<Strategy>(&text).len() < 500);
        assert!(error::<Policy>(&text).len() < 500);
    }
    for text in [format!(r#""{long}""#), format!(r#"{{"local": "{long}"}}"#), format!(r#"{{"{long}": 1}}"#)] {
        assert!(error::<FailureMode>(&text).len() < 500);
    }
}

#[test]
fn durations_out_of_range_are_named() {
    for text in ["99999999999999999w", "99999999999999999999s"] {
        let mode = format!(r#"{{"open_for": "{text}"}}"#);
        fails::<FailureMode>(&mode, &[text, "is not below 2^64 microseconds"]);
    }
    let zero = serde_json::to_string(&FailureMode::OpenFor(Duration::ZERO));
    assert_eq!(zero.unwrap_err().to_string(), FailureModeError::ZeroOpenFor.to_string());
}

#[test]
fn shares_without_a_quota_are_not_written() {
    let half = Policy::token_bucket("a", Quota::per_second(3)).on_store_failure(FailureMode::local(2));
    let error = serde_json::to_string(&half.share().unwrap()).unwrap_err().to_string();
    assert!(error.contains("share of a token_bucket"), "{error}");
}
