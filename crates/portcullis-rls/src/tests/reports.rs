//! Usage that is reported after the response, over gRPC.

use std::time::Duration;

use portcullis::Limiter;
use portcullis::rules::{Format, Loader};
use portcullis_servers::{Connection, RedisServer, Reply, encode_command};
use tokio::task::JoinSet;

use super::native::native_by;
use super::redis::limiter;
use super::*;
use crate::ChargeDeniedHits;

const LIMITS: &str = r#"
domain: shop
descriptors:
  - { key: ":path", value: /tokens, descriptors: [{ key: remote_address, rate_limit: { unit: year, requests_per_unit: 1000 } }] }
  - { key: ":path", value: /user, descriptors: [{ key: remote_address, rate_limit: { unit: year, requests_per_unit: 100 } }] }
  - { key: ":path", value: /all, descriptors: [{ key: remote_address, rate_limit: { unit: year, requests_per_unit: 3 } }] }
  - { key: tried, shadow_mode: true, rate_limit: { unit: year, requests_per_unit: 10 } }
  - { key: pool, quota_mode: true, rate_limit: { unit: year, requests_per_unit: 10 } }
"#;

const RULES: &str = r#"
[policy.tokens]
strategy = "fixed_window"
quota = "1000/365d"
key = "client_ip"
match = [{ path = "/tokens" }, { path = "/user/tokens" }]

[policy.user]
strategy = "fixed_window"
quota = "100/365d"
key = "client_ip"
match = [{ path = "/user" }, { path = "/user/tokens" }]

[policy.all]
strategy = "fixed_window"
quota = "3/365d"
key = "client_ip"
match = { path = "/all" }
"#;

const TOKENS: &[(&str, &str)] = &[(":path", "/tokens"), ("remote_address", "192.0.2.1")];
const TOKENS_OF_BOB: &[(&str, &str)] = &[(":path", "/tokens"), ("remote_address", "192.0.2.2")];
const USER: &[(&str, &str)] = &[(":path", "/user"), ("remote_address", "192.0.2.1")];
const BOB: &[(&str, &str)] = &[(":path", "/user"), ("remote_address", "192.0.2.2")];
const ALL: &[(&str, &str)] = &[(":path", "/all"), ("remote_address", "192.0.2.1")];

/// A service with Envoy's files and one with native rules, in memory and on Redis.
async fn services(redis: &RedisServer) -> Vec<RateLimitService> {
    let mut services = Vec::new();
    for kind in 0..4 {
        let limiter = if kind < 2 { Limiter::memory() } else { limiter(redis).await };
        services.push(if kind % 2 == 0 {
            RateLimitService::envoy(limiter, descriptors(LIMITS))
        } else {
            native_by(limiter, &Loader::text("limits.toml", Format::Toml, RULES))
        });
    }
    services
}

/// Whether the service answers OK over gRPC.
async fn is_ok(service: &RateLimitService, request: RateLimitRequest) -> bool {
    ask_grpc(service, request).await.expect("the call is valid").overall_code() == Code::Ok
}

/// What is left of a limit.
async fn left(service: &RateLimitService, entries: &[(&str, &str)]) -> u32 {
    ask_grpc(service, of([hits(entries, 0)])).await.expect("the call is valid").statuses[0].limit_remaining
}

/// Before the request the gateway asks whether something is left, and after the stream it reports the tokens (`apply_on_stream_done`).
#[tokio::test]
async fn report_on_stream_done_ends_budget() {
    let redis = RedisServer::start().unwrap();
    for service in services(&redis).await {
        for tokens in [910, 400] {
            assert!(is_ok(&service, of([hits(TOKENS, 0)])).await);
            assert_eq!(is_ok(&service, of([hits(TOKENS, tokens)])).await, tokens == 910);
        }
        assert!(!is_ok(&service, of([hits(TOKENS, 0)])).await, "nothing is left");
        assert!(!is_ok(&service, of([hits(TOKENS, 400)])).await, "a stream that was let through before");
        assert_eq!(left(&service, TOKENS).await, 0);
        assert!(is_ok(&service, of([hits(TOKENS_OF_BOB, 0)])).await, "of another client");
    }
}

/// The gateway charges each request one hit, reports the others afterwards, and reads no answer to that. The number is that of the call.
#[tokio::test]
async fn report_whose_answer_is_ignored_ends_budget() {
    let redis = RedisServer::start().unwrap();
    for service in services(&redis).await {
        let report = |hits| RateLimitRequest { hits_addend: hits, ..call(&[TOKENS]) };
        for tokens in [600, 300, 400] {
            assert!(is_ok(&service, call(&[TOKENS])).await);
            drop(ask_grpc(&service, report(tokens)).await);
        }
        assert!(!is_ok(&service, call(&[TOKENS])).await);
        assert_eq!(left(&service, TOKENS).await, 0);
    }
}

#[tokio::test]
async fn denied_five_are_charged_as_each_setting_says() {
    use ChargeDeniedHits::{Always, Never, Reports};
    for (setting, after_five, after_one) in
        [(Never, [100, 3], [100, 0]), (Reports, [95, 0], [95, 0]), (Always, [95, 0], [94, 0])]
    {
        let redis = RedisServer::start().unwrap();
        for service in services(&redis).await {
            let service = service.charge_denied_hits(setting);
            assert!(!is_ok(&service, of([hits(USER, 5), hits(ALL, 5)])).await);
            let both = [left(&service, USER).await, left(&service, ALL).await];
            assert_eq!(both, after_five, "{setting:?}");
            // Nothing is left of the second limit, and one hit is denied.
            is_ok(&service, of([hits(ALL, u64::from(both[1]))])).await;
            assert!(!is_ok(&service, call(&[USER, ALL])).await);
            assert_eq!([left(&service, USER).await, left(&service, ALL).await], after_one, "{setting:?}");
        }
    }
}

/// One limit of the call has one hit, and the call is a report by the other.
#[tokio::test]
async fn report_is_a_call_and_not_a_descriptor() {
    let redis = RedisServer::start().unwrap();
    for service in services(&redis).await {
        assert!(!is_ok(&service, of([hits(USER, 1), hits(ALL, 4)])).await);
        assert_eq!([left(&service, USER).await, left(&service, ALL).await], [99, 0]);
    }
    // Equal descriptors are one with the sum of their hits, and report nothing.
    let service = service(&ManualClock::default(), LIMITS);
    assert!(!is_ok(&service, call(&[ALL, ALL, ALL, ALL])).await);
    assert_eq!(left(&service, ALL).await, 3);
}

/// Reports in parallel, each larger than the limit: each limit ends at nothing, and owes nothing.
#[tokio::test]
async fn hostile_reports_take_what_is_left_and_no_more() {
    let redis = RedisServer::start().unwrap();
    for service in services(&redis).await {
        let mut calls = JoinSet::new();
        for index in 0..64 {
            let service = service.clone();
            let cost = [u64::MAX, u64::from(u32::MAX), 101, 70][index % 4];
            calls.spawn(async move { is_ok(&service, of([hits(USER, cost), hits(TOKENS, 1)])).await });
        }
        let admitted = calls.join_all().await.into_iter().filter(|is_ok| *is_ok).count();
        assert!(admitted <= 1, "{admitted} calls of 70 in 100");
        assert_eq!(left(&service, USER).await, 0);
        assert!(left(&service, TOKENS).await >= 1_000 - 64, "each call is charged its own hits at most");
        assert_eq!(left(&service, BOB).await, 100);
    }
    // Without a debt, one hit that is put back is one that is left.
    for limiter in [Limiter::memory(), limiter(&redis).await] {
        let service = RateLimitService::envoy(limiter, descriptors(LIMITS));
        assert!(!is_ok(&service, of([hits(TOKENS_OF_BOB, u64::MAX)])).await);
        assert!(is_ok(&service, of([refund(TOKENS_OF_BOB, 1)])).await);
        assert_eq!(left(&service, TOKENS_OF_BOB).await, 1);
    }
}

/// What is left is charged, and no debt: some time later as much is left as after a use of all.
#[tokio::test]
async fn report_leaves_no_debt_under_any_algorithm() {
    for (strategy, quota, seconds, then) in [
        ("token_bucket", "10/min", 60, 10),
        ("gcra", "10/min burst 10", 60, 10),
        ("fixed_window", "10/min", 60, 10),
        ("sliding_window", "10/min", 90, 5),
        ("sliding_log", "10/min", 60, 10),
    ] {
        let text = format!("[policy.p]\nstrategy = \"{strategy}\"\nquota = \"{quota}\"\nkey = \"global\"\n");
        let clock = ManualClock::default();
        let loader = Loader::text("limits.toml", Format::Toml, text);
        let service = native_by(testing::limiter(&clock), &loader);
        assert!(is_ok(&service, of([hits(&[("a", "b")], 4)])).await);
        assert!(!is_ok(&service, of([hits(&[("a", "b")], 1_000_000)])).await);
        assert_eq!(left(&service, &[("a", "b")]).await, 0, "{strategy}");
        clock.advance(Duration::from_secs(seconds));
        assert_eq!(left(&service, &[("a", "b")]).await, then, "{strategy}");
    }
}

#[tokio::test]
async fn rule_makes_a_report_of_one_hit() {
    let redis = RedisServer::start().unwrap();
    let report = "[policy.user]\nreport = true\ncost = { header = \"cost\", max = 500 }";
    let text = RULES.replace("[policy.user]", report);
    for limiter in [Limiter::memory(), limiter(&redis).await] {
        let service = native_by(limiter, &Loader::text("limits.toml", Format::Toml, text.clone()));
        let both = [(":path", "/user/tokens"), ("remote_address", "192.0.2.1"), ("cost", "60")];
        assert!(is_ok(&service, call(&[&both])).await);
        assert!(!is_ok(&service, call(&[&both])).await);
        assert_eq!([left(&service, USER).await, left(&service, TOKENS).await], [0, 998]);
        // Another rule alone is not that of a report.
        assert!(is_ok(&service, of([hits(ALL, 3)])).await);
        assert!(!is_ok(&service, call(&[TOKENS, ALL])).await);
        assert_eq!(left(&service, TOKENS).await, 998);
    }
}

/// A report is charged what fits also by the limits that admit it and lack room: those in shadow, and of several quotas the others.
#[tokio::test]
async fn admitted_report_uses_up_what_it_exceeds() {
    let tried: &[(&str, &str)] = &[("tried", "x")];
    let [a, b]: [&[(&str, &str)]; 2] = [&[("pool", "a")], &[("pool", "b")]];
    for (setting, used, untouched) in [(ChargeDeniedHits::Reports, 0, 9), (ChargeDeniedHits::Never, 4, 9)] {
        let service = service(&ManualClock::default(), LIMITS).charge_denied_hits(setting);
        assert!(is_ok(&service, of([hits(tried, 6), hits(a, 6), hits(b, 1)])).await);
        assert!(is_ok(&service, of([hits(tried, 8), hits(USER, 8)])).await);
        assert_eq!(left(&service, tried).await, used, "{setting:?}");
        let quotas = ask_grpc(&service, of([hits(a, 8), hits(b, 8)])).await.unwrap();
        assert_eq!((quotas.overall_code(), codes(&quotas)), (Code::Ok, vec![Code::OverLimit, Code::Ok]));
        assert_eq!([left(&service, a).await, left(&service, b).await], [used, untouched - 8], "{setting:?}");
    }
}

/// While Redis does not answer, each instance decides in its memory, and is charged there.
#[tokio::test]
async fn report_uses_up_the_fallback_in_an_outage() {
    let redis = RedisServer::start().unwrap();
    let service = RateLimitService::envoy(limiter(&redis).await, descriptors(LIMITS));
    assert!(is_ok(&service, call(&[TOKENS])).await);
    drop(redis);
    assert!(!is_ok(&service, of([hits(TOKENS, 1_400)])).await);
    assert!(!is_ok(&service, call(&[TOKENS])).await);
}

/// A denial that is remembered says that nothing is left to be charged. Otherwise this would not end.
#[tokio::test]
async fn flood_of_denied_reports_is_answered_from_memory() {
    let redis = RedisServer::start().unwrap();
    let service = RateLimitService::envoy(limiter(&redis).await, descriptors(LIMITS));
    for tokens in [910, 400, 400] {
        assert_eq!(is_ok(&service, of([hits(TOKENS, tokens)])).await, tokens == 910);
    }
    let mut connection = Connection::open(redis.port()).unwrap();
    let mut scripts = || {
        connection.send(&encode_command(&["INFO", "commandstats"])).unwrap();
        let Reply::BulkString(text) = connection.receive().unwrap() else { panic!("no statistics") };
        let text = String::from_utf8(text).unwrap();
        let calls =
            text.split_once("cmdstat_evalsha:calls=").unwrap().1.split(',').next().unwrap().to_owned();
        calls.parse::<usize>().unwrap()
    };
    // The first denial, with what was left then, is remembered for a second.
    loop {
        let before = scripts();
        for _ in 0..10 {
            assert!(!is_ok(&service, of([hits(TOKENS, 400)])).await);
        }
        if scripts() == before {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
