//! Shadow mode, quota mode, denied hits and headers.

use super::*;
use crate::{ChargeDeniedHits, ResponseHeaders};

const MODES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 2 }
  - key: tried
    shadow_mode: true
    rate_limit: { unit: minute, requests_per_unit: 1 }
  - key: pool
    quota_mode: true
    rate_limit: { unit: minute, requests_per_unit: 1 }
  - key: tokens
    rate_limit: { unit: hour, requests_per_unit: 1000 }
";

#[tokio::test]
async fn a_shadow_limit_counts_and_never_denies() {
    let service = service(&ManualClock::default(), MODES);
    let tried = call(&[&[("tried", "x")], &[("user", "ada")]]);
    assert_eq!(outcome(&service, &tried).await, (true, vec![0, 1]));
    let second = decide(&service, &tried).await;
    assert_eq!(codes(&second), [Code::Ok, Code::Ok], "the shadow limit is used up");
    assert!(!outcome(&service, &tried).await.0, "by the limit of users");
}

#[tokio::test]
async fn the_shadow_of_all_limits_shows_what_it_admits() {
    let service = service(&ManualClock::default(), MODES).shadow();
    let ada = call(&[&[("user", "ada")]]);
    for _ in 0..2 {
        assert_eq!(codes(&decide(&service, &ada).await), [Code::Ok]);
    }
    let denied = decide(&service, &ada).await;
    assert_eq!((denied.overall_code(), codes(&denied)), (Code::Ok, vec![Code::OverLimit]));
}

#[tokio::test]
async fn quotas_deny_when_all_are_used_up() {
    let service = service(&ManualClock::default(), MODES);
    let both = call(&[&[("pool", "a")], &[("pool", "b")], &[("user", "ada")]]);
    assert!(outcome(&service, &call(&[&[("pool", "a")]])).await.0);
    assert!(!outcome(&service, &call(&[&[("pool", "a")]])).await.0, "a single quota is a limit");
    let from_b = decide(&service, &both).await;
    assert_eq!(from_b.overall_code(), Code::Ok);
    assert_eq!(codes(&from_b), [Code::OverLimit, Code::Ok, Code::Ok]);
    assert!(!outcome(&service, &both).await.0);
    assert_eq!(
        outcome(&service, &call(&[&[("user", "ada")]])).await,
        (true, vec![0]),
        "the denied call is refunded"
    );
}

#[tokio::test]
async fn denied_hits_use_a_window_up_unless_told() {
    let used_up = (false, vec![0]);
    for (setting, after) in [
        (ChargeDeniedHits::Never, (true, vec![89])),
        (ChargeDeniedHits::Reports, used_up.clone()),
        (ChargeDeniedHits::Always, used_up),
    ] {
        let service = service(&ManualClock::default(), MODES);
        let service = service.charge_denied_hits(setting);
        assert_eq!(outcome(&service, &of([hits(&[("tokens", "t")], 910)])).await, (true, vec![90]));
        assert!(!outcome(&service, &of([hits(&[("tokens", "t")], 400)])).await.0);
        assert_eq!(outcome(&service, &call(&[&[("tokens", "t")]])).await, after);
    }
}

#[tokio::test]
async fn headers_are_those_of_the_limit_that_is_nearest() {
    let service = service(&ManualClock::default(), MODES).response_headers(ResponseHeaders::XRateLimit);
    let request = call(&[&[("tried", "x")], &[("tokens", "t")], &[("user", "ada")]]);
    let headers = |response: RateLimitResponse| -> Vec<String> {
        let headers = response.response_headers_to_add.into_iter();
        headers.map(|header| format!("{}: {}", header.key, header.value)).collect()
    };
    let first = headers(decide(&service, &request).await);
    assert_eq!(first[..2], ["x-ratelimit-limit: 2", "x-ratelimit-remaining: 1"]);
    assert!(first[2].starts_with("x-ratelimit-reset: ") && first.len() == 3);
    decide(&service, &request).await;
    let denied = headers(decide(&service, &request).await);
    assert_eq!(denied[1], "x-ratelimit-remaining: 0");
    assert!(denied[3].starts_with("retry-after: "), "{denied:?}");
    let of_envoy = service.response_headers(ResponseHeaders::RateLimit);
    assert_eq!(headers(decide(&of_envoy, &request).await)[0], "ratelimit-limit: 2");
}
