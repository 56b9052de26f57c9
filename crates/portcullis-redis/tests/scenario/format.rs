//! The stored format, to the byte. Versions that run side by side in a fleet share these states, so any change needs a new
//! version in the names of the keys.

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{
    Anchor, Concurrency, FixedWindow, Policy, PolicyName, Quota, Refill, SlidingWindow, Strategy, Timestamp,
    TokenBucket,
};
use portcullis_servers::RedisServer;
use portcullis_testing::{ManualClock, calendars};

use crate::support::{key, patient};

/// At 7 per minute, one unit takes 8 571 428 4/7 microseconds.
const QUOTA: Quota = Quota::per_minute(7);

/// 1 800 000 037 142 858 microseconds and 1/7, as doubles.
const EMPTY_AT: &str = r"(\x05=\xab\\\x94\x19C\x00\x00\x00\x00\x00\x00\xf0?";

#[tokio::test]
async fn names_and_states_are_those_of_version_2() {
    let bucket = TokenBucket::new(QUOTA).unwrap();
    let named = |name: &'static str, strategy| Policy::new(PolicyName::literal(name), strategy);
    let window = FixedWindow::new(QUOTA).unwrap();
    let cases = [
        (Policy::token_bucket("bucket", QUOTA), "token_bucket", EMPTY_AT),
        (
            named("refilled", Strategy::TokenBucket(bucket.refilled(Refill::Interval))),
            "token_bucket.interval",
            r"H\xa2\x8e\xaa\\\x94\x19C\x00\x00\x00\x00\x00\x00\x00@",
        ),
        (Policy::gcra("spaced", QUOTA.burst(7)), "gcra", EMPTY_AT),
        (Policy::leaky_bucket("queue", QUOTA), "leaky_bucket", EMPTY_AT),
        (
            Policy::fixed_window("window", QUOTA),
            "fixed_window.60s",
            r"\x00\x1c\xb0\xb0\\\x94\x19C\x00\x00\x00\x008\x9c\x8cA\x00\x00\x00\x00\x00\x00\x10@",
        ),
        (
            named("since", Strategy::FixedWindow(window.anchored(Anchor::FirstRequest))),
            "fixed_window.60s.first",
            r"\x1c\x1c\xb0\xb0\\\x94\x19C\x00\x00\x00\x008\x9c\x8cA\x00\x00\x00\x00\x00\x00\x10@",
        ),
        (
            Policy::calendar_window("calendar", 7, &calendars()[0]),
            "calendar_window.715a24bf710b374b",
            r"\x00\x00\x00\x00\x00h\x85@\x00\x00#\xbd\x99\x99\x19C\x00\x00\x00\x00\x00\x00\x10@",
        ),
        (
            Policy::sliding_window("sliding", QUOTA),
            "sliding_window.60s.1",
            r"\x00\x1c\xb0\xb0\\\x94\x19C\x00\x00\x00\x008\x9c\x8cA\x00\x00\x00\x00\x00\x00\xf0?\x01\x04",
        ),
        (
            named("slots", Strategy::SlidingWindow(SlidingWindow::with_slots(QUOTA, 10).unwrap())),
            "sliding_window.60s.10",
            r"\x00\xd8\x1a\xa8\\\x94\x19C\x00\x00\x00\x00`\xe3VA\x00\x00\x00\x00\x00\x00$@\x01\x02\x00\x00\x02",
        ),
        (
            Policy::sliding_log("log", QUOTA),
            "sliding_log.60s",
            r"log1\x00\x06e\x17)\xc9\xad\x01\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x04\x00\x06e\x17(\x98\x80\a\x00\x06e\x17(\x98\x80\a\x00\x06e\x17)\xc9\xad\x01\x00\x06e\x17)\xc9\xad\x01",
        ),
    ];
    // The epoch, the serial number of the next permit, the latest expiry, and the expiry and the number of each of four permits.
    let permits = [
        1_800_000_000_000_007.0,
        5.0,
        1_800_000_050_000_001.0,
        1_800_000_030_000_007.0,
        1.0,
        1_800_000_030_000_007.0,
        2.0,
        1_800_000_050_000_001.0,
        3.0,
        1_800_000_050_000_001.0,
        4.0,
    ];
    let permits = shown(&permits.map(f64::to_be_bytes).concat());
    let in_flight = Concurrency::new("permits", 7).policy();
    let cases = cases.into_iter().map(|(policy, tag, state)| (policy, tag, state.to_owned()));
    let cases = cases.chain([(in_flight, "in_flight", permits)]);
    let server = RedisServer::start().unwrap();
    let clock = ManualClock::new(Timestamp::from_micros(0));
    let store = patient(&server).scenario_clock(clock.clone());
    let store = store.connect().await.unwrap();
    let key = key("ada");
    for (policy, tag, state) in cases {
        for at in [1_800_000_000_000_007, 1_800_000_020_000_001] {
            clock.set(Timestamp::from_micros(at));
            assert!(store.check(Checks::one(policy.clone(), key, 2)).await.unwrap().is_allowed());
        }
        let name =
            format!("portcullis-scenario:v2:0:{{273cd58cdb10bdc4ee988d13b5450c7d}}:{}:{tag}", policy.name());
        let stored = server.cli(&["--no-raw", "GET", &name]).unwrap();
        assert_eq!(stored.trim_matches('"'), state);
    }
}

/// Bytes as `redis-cli` shows them.
fn shown(bytes: &[u8]) -> String {
    let shown = bytes.iter().map(|byte| match byte {
        7 => r"\a".to_owned(),
        8 => r"\b".to_owned(),
        b'\n' => r"\n".to_owned(),
        b'\r' => r"\r".to_owned(),
        b'\t' => r"\t".to_owned(),
        b'\\' | b'"' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        other => format!(r"\x{other:02x}"),
    });
    shown.collect()
}
