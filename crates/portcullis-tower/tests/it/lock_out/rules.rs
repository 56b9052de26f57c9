//! Which policies may have a lock-out, and which denials count.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_core::{Concurrency, ManualClock, Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{
    CheckBuilder, ClientIp, Extension, Global, Header, Identity, KeyExtractor as _, KeyWriter, LayerError,
    Lookup, Mode, OnMissing, OverridingError, Percent, PolicyExt as _, RateLimitLayer, Reason, Registry,
    Route,
};
use tower::Layer as _;

use super::{
    LOGIN, MINUTE, RULE, blocks, by_address, from, get, layer, limiter, locking_out, login, statuses,
};
use crate::probe::{Probe, request, send};
use crate::support::{TestStore, mistake, registry_of};

#[test]
fn a_lock_out_of_all_clients_is_an_error() {
    let (registry, _clock) = limiter();
    let shared = LayerError::SharedLockOut { policy: LOGIN.name().clone() };
    for limit in [
        LOGIN.by(Global),
        LOGIN.by(Route::http_method()),
        LOGIN.by(Global.and(Route::grpc_method())),
        LOGIN.by(ClientIp::peer()).on_missing(OnMissing::Shared),
    ] {
        assert_eq!(mistake(&registry, [limit.lock_out(RULE)]), shared);
    }
    assert!(shared.to_string().starts_with("policy login cannot lock out keys that unrelated clients share"));
    let by_both = LOGIN.by(ClientIp::peer().and(Route::http_method())).lock_out(RULE);
    assert!(RateLimitLayer::try_new(registry, [by_both]).is_ok());
}

#[test]
#[should_panic(expected = "policy login cannot lock out keys that unrelated clients share")]
fn a_shared_key_after_the_lock_out_panics() {
    let (registry, _clock) = limiter();
    let _ = layer(&registry, login().lock_out(RULE).by(Global));
}

#[test]
#[should_panic(expected = "policy login cannot lock out keys that unrelated clients share")]
fn a_shared_missing_identity_after_the_lock_out_panics() {
    let (registry, _clock) = limiter();
    let _ = layer(&registry, login().lock_out(RULE).on_missing(OnMissing::Shared));
}

#[test]
fn a_leased_policy_has_no_lock_out() {
    let (registry, _clock) = limiter();
    let leased = Policy::fixed_window("leased", Quota::per_minute(100)).lease(10);
    let expected = LayerError::LeasedOverrides { policy: leased.name().clone() };
    assert_eq!(mistake(&registry, [leased.by(ClientIp::peer()).lock_out(RULE)]), expected);

    let _locked_out = locking_out(&registry);
    let leased = Policy::fixed_window("login", Quota::per_minute(100)).lease(10);
    assert!(matches!(registry.set_policy(leased), Err(LayerError::LeasedOverrides { .. })));
}

#[test]
fn a_store_may_refuse_a_lock_out() {
    let store = Arc::<TestStore>::default();
    let registry = registry_of(Arc::clone(&store));
    let _layer = by_address(&registry);
    store.is_full.store(true, Ordering::Relaxed);
    assert!(matches!(mistake(&registry, [login().lock_out(RULE)]), LayerError::Refused { .. }));
}

#[tokio::test]
async fn all_layers_with_the_policy_share_the_lock_out() {
    let (registry, _clock) = limiter();
    let before = by_address(&registry).layer(Probe::default());
    assert_eq!(get(&before, 9).await.status, 200);
    let with = locking_out(&registry).layer(Probe::default());
    let after = by_address(&registry).layer(Probe::default());

    // One passes; a denial in each of them.
    assert_eq!(get(&with, 1).await.status, 200);
    for service in [&before, &with, &after] {
        assert_eq!(get(service, 1).await.status, 429);
    }
    for service in [&before, &with, &after] {
        assert_eq!(get(service, 1).await.header("retry-after"), Some("600"));
    }
    assert!(RateLimitLayer::try_new(Arc::clone(&registry), [login().lock_out(RULE)]).is_ok());
    let error = mistake(&registry, [login().lock_out(RULE.within(MINUTE * 2))]);
    assert!(matches!(error, LayerError::LockOutConflict { .. }), "{error}");
}

#[tokio::test]
async fn a_lock_out_ends_with_the_last_layer_of_its_policy() {
    let (registry, _clock) = limiter();
    drop(locking_out(&registry));
    let layer = layer(&registry, login().lock_out(RULE.within(MINUTE * 2)));
    assert_eq!(layer.policies().count(), 1);
}

#[tokio::test]
async fn a_policy_that_changes_keeps_its_lock_out() {
    let (registry, _clock) = limiter();
    let service = locking_out(&registry).layer(Probe::default());
    registry.set_policy(Policy::fixed_window("login", Quota::per_minute(2))).unwrap();
    assert!(registry.policy(LOGIN.name()).unwrap().reads_overrides());
    assert_eq!(statuses(&service, 1, 5).await, [200, 200, 429, 429, 429]);
    assert_eq!(get(&service, 1).await.header("retry-after"), Some("600"));
}

#[tokio::test]
async fn shadow_and_off_policies_lock_no_key_out() {
    let (registry, clock) = limiter();
    let blocks = blocks(&registry);
    let service = locking_out(&registry).layer(Probe::default());
    for mode in [Mode::Shadow, Mode::Off, Mode::Percent(Percent::ZERO)] {
        registry.set_mode(LOGIN.name(), mode).unwrap();
        assert_eq!(statuses(&service, 1, 10).await, [200; 10]);
    }
    clock.advance(MINUTE);
    registry.set_mode(LOGIN.name(), Mode::Enforce).unwrap();
    assert_eq!(statuses(&service, 1, 3).await, [200, 429, 429]);
    assert!(blocks.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_blocked_key_passes_in_shadow() {
    let (registry, _clock) = limiter();
    let service = locking_out(&registry).layer(Probe::default());
    statuses(&service, 1, 4).await;
    registry.set_mode(LOGIN.name(), Mode::Shadow).unwrap();
    assert_eq!(get(&service, 1).await.status, 200);
}

#[tokio::test]
async fn costs_that_never_fit_do_not_count() {
    let (registry, _clock) = limiter();
    let blocks = blocks(&registry);
    let service = layer(&registry, login().cost(2).lock_out(RULE)).layer(Probe::default());
    assert_eq!(statuses(&service, 1, 10).await, [400; 10]);
    assert!(blocks.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_denial_counts_under_the_policy_that_denies() {
    let (registry, _clock) = limiter();
    let hourly = Policy::fixed_window("hourly", Quota::per_hour(1));
    let layer = locking_out(&registry).and(hourly.by(Header::named("x-user")));
    let service = layer.layer(Probe::default());
    let mut statuses = Vec::new();
    for _ in 0..10 {
        statuses.push(send(&service, from(1, request(&[("x-user", "ada")]))).await.status);
    }
    assert_eq!(statuses[..2], [200, 429]);
    // All ten are denied by both policies but the first: the address is blocked, and so is every user from there.
    let blocked = send(&service, from(1, request(&[("x-user", "grace")]))).await;
    assert_eq!(blocked.header("retry-after"), Some("600"));
    assert_eq!(send(&service, from(2, request(&[("x-user", "grace")]))).await.status, 200);
}

#[tokio::test]
async fn denials_by_another_policy_lock_no_key_out() {
    let (registry, _clock) = limiter();
    let blocks = blocks(&registry);
    let (daily, slots) =
        (Policy::fixed_window("daily", Quota::per_day(100)), Policy::gcra("all", Quota::per_hour(1)));
    let layer = RateLimitLayer::new(Arc::clone(&registry), daily.by(ClientIp::peer()).lock_out(RULE));
    let service = layer.and(slots.by(Global)).layer(Probe::default());
    assert_eq!(get(&service, 1).await.status, 200);
    for _ in 0..50 {
        let answer = get(&service, 1).await;
        assert_eq!((answer.status, answer.header("retry-after")), (429, Some("3600")));
    }
    assert!(blocks.lock().unwrap().is_empty());
}

#[tokio::test]
async fn denials_of_a_policy_that_charges_after_lock_out() {
    let (registry, _clock) = limiter();
    let limit = login().charge_when(|outcome| outcome.status() == 200).charge_after();
    let service = layer(&registry, limit.lock_out(RULE)).layer(Probe::default());
    assert_eq!(statuses(&service, 1, 4).await, [200, 429, 429, 429]);
    assert_eq!(get(&service, 1).await.header("retry-after"), Some("600"));
    assert_eq!(get(&service, 2).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_when_its_key_is_blocked_is_rejected() {
    let (registry, clock) = limiter();
    let patient = LOGIN.wait_at_most(MINUTE * 2).allow_overrides();
    let layer = RateLimitLayer::new(Arc::clone(&registry), patient.clone().by(ClientIp::peer()));
    let service = layer.layer(Probe::default());
    assert_eq!(get(&service, 1).await.status, 200);
    let waiting = tokio::spawn({
        let service = service.clone();
        async move { get(&service, 1).await }
    });
    tokio::task::yield_now().await;
    let key = registry.key_of(&ClientIp::peer(), from(1, request(&[]))).unwrap();
    registry.block(&patient, key, MINUTE * 60).await.unwrap();
    clock.advance(MINUTE);
    let answer = waiting.await.unwrap();
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("3540")));
}

#[test]
fn a_limit_on_requests_in_flight_has_no_lock_out() {
    let (registry, _clock) = limiter();
    let exports = Concurrency::new("exports", 2).by(ClientIp::peer()).lock_out(RULE);
    let error = mistake(&registry, [login(), exports]);
    assert!(matches!(&error, LayerError::LocksOutInFlight { policy } if policy.as_str() == "exports"));
    assert!(error.to_string().contains("its denials show no abuse"), "{error}");
}

#[tokio::test]
async fn keys_found_by_a_look_up_are_locked_out() {
    let (registry, _clock) = limiter();
    let layer = RateLimitLayer::new(
        Arc::clone(&registry),
        LOGIN
            .by_async(|_: &http::request::Parts| async { Ok(Lookup::found("tenant", "acme")) })
            .lock_out(RULE),
    );
    let service = layer.layer(Probe::default());
    assert_eq!(statuses(&service, 1, 4).await, [200, 429, 429, 429]);
    assert_eq!(get(&service, 2).await.header("retry-after"), Some("600"));
}

#[tokio::test]
async fn checks_of_handlers_count_and_are_blocked() {
    let (registry, _clock) = limiter();
    let _layer = locking_out(&registry);
    let login = LOGIN;
    let check = || CheckBuilder::new(&registry, &login).by(|key| key.part("email", b"ada@example.com"));
    assert!(check().await.is_ok());
    for _ in 0..3 {
        assert_eq!(check().await.unwrap_err().reason(), Reason::Limited);
    }
    let limited = check().await.unwrap_err();
    assert_eq!((limited.reason(), limited.retry_after()), (Reason::Blocked, Some(MINUTE * 10)));
    assert_eq!((limited.close_code(), limited.status().as_u16()), (1008, 429));

    // A key that all clients share is never counted.
    let shared = || CheckBuilder::new(&registry, &login).by(|key| key.shared_part("all", b""));
    assert!(shared().await.is_ok());
    for _ in 0..10 {
        assert_eq!(shared().await.unwrap_err().reason(), Reason::Limited);
    }
}

#[tokio::test]
async fn a_blocked_key_does_not_wait_for_the_end_of_its_block() {
    let (registry, _clock) = limiter();
    let patient = LOGIN.wait_at_most(MINUTE * 20);
    let layer =
        RateLimitLayer::new(Arc::clone(&registry), patient.clone().by(ClientIp::peer()).lock_out(RULE));
    let service = layer.layer(Probe::default());
    let key = registry.key_of(&ClientIp::peer(), from(1, request(&[]))).unwrap();
    registry.block(&patient, key, MINUTE).await.unwrap();
    assert_eq!(get(&service, 1).await.header("retry-after"), Some("60"));
}

#[tokio::test]
async fn blocks_by_hand_need_a_policy_that_reads_them() {
    let (registry, _clock) = limiter();
    let key = registry.key_of(&ClientIp::peer(), from(1, request(&[]))).unwrap();
    let block = async |policy: &Policy, length| registry.block(policy, key, length).await;

    let unknown = OverridingError::Unknown { policy: LOGIN.name().clone() };
    assert_eq!(block(&LOGIN, MINUTE).await, Err(unknown));
    assert_eq!(block(&LOGIN.allow_overrides(), MINUTE).await, Ok(()), "a tool without layers");
    let _layer = by_address(&registry);
    assert_eq!(
        block(&LOGIN.allow_overrides(), MINUTE).await.unwrap_err().to_string(),
        "policy login has no grants and blocks: allow them (`overrides = true` in rules, `Policy::allow_overrides` in code), or give it a lock-out"
    );
    let _locked_out = locking_out(&registry);
    assert_eq!(block(&LOGIN, MINUTE).await, Ok(()));
    for length in [Duration::ZERO, Duration::MAX] {
        assert!(matches!(block(&LOGIN, length).await, Err(OverridingError::Invalid(_))));
    }
}

#[test]
fn a_request_without_an_identity_has_no_key() {
    let (registry, _clock) = limiter();
    let by_user = Extension::<String>::new();
    assert!(registry.key_of(&by_user, request(&[])).unwrap_err().is_client_fault());
    assert!(registry.key_of(&ClientIp::peer(), request(&[])).is_err(), "no address");
    let exempt = |_: &http::request::Parts, _: &mut KeyWriter<'_>| Ok(Identity::Exempt);
    assert!(registry.key_of(&exempt, request(&[])).is_err());
}

#[tokio::test]
async fn clients_that_share_an_overflow_state_are_not_locked_out() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).capacity(1).build();
    let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    let layer = RateLimitLayer::new(Arc::clone(&registry), LOGIN.by(Header::named("x-user")).lock_out(RULE));
    let service = layer.layer(Probe::default());
    let get = async |user: u32| send(&service, request(&[("x-user", &user.to_string())])).await;
    let mut locked_out = 0;
    for user in 0..5_000 {
        get(user).await;
    }
    for user in 0..5_000 {
        for _ in 0..6 {
            locked_out += u32::from(get(user).await.header("retry-after") == Some("600"));
        }
    }
    assert!((1..1_000).contains(&locked_out), "{locked_out} requests of the clients that fit");
}
