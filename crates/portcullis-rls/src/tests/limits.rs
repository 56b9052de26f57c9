//! Limits of files: figures, hits, overrides, and all or none.

use std::time::Duration;

use super::*;
use crate::ResponseHeaders;
use crate::messages::rate_limit_response::rate_limit::Unit;

const USERS: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 3, name: each_user }
  - key: path
    value: /login
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - key: nobody
    rate_limit: { unit: day, requests_per_unit: 0 }
  - key: plan
    value: free
    rate_limit: { unlimited: true }
";

#[tokio::test]
async fn a_status_has_the_limit_and_its_figures() {
    let clock = ManualClock::default();
    let service = service(&clock, USERS);
    clock.advance(Duration::from_secs(12));
    let response = decide(&service, &call(&[&[("user", "ada")]])).await;
    assert_eq!(response.overall_code(), Code::Ok);
    let [status] = &response.statuses[..] else { panic!("one status") };
    let limit = status.current_limit.clone().unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit(), limit.name.as_str()), (3, Unit::Minute, "each_user"));
    assert_eq!(status.limit_remaining, 2);
    let second = clock.now_in_window();
    assert_eq!(status.duration_until_reset.as_ref().map(|length| length.seconds), Some(60 - second));
}

/// The second of the minute.
trait InWindow {
    fn now_in_window(&self) -> i64;
}

impl InWindow for ManualClock {
    fn now_in_window(&self) -> i64 {
        use portcullis::store::Clock as _;
        i64::try_from(self.now().as_micros() / 1_000_000 % 60).unwrap()
    }
}

#[tokio::test]
async fn a_window_is_aligned_and_begins_anew() {
    let clock = ManualClock::default();
    let service = service(&clock, USERS);
    let ada = call(&[&[("user", "ada")]]);
    for left in [2, 1, 0] {
        assert_eq!(outcome(&service, &ada).await, (true, vec![left]));
    }
    assert_eq!(outcome(&service, &ada).await, (false, vec![0]));
    assert_eq!(outcome(&service, &call(&[&[("user", "bob")]])).await, (true, vec![2]));
    clock.advance(Duration::from_secs(60));
    assert_eq!(outcome(&service, &ada).await, (true, vec![2]));
}

#[tokio::test]
async fn a_denied_call_charges_none_of_its_limits() {
    let service = service(&ManualClock::default(), USERS);
    let both = call(&[&[("user", "ada")], &[("path", "/login")]]);
    for _ in 0..3 {
        assert!(outcome(&service, &both).await.0);
    }
    let denied = decide(&service, &both).await;
    assert_eq!(denied.overall_code(), Code::OverLimit);
    assert_eq!(codes(&denied), [Code::OverLimit, Code::Ok]);
    assert_eq!(outcome(&service, &call(&[&[("path", "/login")]])).await, (true, vec![1]));
}

#[tokio::test]
async fn what_no_limit_counts_is_admitted() {
    let service = service(&ManualClock::default(), USERS);
    let free = call(&[&[("plan", "free")], &[("unknown", "x")], &[]]);
    let response = decide(&service, &free).await;
    assert_eq!(codes(&response), [Code::Ok; 3]);
    assert!(response.statuses.iter().all(|status| status.current_limit.is_none()));
    let elsewhere = RateLimitRequest { domain: "elsewhere".to_owned(), ..call(&[&[("user", "ada")]]) };
    assert_eq!(outcome(&service, &elsewhere).await, (true, vec![0]));
}

#[tokio::test]
async fn a_limit_of_zero_denies_and_charges_nothing_else() {
    let service = service(&ManualClock::default(), USERS);
    let denied = decide(&service, &call(&[&[("nobody", "x")], &[("user", "ada")]])).await;
    assert_eq!(codes(&denied), [Code::OverLimit, Code::Ok]);
    assert_eq!(outcome(&service, &call(&[&[("user", "ada")]])).await, (true, vec![2]));
}

#[tokio::test]
async fn hits_of_a_descriptor_replace_those_of_the_call() {
    let service = service(&ManualClock::default(), USERS);
    let two = RateLimitRequest {
        hits_addend: 2,
        ..of([hits(&[("user", "ada")], 1), descriptor(&[("user", "bob")])])
    };
    assert_eq!(outcome(&service, &two).await, (true, vec![2, 1]));
    assert_eq!(outcome(&service, &two).await, (false, vec![2, 1]));
}

#[tokio::test]
async fn zero_hits_charge_nothing_and_ask_what_remains() {
    let service = service(&ManualClock::default(), USERS);
    let asks = of([hits(&[("user", "ada")], 0), descriptor(&[("path", "/login")])]);
    assert_eq!(outcome(&service, &asks).await, (true, vec![3, 4]));
    assert!(outcome(&service, &of([hits(&[("user", "ada")], 3)])).await.0);
    assert_eq!(outcome(&service, &asks).await, (false, vec![0, 4]), "what was charged is refunded");
    assert_eq!(outcome(&service, &call(&[&[("path", "/login")]])).await, (true, vec![3]));
}

#[tokio::test]
async fn equal_descriptors_are_charged_together() {
    let service = service(&ManualClock::default(), USERS);
    let twice = call(&[&[("user", "ada")], &[("user", "ada")]]);
    assert_eq!(outcome(&service, &twice).await, (true, vec![1, 1]));
    assert_eq!(outcome(&service, &twice).await, (false, vec![1, 1]));
}

#[tokio::test]
async fn negative_hits_refund_at_most_what_is_charged() {
    let clock = ManualClock::default();
    let service = service(&clock, USERS);
    let ada = call(&[&[("user", "ada")]]);
    for _ in 0..3 {
        assert!(outcome(&service, &ada).await.0);
    }
    assert_eq!(outcome(&service, &of([refund(&[("user", "ada")], 2)])).await, (true, vec![2]));
    assert_eq!(outcome(&service, &of([refund(&[("user", "ada")], 50)])).await, (true, vec![3]));
    assert_eq!(outcome(&service, &ada).await, (true, vec![2]));
    clock.advance(Duration::from_secs(60));
    assert_eq!(
        outcome(&service, &of([refund(&[("user", "ada")], 1)])).await,
        (true, vec![3]),
        "a new window"
    );
}

#[tokio::test]
async fn an_override_replaces_the_limit_and_counts_apart() {
    let service = service(&ManualClock::default(), USERS);
    let hour = 3;
    let of_ten = of([limited(&[("user", "ada")], 10, hour)]);
    assert_eq!(outcome(&service, &of_ten).await, (true, vec![9]));
    assert_eq!(
        outcome(&service, &call(&[&[("user", "ada")]])).await,
        (true, vec![2]),
        "the limit of the file"
    );
    assert_eq!(outcome(&service, &of([limited(&[("user", "bob")], 10, hour)])).await, (true, vec![9]));
    // A plan that changes within the window keeps what was counted.
    assert_eq!(outcome(&service, &of([limited(&[("user", "ada")], 4, hour)])).await, (true, vec![2]));
    assert_eq!(outcome(&service, &of([limited(&[("user", "ada")], 0, hour)])).await, (false, vec![0]));
    let elsewhere = RateLimitRequest { domain: "elsewhere".to_owned(), ..of_ten };
    assert_eq!(outcome(&service, &elsewhere).await, (true, vec![0]), "an unknown domain has no limits");
}

#[tokio::test]
async fn a_replaced_limit_is_not_counted() {
    let text = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: second, requests_per_unit: 5, name: each_user }
  - key: plan
    value: premium
    rate_limit: { unit: second, requests_per_unit: 50, replaces: [{ name: each_user }] }
";
    let service = service(&ManualClock::default(), text);
    let premium = call(&[&[("user", "ada")], &[("plan", "premium")]]);
    assert_eq!(outcome(&service, &premium).await, (true, vec![0, 49]));
    assert_eq!(outcome(&service, &call(&[&[("user", "ada")]])).await, (true, vec![4]));
}

#[tokio::test]
async fn a_new_number_applies_from_the_next_call_on() {
    let service = service(&ManualClock::default(), USERS);
    let ada = call(&[&[("user", "ada")]]);
    assert_eq!(outcome(&service, &ada).await, (true, vec![2]));
    service.replace(descriptors(&USERS.replace("requests_per_unit: 3", "requests_per_unit: 10"))).unwrap();
    assert_eq!(outcome(&service, &ada).await, (true, vec![8]));
    service.replace(descriptors(&USERS.replace("requests_per_unit: 3", "requests_per_unit: 1"))).unwrap();
    assert_eq!(outcome(&service, &ada).await, (false, vec![0]));
}

#[tokio::test]
async fn figures_are_those_that_envoy_shows() {
    let clock = ManualClock::default();
    let service = service(&clock, USERS).response_headers(ResponseHeaders::XRateLimit);
    // A part of a second is a second: Envoy would cut it off.
    clock.advance(Duration::from_millis(59_045));
    let response = decide(&service, &call(&[&[("user", "ada")]])).await;
    let reset = response.statuses[0].duration_until_reset.unwrap();
    assert_eq!((reset.seconds, reset.nanos), (1, 0));
    // No wait helps against a limit of 0.
    let banned = decide(&service, &call(&[&[("nobody", "x")]])).await;
    assert_eq!(banned.overall_code(), Code::OverLimit);
    let names: Vec<_> = banned.response_headers_to_add.iter().map(|header| header.key.as_str()).collect();
    assert!(names.contains(&"x-ratelimit-limit") && !names.contains(&"retry-after"), "{names:?}");
    let free = decide(&service, &call(&[&[("plan", "free")], &[("unknown", "x")]])).await;
    let left: Vec<_> = free.statuses.iter().map(|status| status.limit_remaining).collect();
    assert_eq!((free.overall_code(), left), (Code::Ok, vec![u32::MAX, 0]));
}
