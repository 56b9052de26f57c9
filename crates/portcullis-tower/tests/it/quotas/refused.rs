//! Quotas that a policy cannot have.

use std::sync::Arc;

use portcullis_core::{Policy, Quota};
use portcullis_tower::{LayerError, Limit, PolicyExt as _, QuotaLookup, RateLimitLayer};

use super::{FREE, by_account, daily, quota_of, sent_by, setup};
use crate::log::log;
use crate::probe::{probed, send};
use crate::support::mistake;

#[test]
fn a_policy_that_declares_no_quotas_cannot_have_any() {
    let limit = Policy::fixed_window("daily", FREE).by(by_account());
    let look_up = QuotaLookup::new(|_: &http::request::Parts| async { Ok(None) });
    for limit in [limit.clone().quota(quota_of), limit.quota_by_async(look_up)] {
        let error = mistake(&setup().registry, [limit]);
        assert!(matches!(error, LayerError::QuotasNotDeclared { .. }));
        assert!(error.to_string().contains("policy daily") && error.to_string().contains("`.caller_quotas("));
    }
}

#[tokio::test]
async fn a_quota_that_is_not_declared_is_an_event() {
    let setup = setup();
    let (service, _) = probed(&setup.layer(daily()));
    for (quota, why) in [
        (Quota::per_hour(50), "its period must be 86400s"),
        (Quota::per_day(5_001), "from 10/d to 5000/d"),
        (Quota::per_day(9), "from 10/d to 5000/d"),
        (Quota::per_day(50).burst(60), "its algorithm has none"),
    ] {
        let answer = send(&service, sent_by("ada", Some(quota))).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, Some("100")));
        let [refusal] = <[String; 1]>::try_from(setup.refusals.take()).unwrap();
        assert!(refusal.starts_with(&format!("daily {quota}: ")) && refusal.contains(why), "{refusal}");
    }
    let answer = send(&service, sent_by("ada", Some(Quota::per_day(10)))).await;
    assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (200, Some("5")));
    assert!(setup.refusals.take().is_empty());
}

#[tokio::test]
async fn refused_quotas_leave_the_others_of_a_request() {
    let setup = setup();
    let hourly = Policy::fixed_window("hourly", Quota::per_hour(20));
    let hourly = hourly.caller_quotas(Quota::per_hour(2), Quota::per_hour(20));
    let layer = setup.layer(hourly).and(Limit::new(daily()).quota(|_| Some(Quota::per_day(10))));
    let (service, _) = probed(&layer);
    for left in (0..10).rev() {
        let answer = send(&service, sent_by("ada", Some(Quota::per_hour(1)))).await;
        assert_eq!(
            (answer.status, answer.header("x-ratelimit-remaining").unwrap()),
            (200, &*left.to_string())
        );
        let [refusal] = <[String; 1]>::try_from(setup.refusals.take()).unwrap();
        assert!(refusal.contains("from 2/h to 20/h"), "{refusal}");
    }
    assert_eq!(send(&service, sent_by("ada", None)).await.status, 429);
}

#[tokio::test]
async fn the_log_names_policy_quota_and_fix_once_a_minute() {
    let setup = setup();
    let (service, _) = probed(&setup.layer(daily()));
    let (log, _guard) = log();
    for _ in 0..5 {
        send(&service, sent_by("ada", Some(Quota::per_day(7)))).await;
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in ["policy=daily", "quota=7/d", "from 10/d to 5000/d"] {
        assert!(lines[0].contains(part), "{lines:?}");
    }
}

#[tokio::test]
async fn quotas_that_cause_too_much_work_together_are_refused() {
    let setup = setup();
    let (small, large) = (Quota::per_hour(10_000), Quota::per_hour(90_000));
    let log = |name| Policy::sliding_log(name, small).caller_quotas(small, large);
    let layer =
        RateLimitLayer::new(Arc::clone(&setup.registry), log("first").by(by_account()).quota(quota_of))
            .and(Limit::new(log("second")).quota(quota_of));
    let (service, _) = probed(&layer);
    let answer = send(&service, sent_by("ada", Some(large))).await;
    assert_eq!((answer.status, answer.header("x-ratelimit-limit")), (200, Some("10000")));
    let [refusal] = <[String; 1]>::try_from(setup.refusals.take()).unwrap();
    assert!(refusal.starts_with("second 90000/h: ") && refusal.contains("1800"), "{refusal}");
}

#[tokio::test]
async fn later_charges_survive_a_change_that_leaves_no_room_for_the_quota() {
    let setup = setup();
    let (small, large) = (Quota::per_hour(10_000), Quota::per_hour(80_000));
    let log = |name, quota| Policy::sliding_log(name, quota).caller_quotas(small, large);
    let layer = RateLimitLayer::new(
        Arc::clone(&setup.registry),
        log("first", small).by(by_account()).quota(quota_of),
    )
    .and(log("second", small));
    let charge = super::later::charge_of(&layer, sent_by("ada", Some(large))).await;
    assert_eq!(charge.decisions()[0].limit(), 80_000);
    setup.registry.set_policy(log("second", Quota::per_hour(50_000))).unwrap();
    assert_eq!(charge.charge_more(5).await.unwrap().limit(), 10_000);
    assert!(charge.check(5).await.is_ok());
    assert!(charge.refund().await.is_ok());
}
