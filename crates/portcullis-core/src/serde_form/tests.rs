mod errors;
mod round_trips;

use alloc::string::ToString;
use core::fmt::Debug;
use core::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    Anchor, Concurrency, FailureMode, FixedWindow, Policy, PolicyName, Quota, Refill, SlidingWindow,
    Strategy, Timestamp, TokenBucket, WindowTable,
};

fn read<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn reads_and_writes<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, text: &str) {
    assert_eq!(&read::<T>(text), value);
    assert_eq!(serde_json::to_string(value).unwrap(), text);
}

fn anchored(quota: Quota, anchor: Anchor) -> Strategy {
    Strategy::FixedWindow(FixedWindow::new(quota).unwrap().anchored(anchor))
}

#[test]
fn strategies_are_read_and_written() {
    let quota = Quota::per_second(10).burst(20);
    let hourly = Quota::per_hour(100);
    let interval = TokenBucket::new(hourly).unwrap().refilled(Refill::Interval);
    for (strategy, text) in [
        (
            *Policy::token_bucket("a", quota).strategy(),
            r#"{"strategy":"token_bucket","quota":"10/s burst 20"}"#,
        ),
        (
            Strategy::TokenBucket(interval),
            r#"{"strategy":"token_bucket","quota":"100/h","refill":"interval"}"#,
        ),
        (*Policy::gcra("a", quota).strategy(), r#"{"strategy":"gcra","quota":"10/s burst 20"}"#),
        (
            *Policy::leaky_bucket("a", quota).strategy(),
            r#"{"strategy":"leaky_bucket","quota":"10/s burst 20"}"#,
        ),
        (*Policy::fixed_window("a", hourly).strategy(), r#"{"strategy":"fixed_window","quota":"100/h"}"#),
        (
            anchored(hourly, Anchor::FirstRequest),
            r#"{"strategy":"fixed_window","quota":"100/h","anchor":"first_request"}"#,
        ),
        (
            anchored(hourly, Anchor::Instant(Timestamp::MAX)),
            r#"{"strategy":"fixed_window","quota":"100/h","anchor":9007199254740991}"#,
        ),
        (*Policy::sliding_window("a", hourly).strategy(), r#"{"strategy":"sliding_window","quota":"100/h"}"#),
        (
            Strategy::SlidingWindow(SlidingWindow::with_slots(hourly, 60).unwrap()),
            r#"{"strategy":"sliding_window","quota":"100/h","slots":60}"#,
        ),
        (*Policy::sliding_log("a", hourly).strategy(), r#"{"strategy":"sliding_log","quota":"100/h"}"#),
    ] {
        reads_and_writes(&strategy, text);
    }
}

/// Makes a table of any description.
fn windows(text: &str) -> Result<&'static WindowTable, alloc::string::String> {
    static STARTS: [Timestamp; 2] = [Timestamp::EPOCH, Timestamp::from_micros(1_000_000)];
    static TABLE: WindowTable = match WindowTable::new("seconds in UTC", 1, &STARTS) {
        Ok(table) => table,
        Err(_) => panic!("the starts ascend"),
    };
    if text == TABLE.name() { Ok(&TABLE) } else { Err(alloc::format!("no zone {text}")) }
}

fn read_with_windows(text: &str) -> serde_json::Result<Policy> {
    Policy::deserialize_with_windows(&mut serde_json::Deserializer::from_str(text), windows)
}

#[test]
fn calendar_windows_are_read_with_time_zone_data() {
    let text = r#"{"name":"a","strategy":"calendar_window","limit":5,"windows":"seconds in UTC","on_store_failure":"closed"}"#;
    let policy = Policy::calendar_window("a", 5, windows("seconds in UTC").unwrap());
    let policy = policy.on_store_failure(FailureMode::Closed);
    assert_eq!(read_with_windows(text).unwrap(), policy);
    assert_eq!(serde_json::to_string(&policy).unwrap(), text);
    assert!(
        read_with_windows(&text.replace("UTC", "Utopia"))
            .unwrap_err()
            .to_string()
            .contains("no zone seconds in Utopia")
    );

    let error = serde_json::from_str::<Policy>(text).unwrap_err().to_string();
    assert!(error.contains("`seconds in UTC` need time zone data"), "{error}");
    for (fields, why) in [
        (r#""windows":"seconds in UTC""#, "missing field `limit`"),
        (r#""limit":5"#, "missing field `windows`"),
        (r#""limit":1000000000000000,"windows":"seconds in UTC""#, "`limit` of calendar_window"),
        (r#""quota":"5/s","windows":"seconds in UTC""#, "unknown field `quota`"),
        (r#""limit":5,"period":"1s","windows":"seconds in UTC""#, "unknown field `period`"),
        (r#""limit":5,"slots":2,"windows":"seconds in UTC""#, "which has its limit and `windows`"),
        (r#""limit":5,"windows":7"#, "months in Europe/Berlin"),
    ] {
        let text = alloc::format!(r#"{{"name":"a","strategy":"calendar_window",{fields}}}"#);
        let error = read_with_windows(&text).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let error = serde_json::from_str::<Strategy>(r#"{"strategy":"gcra","quota":"1/s","windows":"a"}"#);
    assert!(error.unwrap_err().to_string().contains("windows"));
}

#[test]
fn limit_period_and_burst_replace_the_quota() {
    let parts = r#"{"period": "15min", "burst": 7, "limit": 5, "strategy": "token_bucket"}"#;
    let quota = Quota::per(5, Duration::from_mins(15));
    assert_eq!(&read::<Strategy>(parts), Policy::token_bucket("a", quota.burst(7)).strategy());
    let without_burst = r#"{"strategy": "sliding_log", "limit": 5, "period": "900s"}"#;
    assert_eq!(&read::<Strategy>(without_burst), Policy::sliding_log("a", quota).strategy());
}

#[test]
fn default_values_may_be_stated() {
    let five = Quota::per_minute(5);
    for (text, strategy) in [
        (
            r#"{"strategy": "token_bucket", "quota": "5/min burst 5", "refill": "greedy"}"#,
            Policy::token_bucket("a", five),
        ),
        (r#"{"strategy": "gcra", "quota": "5/min burst 1"}"#, Policy::gcra("a", five)),
        (
            r#"{"strategy": "fixed_window", "quota": "5/min", "anchor": "epoch"}"#,
            Policy::fixed_window("a", five),
        ),
        (
            r#"{"strategy": "sliding_window", "quota": "5/min", "slots": 1}"#,
            Policy::sliding_window("a", five),
        ),
    ] {
        assert_eq!(&read::<Strategy>(text), strategy.strategy());
    }
    let epoch = anchored(five, Anchor::Instant(Timestamp::EPOCH));
    assert_eq!(read::<Strategy>(r#"{"strategy": "fixed_window", "quota": "5/min", "anchor": 0}"#), epoch);
}

#[test]
fn quotas_of_meters_are_per_shortest_whole_unit() {
    let written = |policy: Policy| {
        let value = serde_json::to_value(policy.strategy()).unwrap();
        value["quota"].as_str().unwrap().to_string()
    };
    for (policy, quota) in [
        (Policy::gcra("a", Quota::per_minute(90)), "90/min"),
        (Policy::gcra("a", Quota::per_hour(3_600)), "1/s"),
        (Policy::gcra("a", Quota::per(5, Duration::from_mins(15))), "20/h"),
        (Policy::gcra("a", Quota::per(1, Duration::from_hours(400 * 24))), "1/400d"),
        (Policy::gcra("a", Quota::per(3, Duration::from_micros(11)).burst(2)), "3/11us burst 2"),
        // A token bucket has its period, and the burst of a leaky bucket is its limit by default.
        (Policy::token_bucket("a", Quota::per(5, Duration::from_mins(15))), "5/15min"),
        (Policy::leaky_bucket("a", Quota::per_minute(60)), "60/min"),
        (Policy::leaky_bucket("a", Quota::per_minute(60).burst(7)), "1/s burst 7"),
    ] {
        assert_eq!(written(policy), quota);
    }
}

#[test]
fn failure_modes_are_read_and_written() {
    for (mode, text) in [
        (FailureMode::Open, r#""open""#),
        (FailureMode::Closed, r#""closed""#),
        (FailureMode::local(1), r#""local""#),
        (FailureMode::local(u32::MAX), r#"{"local":4294967295}"#),
        (FailureMode::OpenFor(Duration::from_secs(90)), r#"{"open_for":"90s"}"#),
        (FailureMode::OpenFor(Duration::from_micros(u64::MAX)), r#"{"open_for":"18446744073709551615us"}"#),
    ] {
        reads_and_writes(&mode, text);
    }
    assert_eq!(read::<FailureMode>(r#"{"local": 1}"#), FailureMode::default());
}

#[test]
fn policies_are_read_and_written() {
    let search = Policy::gcra("search", Quota::per_second(10).burst(20));
    reads_and_writes(&search, r#"{"name":"search","strategy":"gcra","quota":"10/s burst 20"}"#);
    reads_and_writes(
        &search.clone().lease(10),
        r#"{"name":"search","strategy":"gcra","quota":"10/s burst 20","lease":10}"#,
    );
    reads_and_writes(
        &search.on_store_failure(FailureMode::local(4)),
        r#"{"name":"search","strategy":"gcra","quota":"10/s burst 20","on_store_failure":{"local":4}}"#,
    );
    reads_and_writes(
        &Policy::gcra("search", Quota::per_second(10)).wait_at_most(Duration::from_millis(500)),
        r#"{"name":"search","strategy":"gcra","quota":"10/s","wait":"500ms"}"#,
    );
    reads_and_writes(
        &Policy::leaky_bucket("queue", Quota::per_second(10)).wait_at_most(Duration::from_secs(2)),
        r#"{"name":"queue","strategy":"leaky_bucket","quota":"10/s burst 21","wait":"2s"}"#,
    );
    let (least, most) = (Quota::per_minute(1), Quota::per_minute(90).burst(99));
    reads_and_writes(
        &Policy::token_bucket("tokens", Quota::per_minute(9)).allow_debt(0).caller_quotas(least, most),
        r#"{"name":"tokens","strategy":"token_bucket","quota":"9/min","debt":0,"caller_quotas":["1/min","90/min burst 99"]}"#,
    );
    reads_and_writes(
        &Policy::fixed_window("daily", Quota::per_day(9)).allow_overrides(),
        r#"{"name":"daily","strategy":"fixed_window","quota":"9/d","overrides":true}"#,
    );
    let slotted = Strategy::SlidingWindow(SlidingWindow::with_slots(Quota::per_minute(5), 6).unwrap());
    reads_and_writes(
        &Policy::literal("login", slotted).on_store_failure(FailureMode::Closed),
        r#"{"name":"login","strategy":"sliding_window","quota":"5/min","slots":6,"on_store_failure":"closed"}"#,
    );
    let exports = Concurrency::new("exports", 4);
    reads_and_writes(&exports.clone().policy(), r#"{"name":"exports","strategy":"in_flight","limit":4}"#);
    reads_and_writes(
        &exports.lease(Duration::from_secs(45)).policy().on_store_failure(FailureMode::local(2)),
        r#"{"name":"exports","strategy":"in_flight","limit":4,"lease":"45s","on_store_failure":{"local":2}}"#,
    );
    reads_and_writes(&PolicyName::literal("a b"), r#""a b""#);
}
