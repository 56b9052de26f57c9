//! What is refunded is what was charged, whatever the quotas of the callers are meanwhile.

use std::time::Duration;

use http::request::Parts;
use portcullis_core::store::Checks;
use portcullis_core::{Decision, Key, Policy, Quota};
use portcullis_tower::{Lookup, Mode, Percent, PolicyExt as _, QuotaLookup, RateLimitLayer};
use tower::{Layer as _, Service as _, ServiceExt as _};

use super::{Setup, by_account, quota_of, sent_by, setup};
use crate::events::corrections::ReadyOnce;
use crate::probe::{probed, request, send};

const SLOW: Quota = Quota::per_minute(60).burst(60);
const FAST: Quota = Quota::per_minute(6_000).burst(6_000);

fn bucket() -> Policy {
    Policy::token_bucket("bucket", SLOW).caller_quotas(SLOW, FAST)
}

fn key(setup: &Setup, account: &str) -> Key {
    let mut hasher = setup.registry.secret().hasher();
    hasher.writer().part("account", account.as_bytes());
    hasher.finish().unwrap()
}

async fn peek(setup: &Setup, policy: &Policy) -> Decision {
    let checks = Checks::one(policy.clone(), key(setup, "ada"), 0);
    setup.registry.store().check(checks).await.unwrap().decision().clone()
}

#[tokio::test]
async fn receipts_of_callers_are_corrected_under_their_quota() {
    let setup = setup();
    setup.registry.register(&bucket()).unwrap();
    let fast = bucket().with_quota(FAST).unwrap();
    let charge = async || {
        let checks = Checks::one(fast.clone(), key(&setup, "ada"), 500);
        let outcome = setup.registry.store().check(checks).await.unwrap();
        outcome.into_receipts().next().unwrap()
    };
    let [_, settled, refunded] = [charge().await, charge().await, charge().await];
    // The policy has another quota of its own now, and the same ones for callers.
    setup.registry.set_policy(Policy::token_bucket("bucket", FAST).caller_quotas(SLOW, FAST)).unwrap();
    drop(setup.registry.store().refund(setup.registry.as_of_now(refunded, 0)).await.unwrap());
    setup.registry.store().settle(setup.registry.as_of_now(settled, 400), 400).await.unwrap();
    assert_eq!(peek(&setup, &fast).await.remaining(), 6_000 - 500 - 400);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_meets_no_ready_service_is_refunded_at_its_rate() {
    let setup = setup();
    let layer = RateLimitLayer::new(
        setup.registry.clone(),
        bucket()
            .by_async(|_: &Parts| async {
                tokio::task::yield_now().await;
                Ok(Lookup::found("account", "ada").quota("bucket", FAST))
            })
            .cost(50),
    )
    .ready_deadline(Duration::from_secs(1));
    assert_eq!(send(&probed(&layer).0, request(&[])).await.status, 200);
    let mut service = layer.layer(ReadyOnce(true));
    let response = service.ready().await.unwrap().call(request(&[])).await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(peek(&setup, &bucket().with_quota(FAST).unwrap()).await.remaining(), 5_950);
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_refunded_at_the_rate_that_has_charged_it() {
    let setup = setup();
    let (slow, fast) = (Quota::per_minute(1).burst(5), Quota::per_minute(60).burst(200));
    let queue = Policy::leaky_bucket("queue", slow).caller_quotas(slow, fast);
    let layer = RateLimitLayer::new(setup.registry.clone(), queue.clone().by(by_account()).quota(quota_of));
    let (service, _) = probed(&layer);
    assert_eq!(send(&service, sent_by("ada", None)).await.status, 200);
    let waits = |quota| {
        let service = service.clone();
        tokio::spawn(async move { send(&service, sent_by("ada", quota)).await.status })
    };
    let second = waits(None);
    tokio::task::yield_now().await;
    let third = waits(Some(fast));
    tokio::task::yield_now().await;
    assert_eq!(peek(&setup, &queue).await.reset_after(), Duration::from_secs(121));
    third.abort();
    assert!(third.await.unwrap_err().is_cancelled());
    assert_eq!(peek(&setup, &queue).await.reset_after(), Duration::from_secs(120));
    assert_eq!(second.await.unwrap(), 200);
}

#[tokio::test(start_paused = true)]
async fn too_many_look_ups_leave_no_enforced_key_unlimited() {
    let setup = setup();
    setup.registry.max_waiting_requests(0);
    let contracts = QuotaLookup::new(|_: &Parts| async {
        tokio::task::yield_now().await;
        Ok(Some(FAST))
    });
    let limit = bucket().by(by_account()).quota_by_async(contracts);
    let (service, _) = probed(&setup.layer_of(limit.mode(Mode::Percent(Percent::new(50)))));
    let mut rejected = 0;
    for id in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"] {
        let status = send(&service, sent_by(id, None)).await.status;
        assert!([200, 503].contains(&status), "{status}");
        rejected += u32::from(status == 503);
    }
    assert!((2..=14).contains(&rejected), "{rejected}");
}
