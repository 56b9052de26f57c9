//! Limits beside each other: of 0, used up, asked with no hits, of other tiers, and descriptors that cannot be decided.

use portcullis::key::KeyError;
use portcullis::rules::{Format, Loader};

use super::events::Lines;
use super::native::native_by;
use super::*;
use crate::{CallError, ChargeDeniedHits, ResponseHeaders};

const LIMITS: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: ban
    rate_limit: { unit: minute, requests_per_unit: 0 }
  - key: pool
    quota_mode: true
    rate_limit: { unit: minute, requests_per_unit: 1 }
";

const POOL_A: &[(&str, &str)] = &[("pool", "a")];
const POOL_B: &[(&str, &str)] = &[("pool", "b")];
const USER: &[(&str, &str)] = &[("user", "ada")];
const BAN: &[(&str, &str)] = &[("ban", "x")];

fn observed() -> (Lines, RateLimitService) {
    let lines = Lines::default();
    let limiter = testing::limiter(&ManualClock::default()).observe(lines.clone());
    (lines, RateLimitService::envoy(limiter, descriptors(LIMITS)))
}

#[tokio::test]
async fn used_up_quota_asked_with_no_hits_is_over() {
    let (lines, service) = observed();
    decide(&service, &call(&[POOL_A])).await;
    lines.take();
    let answer = decide(&service, &of([hits(POOL_A, 0), descriptor(POOL_B)])).await;
    assert_eq!((answer.overall_code(), codes(&answer)), (Code::Ok, vec![Code::OverLimit, Code::Ok]));
    assert_eq!(lines.take(), ["charged shop.pool 1", "admitted by 2"]);
    let denied = decide(&service, &of([hits(POOL_A, 0), hits(POOL_B, 0)])).await;
    assert_eq!((denied.overall_code(), codes(&denied)), (Code::OverLimit, vec![Code::OverLimit; 2]));
    assert_eq!(lines.take(), ["Limited by 2"]);
}

#[tokio::test]
async fn limit_of_zero_charges_no_other_limit() {
    let (lines, service) = observed();
    let service = service.charge_denied_hits(ChargeDeniedHits::Reports);
    decide(&service, &of([hits(USER, 3)])).await;
    lines.take();
    lines.take_keys();
    let banned = decide(&service, &of([hits(USER, 3), descriptor(BAN)])).await;
    assert_eq!(codes(&banned), [Code::Ok, Code::OverLimit]);
    assert_eq!((lines.take(), lines.take_keys()[0].len()), (vec!["Limited by 1".to_owned()], 1));
    assert_eq!(outcome(&service, &call(&[USER])).await, (true, vec![1]));
}

fn native(more: &str) -> (Lines, RateLimitService) {
    let text =
        format!("[policy.ip]\nstrategy = \"fixed_window\"\nquota = \"2/day\"\nkey = \"client_ip\"\n{more}\n");
    let lines = Lines::default();
    let limiter = testing::limiter(&ManualClock::default()).observe(lines.clone());
    (lines, native_by(limiter, &Loader::text("limits.toml", Format::Toml, &text)))
}

const ONE: &[(&str, &str)] = &[("remote_address", "192.0.2.1")];
const PRO: &[(&str, &str)] = &[("remote_address", "192.0.2.1"), ("x-plan", "pro")];
const OTHER: &[(&str, &str)] = &[("remote_address", "192.0.2.2")];

/// Envoy admits calls that fail, so what is denied is not one of them.
#[tokio::test]
async fn denial_comes_before_a_missing_address() {
    let (_, service) = native("");
    assert!(outcome(&service, &of([hits(ONE, 1)])).await.0);
    let unknown = call(&[ONE, &[(":path", "/b")]]);
    assert!(service.decide(&unknown).await.is_err());
    assert_eq!(outcome(&service, &call(&[ONE])).await, (true, vec![0]), "the call was refunded");
    assert!(!outcome(&service, &unknown).await.0);
}

/// A rejection in gRPC has the status 200 of HTTP.
#[tokio::test]
async fn failed_look_up_of_a_grpc_request_is_no_denial() {
    let text = "[policy.plan]\nstrategy = \"fixed_window\"\nquota = \"2/day\"\nkey = { lookup = \"plan\" }\n";
    let down = |_: &http::request::Parts| async { Err(KeyError::server("no directory")) };
    let loader = Loader::text("limits.toml", Format::Toml, text).lookup("plan", down);
    let service = native_by(testing::limiter(&ManualClock::default()), &loader);
    let grpc: &[(&str, &str)] = &[(":method", "POST"), ("content-type", "application/grpc")];
    for entries in [grpc, ONE] {
        let failed = service.decide(&call(&[entries])).await.unwrap_err();
        assert_eq!(failed, CallError::Undecided { status: 503 });
    }
}

#[tokio::test]
async fn denial_shows_no_charge_that_was_refunded() {
    let (_, service) = native("");
    assert!(outcome(&service, &of([hits(ONE, 2)])).await.0);
    let denied = decide(&service, &of([descriptor(OTHER), hits(ONE, 0)])).await;
    assert_eq!((codes(&denied), denied.statuses[0].limit_remaining), (vec![Code::Ok, Code::OverLimit], 0));
    assert!(denied.statuses[0].current_limit.is_none());
    assert_eq!(outcome(&service, &call(&[OTHER])).await, (true, vec![1]));
}

#[tokio::test]
async fn each_tier_of_a_key_is_enforced() {
    let (_, service) = native("tiers = { pro = \"9/day\" }\ntier = { header = \"x-plan\" }");
    let service = service.charge_denied_hits(ChargeDeniedHits::Never);
    assert!(!outcome(&service, &of([hits(PRO, 3), hits(ONE, 2)])).await.0);
    assert_eq!(outcome(&service, &of([hits(ONE, 2), hits(PRO, 3)])).await, (true, vec![0, 4]));
}

#[tokio::test]
async fn trial_tells_of_a_list_that_denies() {
    let (lines, service) = native("[layer]\ndeny = [{ network = \"192.0.2.2\" }]");
    let passed = decide(&service.shadow(), &call(&[OTHER])).await;
    assert_eq!((passed.overall_code(), lines.take()), (Code::Ok, vec!["Denied by 0".to_owned()]));
}

#[tokio::test]
async fn shadow_header_is_that_of_the_descriptor() {
    let all = "[policy.all]\nstrategy = \"fixed_window\"\nquota = \"50/day\"\nkey = \"client_ip\"\n";
    let headers = "[layer]\nheaders = [\"x-ratelimit\", \"shadow\"]\n";
    let (_, service) = native(&format!("mode = \"shadow\"\n{all}{headers}"));
    let service = service.response_headers(ResponseHeaders::XRateLimit);
    decide(&service, &of([hits(ONE, 2)])).await;
    for (last, is_tried) in [([ONE, OTHER], false), ([OTHER, ONE], true)] {
        let answer = decide(&service, &call(&last)).await;
        let mut headers = answer.response_headers_to_add.iter();
        assert_eq!(headers.any(|header| header.key == "x-ratelimit-shadow"), is_tried);
    }
}
