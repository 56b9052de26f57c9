//! Accounts with a quota of zero, and with none.

use std::time::Duration;

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Policy, Quota};
use portcullis_tower::{CheckBuilder, Header, PolicyExt as _, QuotaLookup, RateLimitHeaders};

use super::{FREE, PRO, by_account, daily, quota_of, sent_by, setup};
use crate::probe::{grpc, probed, request, send};

const ZERO: Quota = Quota::per_day(0);

#[tokio::test]
async fn account_of_zero_is_rejected_without_a_time() {
    let setup = setup();
    let layer = setup.layer(daily()).headers(RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF);
    let (service, calls) = probed(&layer);
    // What it has used before does not show when it could retry.
    assert_eq!(send(&service, sent_by("ada", None)).await.status, 200);
    for quota in [ZERO, Quota::per_second(0)] {
        let answer = send(&service, sent_by("ada", Some(quota))).await;
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("x-ratelimit-limit"), Some("0"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
        assert_eq!((answer.header("retry-after"), answer.header("x-ratelimit-reset")), (None, None));
        assert_eq!(answer.header("ratelimit-policy"), Some("\"daily\";q=0;w=86400"));
        assert_eq!(answer.header("ratelimit"), Some("\"daily\";r=0"));
        assert!(answer.text.contains("the quota of this client is zero"), "{}", answer.text);
    }
    let answer = send(&service, super::with_account(grpc(&[]), "ada", Some(ZERO))).await;
    assert_eq!(answer.header("grpc-status"), Some("8"));
    assert_eq!(calls.calls(), 1);
    assert_eq!(setup.refusals.take(), Vec::<String>::new());
    let answer = send(&service, sent_by("ada", Some(PRO))).await;
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("4998"));
}

#[tokio::test]
async fn quota_of_zero_for_all_names_no_client() {
    let setup = setup();
    let none = Policy::fixed_window("none", ZERO).by(portcullis_tower::Global);
    let (service, _) = probed(&setup.layer_of(none));
    let answer = send(&service, request(&[])).await;
    assert_eq!(answer.text, "rate limit exceeded: the quota is zero, so that it admits no requests\n");
}

#[tokio::test]
async fn unlimited_account_has_no_headers_and_no_state() {
    let setup = setup();
    let layer = setup.layer(daily()).headers(RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF);
    let (service, calls) = probed(&layer);
    for _ in 0..200 {
        let answer = send(&service, sent_by("ada", Some(Quota::UNLIMITED))).await;
        assert_eq!(answer.status, 200);
        assert!(
            !answer.headers.keys().any(|name| name.as_str().contains("ratelimit")),
            "{:?}",
            answer.headers
        );
    }
    assert_eq!(calls.calls(), 200);
    assert_eq!(setup.refusals.take(), Vec::<String>::new());
    let answer = send(&service, sent_by("ada", None)).await;
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("99"));
}

#[tokio::test]
async fn other_policies_count_an_unlimited_account() {
    let setup = setup();
    let burst = Policy::gcra("burst", Quota::per_second(1).burst(2)).by(by_account());
    let layer = setup.layer(daily()).and(burst);
    let (service, _) = probed(&layer.headers(RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF));
    let unlimited = || sent_by("ada", Some(Quota::UNLIMITED));
    let first = send(&service, unlimited()).await;
    assert_eq!(first.header("ratelimit-policy"), Some("\"burst\";q=2;w=2"));
    assert_eq!(first.header("x-ratelimit-remaining"), Some("1"));
    assert_eq!(send(&service, unlimited()).await.status, 200);
    assert_eq!(send(&service, unlimited()).await.header("ratelimit-policy"), Some("\"burst\";q=2;w=2"));
}

#[tokio::test]
async fn blocks_and_grants_go_before_an_unlimited_plan() {
    let setup = setup();
    let daily = daily().allow_overrides();
    let (service, _) = probed(&setup.layer(daily.clone()).headers(RateLimitHeaders::IETF));
    let key = setup.registry.key_of(&by_account(), sent_by("ada", None)).unwrap();
    let unlimited = || sent_by("ada", Some(Quota::UNLIMITED));
    let hour = Duration::from_secs(3_600);
    assert_eq!(send(&service, unlimited()).await.header("ratelimit"), None);
    setup.registry.block(&daily, key, hour).await.unwrap();
    let blocked = send(&service, unlimited()).await;
    assert_eq!((blocked.status, blocked.header("retry-after")), (429, Some("3600")));
    assert_eq!(blocked.header("ratelimit-policy"), Some(""));
    setup.registry.unblock(&daily, key).await.unwrap();
    setup.registry.grant(&daily, key, Quota::per_day(1)).for_duration(hour).await.unwrap();
    let granted = send(&service, unlimited()).await;
    assert_eq!(granted.header("ratelimit-policy"), Some("\"daily\";q=1;w=86400"));
    assert_eq!(send(&service, unlimited()).await.status, 429);
    for (quota, status) in [(ZERO, 429), (Quota::UNLIMITED, 200)] {
        setup.registry.grant(&daily, key, quota).for_duration(hour).await.unwrap();
        let answer = send(&service, sent_by("ada", None)).await;
        assert_eq!((answer.status, answer.header("retry-after")), (status, None));
    }
    setup.registry.revoke_grant(&daily, key).await.unwrap();
    let left = setup.registry.store().check(Checks::one(daily, key, 0)).await.unwrap();
    assert_eq!(left.decision().remaining(), 99);
}

#[tokio::test]
async fn look_ups_find_zero_and_unlimited() {
    let setup = setup();
    let look_up = QuotaLookup::new(|parts: &http::request::Parts| {
        let quota = quota_of(parts);
        async move { Ok(quota) }
    });
    let (service, _) = probed(&setup.layer_of(daily().by(by_account()).quota_by_async(look_up)));
    for (id, quota, status) in [("ada", ZERO, 429), ("bob", Quota::UNLIMITED, 200), ("eve", FREE, 200)] {
        for _ in 0..2 {
            let answer = send(&service, sent_by(id, Some(quota))).await;
            assert_eq!((answer.status, answer.header("retry-after")), (status, None), "{id}");
            assert_eq!(answer.header("x-ratelimit-limit").is_some(), id != "bob", "{id}");
        }
    }
    assert_eq!(setup.refusals.take(), Vec::<String>::new());
}

#[tokio::test]
async fn policies_are_closed_and_unlimited() {
    let setup = setup();
    let by_user = || Header::named("x-user");
    for (name, quota, status) in [("closed", ZERO, 429), ("open", Quota::UNLIMITED, 200)] {
        let policy = Policy::gcra(name, quota);
        let (service, _) = probed(&setup.layer_of(policy.clone().by(by_user())));
        let answer = send(&service, request(&[("x-user", "ada")])).await;
        assert_eq!((answer.status, answer.header("retry-after")), (status, None));
        assert_eq!(answer.header("x-ratelimit-limit").is_some(), quota.is_zero());
        let checked = CheckBuilder::new(&setup.registry, &policy).by(|key| key.part("user", b"ada")).await;
        assert_eq!(checked.is_ok(), quota.is_unlimited());
        if let Ok(charge) = checked {
            assert!(charge.decision().is_unlimited());
        }
    }
}

#[tokio::test]
async fn policy_is_closed_and_opened_while_it_runs() {
    let setup = setup();
    let (service, _) = probed(&setup.layer(daily()));
    let send_one = || send(&service, sent_by("ada", None));
    assert_eq!(send_one().await.header("x-ratelimit-remaining"), Some("99"));
    setup.registry.set_policy(Policy::fixed_window("daily", ZERO)).unwrap();
    assert_eq!(send_one().await.status, 429);
    setup.registry.set_policy(Policy::fixed_window("daily", Quota::UNLIMITED)).unwrap();
    let open = send_one().await;
    assert_eq!((open.status, open.header("x-ratelimit-limit")), (200, None));
    setup.registry.set_policy(daily()).unwrap();
    assert_eq!(send_one().await.header("x-ratelimit-remaining"), Some("98"));
}
