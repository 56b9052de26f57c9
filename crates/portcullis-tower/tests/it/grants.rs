//! Quotas that are granted to single keys by hand.

mod headers;
mod later;
mod precedence;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Request, Response};
use portcullis_core::{ManualClock, Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{
    CheckBuilder, Global, Header, OverridingError, PolicyExt as _, RateLimit, RateLimitHeaders,
    RateLimitLayer, Registry,
};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::probe::{Answer, Probe, request, send};

const DAY: Duration = Duration::from_secs(86_400);

const DAILY: Policy = Policy::fixed_window("daily", Quota::per_day(2)).allow_overrides();

fn limiter() -> (Arc<Registry>, ManualClock) {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Arc::new(Registry::new(Arc::new(store), Secret::published())), clock)
}

fn service(registry: &Arc<Registry>, policy: Policy) -> RateLimit<Probe> {
    let layer = RateLimitLayer::new(Arc::clone(registry), policy.by(Header::named("x-user")));
    layer.headers(RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF).layer(Probe::default())
}

fn of(user: &str) -> Request<String> {
    request(&[("x-user", user)])
}

fn figures(answer: &Answer) -> (u16, Option<&str>, Option<&str>) {
    (answer.status, answer.header("x-ratelimit-limit"), answer.header("x-ratelimit-remaining"))
}

#[tokio::test]
async fn a_key_has_its_granted_quota_until_the_grant_ends() {
    let (registry, clock) = limiter();
    let service = service(&registry, DAILY);
    let ada = registry.key_of(&Header::named("x-user"), of("ada")).unwrap();
    assert_eq!(figures(&send(&service, of("ada")).await), (200, Some("2"), Some("1")));

    registry.grant(&DAILY, ada, Quota::per_day(5)).for_duration(3 * DAY).await.unwrap();
    let grant = registry.overrides(&DAILY, ada).await.unwrap().grant().unwrap();
    assert_eq!((grant.quota(), grant.length()), (Quota::per_day(5), 3 * DAY));
    for remaining in ["3", "2", "1", "0"] {
        assert_eq!(figures(&send(&service, of("ada")).await), (200, Some("5"), Some(remaining)));
    }
    assert_eq!(figures(&send(&service, of("ada")).await), (429, Some("5"), Some("0")));
    assert_eq!(
        figures(&send(&service, of("grace")).await),
        (200, Some("2"), Some("1")),
        "others have no grant"
    );

    clock.advance(3 * DAY);
    assert_eq!(figures(&send(&service, of("ada")).await), (200, Some("2"), Some("1")));
}

#[tokio::test]
async fn a_grant_is_replaced_and_revoked() {
    let (registry, _clock) = limiter();
    let service = service(&registry, DAILY);
    let ada = registry.key_of(&Header::named("x-user"), of("ada")).unwrap();
    for limit in [5, 9] {
        registry.grant(&DAILY, ada, Quota::per_day(limit)).until(SystemTime::now() + DAY).await.unwrap();
        assert_eq!(
            send(&service, of("ada")).await.header("x-ratelimit-limit"),
            Some(limit.to_string().as_str())
        );
    }
    registry.revoke_grant(&DAILY, ada).await.unwrap();
    assert_eq!(figures(&send(&service, of("ada")).await), (429, Some("2"), Some("0")));
}

#[tokio::test]
async fn a_grant_that_does_not_fit_is_an_error() {
    let (registry, _clock) = limiter();
    let plain = Policy::gcra("plain", Quota::per_second(1));
    let _layers = [service(&registry, DAILY), service(&registry, plain.clone())];
    let ada = registry.key_of(&Header::named("x-user"), of("ada")).unwrap();
    let grant =
        async |policy: &Policy, quota, length| registry.grant(policy, ada, quota).for_duration(length).await;

    let burst = grant(&DAILY, Quota::per_day(5).burst(9), DAY).await.unwrap_err();
    assert!(burst.to_string().contains("does not fit policy daily"), "{burst}");
    let not_read = grant(&plain, Quota::per_second(9), DAY).await.unwrap_err();
    assert_eq!(
        not_read.to_string(),
        "policy plain has no grants and blocks: allow them (`overrides = true` in rules, `Policy::allow_overrides` in code), or give it a lock-out"
    );
    let unknown = grant(&Policy::gcra("typo", Quota::per_second(1)), Quota::per_second(2), DAY).await;
    assert!(matches!(unknown, Err(OverridingError::Unknown { policy }) if policy.as_str() == "typo"));
    let past = registry.grant(&DAILY, ada, Quota::per_day(5)).until(SystemTime::UNIX_EPOCH).await;
    assert!(matches!(past, Err(OverridingError::Invalid(_))));
    assert_eq!(registry.overrides(&DAILY, ada).await.unwrap().grant(), None);
}

#[tokio::test]
async fn block_of_a_shared_key_names_no_client() {
    let (registry, _clock) = limiter();
    let all = Policy::fixed_window("all", Quota::per_day(9)).allow_overrides();
    let service = RateLimitLayer::new(Arc::clone(&registry), all.clone().by(Global)).layer(Probe::default());
    let key = registry.key_of(&Global, of("ada")).unwrap();
    registry.block(&all, key, Duration::from_secs(60)).await.unwrap();
    assert_eq!(send(&service, of("ada")).await.text, "these requests are blocked: retry after 60 s\n");
}

#[tokio::test]
async fn a_limiter_that_is_off_grants_nothing() {
    let registry = Registry::off();
    let ada = registry.key_of(&Header::named("x-user"), of("ada")).unwrap();
    assert_eq!(registry.grant(&DAILY, ada, Quota::per_day(5)).for_duration(DAY).await, Ok(()));
    assert_eq!(registry.block(&DAILY, ada, DAY).await, Ok(()));
    assert!(registry.overrides(&DAILY, ada).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_charge_under_a_grant_is_corrected_under_it() {
    let (registry, _clock) = limiter();
    let calls = Policy::gcra("calls", Quota::per_minute(1)).allow_overrides();
    let layer = RateLimitLayer::new(
        Arc::clone(&registry),
        calls.clone().by(Header::named("x-user")).charge_when(|outcome| outcome.status() != 404),
    );
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let status = request.uri().path()[1..].parse::<u16>().unwrap();
        Ok::<_, std::convert::Infallible>(Response::builder().status(status).body(String::new()).unwrap())
    }));
    let ada = registry.key_of(&Header::named("x-user"), of("ada")).unwrap();
    registry.grant(&calls, ada, Quota::per_minute(100).burst(100)).for_duration(DAY).await.unwrap();
    for (path, remaining) in [("/200", "99"), ("/200", "98"), ("/404", "98"), ("/404", "98"), ("/200", "97")]
    {
        let mut request = of("ada");
        *request.uri_mut() = path.parse().unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.headers()["x-ratelimit-remaining"], remaining, "{path}");
        assert_eq!(response.headers()["x-ratelimit-limit"], "100");
    }
}

#[tokio::test]
async fn a_handler_charges_more_under_the_grant_of_its_key() {
    let (registry, _clock) = limiter();
    let daily = DAILY;
    let check = CheckBuilder::new(&registry, &daily).by(|key| key.part("user", b"ada")).await.unwrap();
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"ada");
    registry.grant(&daily, hasher.finish().unwrap(), Quota::per_day(50)).for_duration(DAY).await.unwrap();
    let more = check.charge_more(40).await.unwrap();
    assert_eq!((more.limit(), more.remaining()), (50, 9));
    assert_eq!(check.check(5).await.unwrap().remaining(), 4);
    check.refund().await.unwrap();
    assert_eq!(check.decision().remaining(), 50);
}

#[tokio::test]
async fn a_refund_after_the_end_of_a_grant_frees_what_was_charged() {
    let (registry, _clock) = limiter();
    let calls = Policy::gcra("calls", Quota::per_minute(1).burst(10)).allow_overrides();
    let check = || CheckBuilder::new(&registry, &calls).by(|key| key.part("user", b"ada"));
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"ada");
    let ada = hasher.finish().unwrap();
    assert_eq!(check().cost(5).await.unwrap().decision().remaining(), 5);
    registry.grant(&calls, ada, Quota::per_minute(60).burst(600)).for_duration(DAY).await.unwrap();
    // A second each under the grant, and a minute each without it.
    let granted = check().cost(100).await.unwrap();
    registry.revoke_grant(&calls, ada).await.unwrap();
    assert_eq!(granted.charge_more(1).await.unwrap().remaining(), 2);
    granted.refund().await.unwrap();
    assert_eq!(check().cost(0).await.unwrap().decision().remaining(), 5, "the first charge stays");
}
