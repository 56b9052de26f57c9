//! What closes a key, and for how long.

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

const NOW: Duration = Duration::from_secs(1_700_000_000);

#[expect(clippy::unnecessary_wraps, reason = "a length is optional, and is compared with absent ones")]
fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

/// A date so many seconds from [`NOW`].
fn date(offset: i64) -> String {
    let now = SystemTime::UNIX_EPOCH + NOW;
    let offset_by = Duration::from_secs(offset.unsigned_abs());
    httpdate::fmt_http_date(if offset < 0 { now - offset_by } else { now + offset_by })
}

fn of(settings: &HintSettings, status: u16, headers: &[(&str, &str)]) -> Reading {
    let headers =
        headers.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()));
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name, value);
    }
    read(settings, StatusCode::from_u16(status).unwrap(), &map, || SystemTime::UNIX_EPOCH + NOW)
}

fn with(format: ResetFormat) -> HintSettings {
    HintSettings {
        remaining: vec![RemainingHeaders::x_ratelimit(format)],
        closes_at_zero: true,
        ..HintSettings::default()
    }
}

/// For how long an answer closes its key, where all of its headers are valid and none is capped.
#[track_caller]
fn closes(settings: &HintSettings, status: u16, headers: &[(&str, &str)], closed_for: Option<Duration>) {
    let expected = Reading { closed_for, ..Reading::default() };
    assert_eq!(of(settings, status, headers), expected, "{status} {headers:?}");
}

#[track_caller]
fn ignores(settings: &HintSettings, status: u16, header: (&str, &str), closed_for: Option<Duration>) {
    let expected = Reading { closed_for, is_capped: false, ignored: vec![header.0.parse().unwrap()] };
    assert_eq!(of(settings, status, &[header]), expected, "{status} {header:?}");
}

#[test]
fn refusals_close_and_other_answers_do_not() {
    let settings = HintSettings::default();
    for status in [200, 202, 301, 304] {
        closes(&settings, status, &[("retry-after", "5")], None);
    }
    closes(&settings, 429, &[("retry-after", "5")], seconds(5));
    closes(&settings, 429, &[], seconds(1));
    for status in [400, 403, 404, 413, 420, 500, 502, 503, 509, 529] {
        closes(&settings, status, &[("retry-after", "5")], seconds(5));
        closes(&settings, status, &[], None);
        ignores(&settings, status, ("retry-after", "soon"), None);
    }
}

#[test]
fn budgets_refuse_by_403_and_503() {
    let settings = HintSettings { closes_at_zero: false, ..with(ResetFormat::Seconds) };
    let budget = |remaining| [("x-ratelimit-remaining", remaining), ("x-ratelimit-reset", "40")];
    for status in [403, 503] {
        closes(&settings, status, &budget("0"), seconds(40));
        closes(&settings, status, &budget("0")[1..], seconds(40));
        // It refuses something else.
        closes(&settings, status, &budget("7"), None);
    }
    for status in [200, 404, 500] {
        closes(&settings, status, &budget("0"), None);
        closes(&with(ResetFormat::Seconds), status, &budget("0"), seconds(40));
    }
    closes(&settings, 429, &budget("7"), seconds(40));
    let unreadable = of(&settings, 429, &budget("lots"));
    assert_eq!((unreadable.closed_for, unreadable.ignored.len()), (seconds(40), 1));
    // A stated time goes first, unless it has passed.
    closes(&settings, 403, &[&budget("0")[..], &[("retry-after", "60")]].concat(), seconds(60));
    closes(&settings, 429, &[&budget("0")[..], &[("retry-after", "0")]].concat(), seconds(40));
}

#[test]
fn several_budgets_close_for_the_longest_exhausted() {
    let named = |name| {
        let (remaining, reset) =
            (format!("x-ratelimit-remaining-{name}"), format!("x-ratelimit-reset-{name}"));
        RemainingHeaders::named(&remaining, &reset, ResetFormat::Seconds)
    };
    let settings = HintSettings {
        remaining: vec![named("requests"), named("tokens")],
        closes_at_zero: true,
        ..HintSettings::default()
    };
    let answer = |requests, tokens| {
        [
            ("x-ratelimit-remaining-requests", requests),
            ("x-ratelimit-reset-requests", "6m0s"),
            ("x-ratelimit-remaining-tokens", tokens),
            ("x-ratelimit-reset-tokens", "8.64s"),
        ]
    };
    let settings = HintSettings { cap: Duration::from_secs(3_600), ..settings };
    for status in [200, 403, 429] {
        closes(&settings, status, &answer("0", "10"), seconds(360));
        closes(&settings, status, &answer("10", "0"), Some(Duration::from_millis(8_640)));
        closes(&settings, status, &answer("0", "0"), seconds(360));
    }
    closes(&settings, 200, &answer("10", "10"), None);
    // Several values of one header, in lines or in a list.
    let pair = with(ResetFormat::Seconds);
    let (remaining, reset) = ("x-ratelimit-remaining", "x-ratelimit-reset");
    closes(&pair, 200, &[(remaining, "0, 5"), (reset, "3, 40")], seconds(3));
    closes(&pair, 200, &[(remaining, "5"), (remaining, "0"), (reset, "3"), (reset, "40")], seconds(40));
    let many = of(&pair, 429, &[(remaining, "0,0,0,0,0"), (reset, "1,1,1,1,1")]);
    assert_eq!((many.closed_for, many.ignored.len()), (seconds(1), 2));
}

#[test]
fn invalid_headers_are_all_named() {
    let settings = with(ResetFormat::Seconds);
    let names = |status, headers: &[_]| -> Vec<String> {
        of(&settings, status, headers).ignored.iter().map(ToString::to_string).collect()
    };
    let empty = ("x-ratelimit-remaining", "0");
    assert_eq!(names(200, &[empty, ("x-ratelimit-reset", "soon")]), ["x-ratelimit-reset"]);
    assert_eq!(names(200, &[("x-ratelimit-remaining", "few")]), ["x-ratelimit-remaining"]);
    let policy = [("ratelimit", r#""a";r=0"#), ("ratelimit-policy", r#""a";q=5;w=soon"#)];
    assert_eq!(names(200, &policy), ["ratelimit-policy"]);
    let both =
        [("retry-after", "soon"), ("grpc-retry-pushback-ms", "late"), empty, ("x-ratelimit-reset", "?")];
    assert_eq!(names(429, &both), ["retry-after", "grpc-retry-pushback-ms", "x-ratelimit-reset"]);
}

#[test]
fn texts_state_their_own_unit() {
    let settings = HintSettings { cap: Duration::from_secs(3_600), ..with(ResetFormat::UnixSeconds) };
    for header in ["retry-after", "x-ratelimit-reset"] {
        for value in ["6m0s", "360000ms", "2023-11-14T22:19:20Z", "2023-11-14T23:19:20+01:00", &date(360)] {
            closes(&settings, 429, &[(header, value)], seconds(360));
        }
    }
    closes(&settings, 429, &[("retry-after-ms", "1500")], Some(Duration::from_millis(1_500)));
    closes(&settings, 429, &[("x-ms-retry-after-ms", "1500"), ("retry-after", "2")], seconds(2));
}

#[test]
fn retry_after_is_seconds_or_a_date() {
    let settings = HintSettings::default();
    closes(&settings, 429, &[("retry-after", " 7 ")], seconds(7));
    closes(&settings, 429, &[("retry-after", "1.5")], Some(Duration::from_millis(1_500)));
    closes(&settings, 429, &[("retry-after", "3"), ("retry-after", "9"), ("retry-after", "2")], seconds(9));
    closes(&settings, 429, &[("retry-after", &date(20))], seconds(20));
    closes(&settings, 429, &[("retry-after", "Tuesday, 14-Nov-23 22:13:30 GMT")], seconds(10));
    // Their clock is a year behind, or an hour ahead.
    for skew in [-31_536_000, 3_600] {
        closes(&settings, 429, &[("retry-after", &date(skew + 30)), ("date", &date(skew))], seconds(30));
    }
    // A `Date` that is none is not used.
    closes(&settings, 429, &[("retry-after", &date(20)), ("date", "yesterday")], seconds(20));
    // What has passed, or is no time, is no hint.
    for passed in ["0", &date(-5), &date(-1_000_000_000)] {
        closes(&settings, 429, &[("retry-after", passed)], seconds(1));
    }
}

#[test]
fn an_invalid_time_is_ignored_and_reported() {
    let settings = with(ResetFormat::Seconds);
    let long = "9".repeat(2_000);
    for value in ["-5", "soon", "", "1e9", "0x10", "1 2", "Tue, 99 Nov 2023 22:13:30 GMT", &long] {
        ignores(&settings, 429, ("retry-after", value), seconds(1));
        ignores(&settings, 429, ("x-ratelimit-reset", value), seconds(1));
        ignores(&settings, 200, ("x-ratelimit-remaining", value), None);
    }
    let lines = [("retry-after", "1"); 5];
    assert!(!of(&settings, 429, &lines).ignored.is_empty(), "more lines than any server has a reason for");
}

#[test]
fn no_time_is_longer_than_the_cap() {
    let settings = with(ResetFormat::UnixSeconds);
    let far = "Fri, 31 Dec 9999 23:59:59 GMT";
    for header in [
        ("retry-after", "61"),
        ("retry-after", "99999999999999999999"),
        ("retry-after", far),
        ("grpc-retry-pushback-ms", "2147483647"),
        ("ratelimit", r#""a";r=0;t=999999999999999"#),
        ("x-ratelimit-reset", "99999999999999999999"),
        ("x-ratelimit-reset", "99999999999999999999d"),
        ("x-ratelimit-reset", "9999-12-31T23:59:59Z"),
        ("retry-after-ms", "99999999999999999999"),
    ] {
        let reading = of(&settings, 429, &[header]);
        assert_eq!(
            reading,
            Reading { closed_for: seconds(60), is_capped: true, ignored: vec![] },
            "{header:?}"
        );
    }
}

#[test]
fn exhausted_policies_close_for_the_longest_time() {
    let open = HintSettings::default();
    let at_zero = HintSettings { closes_at_zero: true, ..HintSettings::default() };
    let two = [("ratelimit", r#""burst";r=0;t=3, "daily";r=7;t=40"#)];
    closes(&open, 200, &two, None);
    closes(&open, 429, &two, seconds(3));
    closes(&at_zero, 200, &two, seconds(3));
    closes(&at_zero, 200, &[("ratelimit", r#""a";r=0;t=3"#), ("ratelimit", r#""b";r=0;t=8"#)], seconds(8));
    closes(&at_zero, 200, &[("ratelimit", r#""a";r=3"#)], None);
    // Without a time, the window of the policy.
    let without =
        [("ratelimit", r#""a";r=0"#), ("ratelimit-policy", r#""b";q=1;w=9, "a";q=5;w=30;pk=:AA==:"#)];
    closes(&at_zero, 200, &without, seconds(30));
    closes(&at_zero, 200, &without[..1], None);
    // Draft 7.
    let old =
        [("ratelimit", "limit=2, remaining=0, reset=45"), ("ratelimit", "limit=9, remaining=5, reset=50")];
    closes(&open, 429, &old, seconds(45));
    closes(&at_zero, 200, &old, seconds(45));
    closes(&at_zero, 200, &old[1..], None);
    // A stated time goes first.
    closes(&at_zero, 429, &[two[0], ("retry-after", "2")], seconds(2));
}

#[test]
fn malformed_structured_fields_are_ignored() {
    let settings = HintSettings { closes_at_zero: true, ..HintSettings::default() };
    let long = format!(r#""{}";r=0;t=3"#, "a".repeat(2_000));
    for value in [
        "limit=10, remaining=0",
        "limit=10, remaining=0, reset=-5",
        "limit=10, remaining=(0), reset=5",
        r#""a""#,
        r#""a";r=-1;t=3"#,
        r#""a";r=0;t=-3"#,
        r#""a";r=0;t="soon""#,
        r#"("a" "b");r=0;t=3"#,
        "0;r=0;t=3",
        r#""a";r=0;t=3,"#,
        &long,
    ] {
        ignores(&settings, 200, ("ratelimit", value), None);
    }
}

#[test]
fn a_reset_is_read_in_the_format_that_is_set() {
    for (format, value, length) in [
        (ResetFormat::Seconds, "30", 30),
        (ResetFormat::Milliseconds, "30000", 30),
        (ResetFormat::UnixSeconds, "1700000030", 30),
        (ResetFormat::UnixMilliseconds, "1700000030000", 30),
    ] {
        let headers = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", value)];
        closes(&with(format), 200, &headers, seconds(length));
        closes(&with(format), 429, &headers[1..], seconds(length));
        closes(&with(format), 200, &headers[1..], None);
        closes(&with(format), 200, &[("x-ratelimit-remaining", "1"), headers[1]], None);
        closes(&HintSettings::default(), 429, &headers, seconds(1));
    }
    // On their own clock, which is an hour ahead.
    let ahead = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700003610"), ("date", &date(3_600))];
    closes(&with(ResetFormat::UnixSeconds), 200, &ahead, seconds(10));
}

#[test]
fn grpc_servers_state_a_pushback() {
    let settings = HintSettings::default();
    closes(&settings, 200, &[("grpc-status", "8")], seconds(1));
    closes(
        &settings,
        200,
        &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "2500")],
        Some(Duration::from_millis(2_500)),
    );
    closes(
        &settings,
        200,
        &[("grpc-status", "8"), ("retry-after", "4"), ("grpc-retry-pushback-ms", "2500")],
        seconds(4),
    );
    closes(
        &settings,
        200,
        &[("grpc-status", "14"), ("grpc-retry-pushback-ms", "2500")],
        Some(Duration::from_millis(2_500)),
    );
    closes(&settings, 200, &[("grpc-status", "14")], None);
    // Not to be repeated at all, which states no time.
    closes(&settings, 200, &[("grpc-status", "8"), ("grpc-retry-pushback-ms", "-1")], seconds(1));
    for status in ["0", "7", "88", "x"] {
        closes(&settings, 200, &[("grpc-status", status), ("grpc-retry-pushback-ms", "2500")], None);
    }
}

#[cfg(feature = "tonic")]
#[test]
fn grpc_details_have_retry_info() {
    use tonic_types::{ErrorDetails, StatusExt as _};

    let settings = HintSettings::default();
    let details = ErrorDetails::with_retry_info(seconds(12));
    let status = tonic::Status::with_error_details(tonic::Code::ResourceExhausted, "slowly", details);
    let headers = status.into_http::<()>().into_parts().0.headers;
    let value = headers["grpc-status-details-bin"].to_str().unwrap();
    let exhausted = ("grpc-status", "8");
    closes(&settings, 200, &[exhausted, ("grpc-status-details-bin", value)], seconds(12));
    closes(
        &settings,
        200,
        &[exhausted, ("grpc-status-details-bin", value.trim_end_matches('='))],
        seconds(12),
    );
    let long = "AAAA".repeat(4_096);
    for value in ["!", "AA=A", "//////8=", &long] {
        let reading = of(&settings, 200, &[exhausted, ("grpc-status-details-bin", value)]);
        assert_eq!((reading.closed_for, !reading.ignored.is_empty()), (seconds(1), true), "{value}");
    }
}

/// A value that is near to something valid.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[0-9.+-]{0,40}".prop_map(String::into_bytes),
        r#"("[a-c]";?(r=-?[0-9]{1,16})?;?(t=[0-9]{1,16})?,? ?){0,3}"#.prop_map(String::into_bytes),
        (-4_000_000_000_i64..4_000_000_000).prop_map(|offset| date(offset % 1_600_000_000).into_bytes()),
        "([0-9]{1,3}[.]?[0-9]?(d|h|m|s|ms|ns)?,? ?){0,5}".prop_map(String::into_bytes),
        "[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9]:[0-6][0-9]([.][0-9]{1,12})?(Z|[+-][0-9]{2}:[0-9]{2})"
            .prop_map(String::into_bytes),
        "(limit|remaining|reset)=-?[0-9]{1,16}(, (limit|remaining|reset)=[0-9]{1,3}){0,3}".prop_map(String::into_bytes),
        "[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
            .prop_map(String::into_bytes),
        "[A-Za-z0-9+/=]{0,64}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..200),
    ]
}

proptest! {
    #[test]
    fn no_answer_panics_or_closes_beyond_the_cap(
        status in prop_oneof![Just(429_u16), Just(503), Just(403), Just(404), Just(200)],
        grpc_status in proptest::option::of(0_u16..20),
        values in proptest::collection::vec((0_usize..8, value()), 0..6),
        format in prop_oneof![
            Just(ResetFormat::Seconds), Just(ResetFormat::Milliseconds),
            Just(ResetFormat::UnixSeconds), Just(ResetFormat::UnixMilliseconds),
        ],
        cap in 0_u64..u64::MAX,
    ) {
        let names = [
            "retry-after", "date", "ratelimit", "ratelimit-policy", "x-ratelimit-remaining", "x-ratelimit-reset",
            "grpc-retry-pushback-ms", "grpc-status-details-bin",
        ];
        let mut headers = HeaderMap::new();
        headers.extend(grpc_status.map(|status| (GRPC_STATUS.clone(), HeaderValue::from(status))));
        for (name, value) in values {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(HeaderName::from_static(names[name]), value);
            }
        }
        let mut settings = with(format);
        settings.set_cap(Duration::from_micros(cap));
        let status = StatusCode::from_u16(status).unwrap();
        let reading = read(&settings, status, &headers, || SystemTime::UNIX_EPOCH + NOW);
        prop_assert!(reading.closed_for.unwrap_or_default() <= settings.cap);
        prop_assert!(reading.closed_for.is_none_or(|length| length.subsec_nanos() % 1_000 == 0));
    }
}
