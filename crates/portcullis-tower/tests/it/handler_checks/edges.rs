//! Checks that are refused: without a key, or under policies that the limiter cannot have.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use portcullis_core::store::Checks;
use portcullis_core::{FailureMode, Gcra, KeyWriter, Policy, PolicySettings, Quota};
use portcullis_tower::{CheckBuilder, Limited, Percent, PolicyExt as _, Reason, Registry};

use super::{BYTES, MAILS, check, remaining};
use crate::log::log;
use crate::rejections::store;
use crate::support::Mode;

fn is_misconfigured(limited: &Limited) {
    assert_eq!((limited.reason(), limited.status().as_u16()), (Reason::Misconfigured, 500));
    let response = limited.clone().into_http();
    assert_eq!(response.body(), "the server cannot tell who is calling\n");
    assert_eq!((limited.close_code(), response.status().as_u16()), (1011, 500));
}

#[tokio::test]
async fn a_key_without_parts_is_a_server_error() {
    let (log, _guard) = log();
    let (store, registry) = store(Mode::Ready);
    for _ in 0..3 {
        is_misconfigured(&CheckBuilder::new(&registry, &MAILS).by(|_| {}).await.unwrap_err());
        let other = check(&registry, &MAILS, "ada").and(&BYTES).by(|_| {}).await.unwrap_err();
        is_misconfigured(&other);
    }
    assert_eq!(store.asked.load(Relaxed), 0);
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "once for each set of policies: {lines:?}");
    assert!(lines.iter().all(|line| line.starts_with("ERROR")), "{lines:?}");
}

#[tokio::test]
async fn a_key_that_is_too_long_is_an_error_of_the_client() {
    let (store, registry) = store(Mode::Ready);
    let limited = check(&registry, &MAILS, &"a".repeat(9_000)).await.unwrap_err();
    assert_eq!((limited.reason(), limited.status().as_u16()), (Reason::BadIdentity, 400));
    assert_eq!(limited.close_code(), 1008);
    assert_eq!(store.asked.load(Relaxed), 0);
}

#[tokio::test]
async fn a_key_that_fails_rejects_nothing_in_shadow() {
    use portcullis_tower::Mode as PolicyMode;

    let half = Percent::new(50);
    for mode in [PolicyMode::Shadow, PolicyMode::Percent(half), PolicyMode::ShadowPercent(half)] {
        let (store, registry) = store(Mode::Ready);
        assert!(check(&registry, &MAILS, "ada").await.is_ok());
        registry.set_mode(MAILS.name(), mode).unwrap();
        store.asked.store(0, Relaxed);
        for key in ["", &"a".repeat(9_000)] {
            let write = |writer: &mut KeyWriter<'_>| {
                if !key.is_empty() {
                    writer.part("email", key.as_bytes());
                }
            };
            assert!(CheckBuilder::new(&registry, &MAILS).by(write).await.is_ok(), "{mode}");
            assert_eq!(store.asked.load(Relaxed), 0);
            let both = CheckBuilder::new(&registry, &BYTES).by(write).and(&MAILS).await;
            assert!(both.is_err(), "the other policy is enforced");
        }
    }
}

#[tokio::test]
async fn a_policy_that_conflicts_is_refused_and_logged_once() {
    let (log, _guard) = log();
    let (store, registry) = store(Mode::Ready);
    assert!(check(&registry, &MAILS, "ada").await.is_ok());
    let quota = Policy::fixed_window("mails", Quota::per_hour(3));
    let mode = MAILS.clone().on_store_failure(FailureMode::Closed);
    for _ in 0..3 {
        is_misconfigured(&check(&registry, &quota, "ada").await.unwrap_err());
        is_misconfigured(&check(&registry, &BYTES, "ada").and(&mode).await.unwrap_err());
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("ERROR") && lines[0].contains("mails"), "{lines:?}");
    assert_eq!(store.asked.load(Relaxed), 1);
    assert_eq!(remaining(&registry, &MAILS, "ada").await, 1, "the registered one is not affected");
}

#[tokio::test]
async fn policies_that_no_layer_could_have_are_refused() {
    let (store, registry) = store(Mode::Ready);
    is_misconfigured(&check(&registry, &MAILS, "ada").and(&MAILS).await.unwrap_err());
    let many: Vec<_> = (0..=Checks::MAX)
        .map(|number| {
            Policy::try_new(
                &format!("policy {number}"),
                Gcra::new(Quota::per_second(1)),
                PolicySettings::default(),
            )
            .unwrap()
        })
        .collect();
    let all = |policies: &[Policy], registry: &Arc<Registry>| {
        let first = check(registry, &policies[0], "ada");
        policies[1..].iter().fold(first, portcullis_tower::Check::and).into_future()
    };
    assert!(all(&many[..Checks::MAX], &registry).await.is_ok());
    is_misconfigured(&all(&many, &registry).await.unwrap_err());

    store.is_full.store(true, Relaxed);
    is_misconfigured(&check(&registry, &BYTES, "ada").await.unwrap_err());
    store.is_full.store(false, Relaxed);
    assert!(check(&registry, &BYTES, "ada").await.is_ok(), "a refusal is not remembered");
}

#[tokio::test]
async fn a_policy_of_a_layer_is_shared() {
    let (_, registry) = store(Mode::Ready);
    let layer = portcullis_tower::RateLimitLayer::new(
        Arc::clone(&registry),
        MAILS.clone().by(portcullis_tower::Global),
    );
    let service = crate::probe::probed(&layer).0;
    let by_global = |cost| {
        CheckBuilder::new(&registry, &MAILS).by(|key| key.shared_part("global", b"")).cost(cost).into_future()
    };
    assert_eq!(crate::probe::send(&service, crate::probe::request(&[])).await.status, 200);
    assert!(by_global(1).await.is_ok());
    assert!(by_global(1).await.is_err());
    assert_eq!(crate::probe::send(&service, crate::probe::request(&[])).await.status, 429);
}
