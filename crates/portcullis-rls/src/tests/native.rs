//! Native rules.

use portcullis::Limiter;
use portcullis::key::{KeyError, Lookup};
use portcullis::rules::{Format, Loader, Rules};

use super::events::Lines;
use super::*;
use crate::{CallError, ChargeDeniedHits, MAX_DESCRIPTORS, ResponseHeaders};

const RULES: &str = r#"
[policy.search]
strategy = "fixed_window"
quota = "3/h"
key = "client_ip"
match = { path = "/search", methods = ["GET"] }

[policy.api]
strategy = "fixed_window"
quota = "100/day"
key = "client_ip"
match = { path = "/api/{*rest}" }

[policy.account]
strategy = "fixed_window"
quota = "5/day"
key = { header = "x-account" }
match = { path = "/api/{*rest}" }
"#;

fn native(clock: &ManualClock) -> RateLimitService {
    native_of(clock, RULES)
}

fn native_of(clock: &ManualClock, text: &str) -> RateLimitService {
    native_by(testing::limiter(clock), &Loader::text("limits.toml", Format::Toml, text))
}

/// A service with native rules.
pub(super) fn native_by(limiter: Limiter, loader: &Loader) -> RateLimitService {
    let rules = Rules::load(loader).expect("the rules are valid");
    let limiter = limiter.with_rules(rules).unwrap();
    let rules = limiter.rules().unwrap().clone();
    RateLimitService::native(limiter, rules).unwrap()
}

const SEARCH: &[(&str, &str)] =
    &[(":path", "/search?q=x"), (":method", "GET"), ("remote_address", "192.0.2.1")];
const ACCOUNT: &[(&str, &str)] =
    &[(":path", "/api/orders"), ("x-account", "acme"), ("remote_address", "192.0.2.1")];

#[tokio::test]
async fn a_descriptor_is_limited_as_the_request_it_stands_for() {
    let service = native(&ManualClock::default());
    for left in [2, 1, 0] {
        assert_eq!(outcome(&service, &call(&[SEARCH])).await, (true, vec![left]));
    }
    let denied = decide(&service, &call(&[SEARCH])).await;
    assert_eq!(codes(&denied), [Code::OverLimit]);
    let limit = denied.statuses[0].current_limit.clone();
    assert_eq!(limit.map(|limit| (limit.requests_per_unit, limit.name)), Some((3, "search".to_owned())));
    let other = [(":path", "/search"), ("remote_address", "192.0.2.2")];
    assert_eq!(outcome(&service, &call(&[&other])).await, (true, vec![2]));
    assert_eq!(outcome(&service, &call(&[&[(":path", "/other")]])).await, (true, vec![0]), "no rule matches");
}

#[tokio::test]
async fn a_denied_descriptor_refunds_those_before_it() {
    let service = native(&ManualClock::default());
    for _ in 0..3 {
        assert!(outcome(&service, &call(&[ACCOUNT, SEARCH])).await.0);
    }
    assert!(!outcome(&service, &call(&[ACCOUNT, SEARCH])).await.0);
    assert_eq!(outcome(&service, &call(&[ACCOUNT])).await, (true, vec![1]));
}

/// Rules of three policies for each descriptor, so that five descriptors are one decision.
const EACH: &str = r#"
[policy.second]
strategy = "fixed_window"
quota = "100/s"
key = "client_ip"

[policy.hour]
strategy = "fixed_window"
quota = "2/h"
key = "client_ip"

[policy.tried]
strategy = "fixed_window"
quota = "1/h"
key = "client_ip"
mode = "shadow"
"#;

const ADA: &[(&str, &str)] = &[("remote_address", "192.0.2.1"), ("x-tenant", "ada")];
const BOB: &[(&str, &str)] = &[("remote_address", "192.0.2.2"), ("x-tenant", "bob")];

#[tokio::test]
async fn descriptors_of_a_call_are_one_decision() {
    let lines = Lines::default();
    let limiter = testing::limiter(&ManualClock::default()).observe(lines.clone());
    let service = native_by(limiter, &Loader::text("limits.toml", Format::Toml, EACH));
    let [ada, bob] = [ADA, BOB];
    assert_eq!(outcome(&service, &call(&[ada, bob])).await, (true, vec![1, 1]));
    let charged =
        ["second", "hour", "second", "hour", "tried", "tried"].map(|name| format!("charged {name} 1"));
    assert_eq!(lines.take(), [&charged[..], &["admitted by 4".to_owned()]].concat());
    assert_eq!(outcome(&service, &call(&[bob])).await, (true, vec![0]));
    lines.take();
    let denied = decide(&service, &call(&[ada, bob])).await;
    assert_eq!(codes(&denied), [Code::Ok, Code::OverLimit]);
    assert_eq!(denied.statuses.iter().map(|status| status.limit_remaining).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(lines.take(), ["Limited by 4"], "nothing was charged before");
    let shadow = service.shadow();
    let passed = decide(&shadow, &call(&[ada, bob])).await;
    assert_eq!((passed.overall_code(), codes(&passed)), (Code::Ok, vec![Code::Ok, Code::OverLimit]));
    assert_eq!(lines.take(), ["shadow hour", "admitted by 3"]);
}

#[tokio::test]
async fn hits_of_equal_descriptors_are_added_up() {
    let service = native(&ManualClock::default());
    assert_eq!(outcome(&service, &call(&[SEARCH, SEARCH])).await, (true, vec![1, 1]));
    assert_eq!(outcome(&service, &call(&[SEARCH, SEARCH])).await, (false, vec![1, 1]));
    assert_eq!(outcome(&service, &of([hits(SEARCH, 0), descriptor(SEARCH)])).await, (true, vec![0, 0]));
}

#[tokio::test]
async fn more_rules_than_a_decision_has_are_all_or_none() {
    let service = native_of(&ManualClock::default(), EACH);
    let clients: Vec<String> = (0..MAX_DESCRIPTORS).map(|client| format!("192.0.2.{client}")).collect();
    let all = of(clients.iter().map(|client| descriptor(&[("remote_address", client)])).collect::<Vec<_>>());
    assert_eq!(outcome(&service, &all).await, (true, vec![1; MAX_DESCRIPTORS]));
    let last = call(&[&[("remote_address", &clients[MAX_DESCRIPTORS - 1])]]);
    assert_eq!(outcome(&service, &last).await, (true, vec![0]));
    for _ in 0..2 {
        assert!(!outcome(&service, &all).await.0);
    }
    let first = call(&[&[("remote_address", &clients[0])]]);
    assert_eq!(outcome(&service, &first).await, (true, vec![0]), "what was charged before was refunded");
}

/// A program that looks keys up answers the calls of a gateway by the same rules.
#[tokio::test]
async fn keys_of_descriptors_are_looked_up() {
    let text = EACH.replace("key = \"client_ip\"", "key = { lookup = \"plan\" }");
    let plan = |parts: &http::request::Parts| {
        let tenant = parts.headers.get("x-tenant").map(|tenant| tenant.as_bytes().to_vec());
        async { tenant.map(|tenant| Lookup::found("plan", tenant)).ok_or(KeyError::server("no directory")) }
    };
    let loader = Loader::text("limits.toml", Format::Toml, &text).lookup("plan", plan);
    let service = native_by(testing::limiter(&ManualClock::default()), &loader);
    let service = service.charge_denied_hits(ChargeDeniedHits::Never);
    let [ada, bob] = [ADA, BOB];
    assert_eq!(outcome(&service, &call(&[ada, bob])).await, (true, vec![1, 1]));
    let failed = service.decide(&call(&[ada, &[("path", "/")]])).await.unwrap_err();
    assert_eq!(failed, CallError::Undecided { status: 503 });
    assert_eq!(
        outcome(&service, &of([hits(ada, 2)])).await,
        (false, vec![1]),
        "the failed call was refunded"
    );
    assert_eq!(outcome(&service, &call(&[ada])).await, (true, vec![0]));
}

#[tokio::test]
async fn limiter_that_is_off_answers_calls() {
    let service = native_by(Limiter::off(), &Loader::text("limits.toml", Format::Toml, RULES));
    for _ in 0..4 {
        assert_eq!(outcome(&service, &call(&[SEARCH])).await, (true, vec![0]));
    }
}

#[tokio::test]
async fn further_hits_are_charged_or_refunded_together() {
    let service = native(&ManualClock::default()).charge_denied_hits(ChargeDeniedHits::Never);
    assert_eq!(outcome(&service, &of([hits(ACCOUNT, 3)])).await, (true, vec![2]));
    assert!(!outcome(&service, &of([hits(ACCOUNT, 3)])).await.0);
    assert_eq!(outcome(&service, &of([hits(ACCOUNT, 0)])).await, (true, vec![2]));
    assert_eq!(outcome(&service, &of([hits(ACCOUNT, 2)])).await, (true, vec![0]));
    assert!(!outcome(&service, &of([hits(ACCOUNT, 0)])).await.0);
}

#[tokio::test]
async fn the_headers_and_the_body_of_rules_are_passed_on() {
    let service = native(&ManualClock::default()).response_headers(ResponseHeaders::XRateLimit);
    let mut last = decide(&service, &call(&[SEARCH])).await;
    let names = |response: &RateLimitResponse| -> Vec<String> {
        response.response_headers_to_add.iter().map(|header| header.key.clone()).collect()
    };
    assert!(names(&last).contains(&"x-ratelimit-remaining".to_owned()), "{last:?}");
    for _ in 0..3 {
        last = decide(&service, &call(&[SEARCH])).await;
    }
    assert!(names(&last).contains(&"retry-after".to_owned()) && !last.raw_body.is_empty(), "{last:?}");
}

#[tokio::test]
async fn what_a_client_chooses_does_not_make_a_call_fail() {
    let service = native(&ManualClock::default());
    let long = format!("/search?q={}", "<".repeat(60_000));
    let hostile = ["/search?q=<", "/search?q=\u{e9}\"`", "/search?q=\u{1} x", &long];
    for (path, left) in hostile.into_iter().zip([Some(2), Some(1), Some(0), None]) {
        let asked = call(&[&[(":path", path), ("remote_address", "192.0.2.1")]]);
        assert_eq!(outcome(&service, &asked).await.0, left.is_some(), "{path:.20}");
    }
    for (account, admitted) in [("a\0", 5), ("a\u{7f}", 5)] {
        let entries = [(":path", "/api/orders"), ("x-account", account), ("remote_address", "192.0.2.1")];
        for asked in 0..=admitted {
            assert_eq!(
                outcome(&service, &call(&[&entries])).await.0,
                asked < admitted,
                "{account:?} {asked}"
            );
        }
    }
}

const FILES: &str = r#"
[policy.exports]
strategy = "fixed_window"
quota = "1/day"
key = "client_ip"
match = { path = "/files/{id}/export" }

[policy.all]
strategy = "fixed_window"
quota = "1/day"
key = "client_ip"

[layer]
except = [{ prefix = "/public" }]
"#;

/// What a server reads behind a long part of the path, or behind what ends it for others, is not left out.
#[tokio::test]
async fn end_of_path_is_not_lost() {
    let long = "a".repeat(65_600);
    let escaped = "<".repeat(22_000);
    for path in [
        format!("/files/{long}/export"),
        format!("/files/{escaped}/export"),
        "/files/x#/export".to_owned(),
        format!("/public/{long}/../../search"),
        format!("/public/{escaped}/../../search"),
        "/public#/../search".to_owned(),
    ] {
        let service = native_of(&ManualClock::default(), FILES);
        let asked = call(&[&[(":path", &*path), ("remote_address", "192.0.2.1")]]);
        let admitted = [outcome(&service, &asked).await.0, outcome(&service, &asked).await.0];
        assert_eq!(admitted, [true, false], "{path:.20}");
    }
    let exports = FILES.split("[policy.all]").next().unwrap();
    for path in [format!("/files/{long}/export"), format!("/files/{escaped}/export")] {
        let service = native_of(&ManualClock::default(), exports);
        let asked = call(&[&[(":path", &*path), ("remote_address", "192.0.2.1")]]);
        let admitted = [outcome(&service, &asked).await.0, outcome(&service, &asked).await.0];
        assert_eq!(admitted, [true, false], "{path:.20}");
    }
    // A long query does not make its path one of any rule.
    let service = native_of(&ManualClock::default(), exports);
    let asked = call(&[&[(":path", &*format!("/search?{long}")), ("remote_address", "192.0.2.1")]]);
    assert_eq!(outcome(&service, &asked).await, (true, vec![0]), "no rule matches");
    assert_eq!(outcome(&service, &asked).await, (true, vec![0]));
}

/// Envoy sends a descriptor for each list of actions, and admits calls that fail.
#[tokio::test]
async fn missing_address_is_invalid_argument() {
    let service = native(&ManualClock::default());
    let mut asked = of([descriptor(ACCOUNT), descriptor(&[("path", "/search")])]);
    asked.descriptors.push(descriptor(&[("remote_address", "192.0.2.1")]));
    let error = service.decide(&asked).await.unwrap_err();
    assert!(matches!(error, CallError::NotNative { descriptor: 1, .. }), "{error}");
    let status = tonic::Status::from(error);
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert!(status.message().contains("has no entry `remote_address`"), "{status}");
    assert_eq!(outcome(&service, &call(&[ACCOUNT])).await, (true, vec![4]), "the call was refunded");
    // What is denied without the address is denied.
    let denied =
        native_of(&ManualClock::default(), &format!("{RULES}\n[layer]\ndeny = [{{ prefix = '/api' }}]\n"));
    assert!(!outcome(&denied, &call(&[&[("path", "/api/orders")]])).await.0);
}

#[tokio::test]
async fn keys_of_entries_have_no_case() {
    let service = native(&ManualClock::default());
    for (path, method, address, left) in [
        ("PATH", "METHOD", "REMOTE_ADDRESS", 2),
        (":Path", ":Method", "Masked_Remote_Address", 1),
        ("path", "method", "remote_address", 0),
    ] {
        let entries = [(path, "/search"), (method, "GET"), (address, "192.0.2.1")];
        assert_eq!(outcome(&service, &call(&[&entries])).await, (true, vec![left]), "{path}");
    }
    let post = [("PATH", "/search"), ("Method", "POST"), ("REMOTE_ADDRESS", "192.0.2.1")];
    assert!(outcome(&service, &call(&[&post])).await.0, "the rule is for GET");
    assert!(!outcome(&service, &call(&[SEARCH])).await.0);
}

#[tokio::test]
async fn what_cannot_be_a_request_is_invalid() {
    let service = native(&ManualClock::default());
    let invalid: [RateLimitRequest; 6] = [
        call(&[&[("remote_address", "nowhere")]]),
        call(&[&[(":path", "no path")]]),
        call(&[&[(":method", "")]]),
        call(&[&[("two words", "x")]]),
        of([limited(SEARCH, 1, 1)]),
        of([refund(SEARCH, 1)]),
    ];
    for request in invalid {
        let error = service.decide(&request).await.unwrap_err();
        assert!(matches!(error, CallError::NotNative { descriptor: 0, .. }), "{error}");
    }
    assert!(
        outcome(&service, &call(&[&[("masked_remote_address", "192.0.2.0/24"), (":path", "/search")]]))
            .await
            .0
    );
}

/// A rule by address, and one for all which costs nothing.
pub(super) const FREE: &str = r#"
[policy.own]
strategy = "fixed_window"
quota = "9/day"
key = "client_ip"

[policy.free]
strategy = "fixed_window"
quota = "4/day"
key = "global"
cost = 0
"#;

#[tokio::test]
async fn free_rule_charges_no_hit() {
    let service = native_of(&ManualClock::default(), FREE);
    assert_eq!(outcome(&service, &of([hits(ADA, 5)])).await, (true, vec![4]));
    assert!(!outcome(&service, &of([hits(ADA, 5)])).await.0, "it uses up what is left");
    assert_eq!(outcome(&service, &of([hits(ADA, 0)])).await, (false, vec![0]));
    assert_eq!(outcome(&service, &of([hits(BOB, 3), hits(BOB, 0)])).await, (true, vec![4, 4]));
}
