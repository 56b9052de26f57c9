//! Checks that handlers make, beside a layer.

mod edges;
mod events;
mod late_slots;
#[cfg(feature = "tonic")]
mod tonic;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use portcullis_core::{Decision, FailureMode, Policy, Quota};
use portcullis_tower::{
    Charge, Check, CheckBuilder, Header, Limited, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Reason,
    Registry,
};
use tokio::time::Instant;

use crate::probe::{probed, request, send};
use crate::rejections::{MODES, store};
use crate::support::{Mode, TestStore, registry_of};

pub(crate) static MAILS: Policy = Policy::fixed_window("mails", Quota::per_hour(2));
pub(crate) static BYTES: Policy = Policy::fixed_window("bytes", Quota::per_hour(100));
static QUEUE: Policy = Policy::leaky_bucket("queue", Quota::per_second(1).burst(5));

/// A check under a policy, by the name of a user.
pub(crate) fn check<'a>(registry: &'a Arc<Registry>, policy: &'a Policy, user: &str) -> Check<'a> {
    CheckBuilder::new(registry, policy).by(|key| key.part("user", user.as_bytes()))
}

pub(crate) async fn remaining(registry: &Arc<Registry>, policy: &Policy, user: &str) -> u64 {
    check(registry, policy, user).cost(0).await.unwrap().decision().remaining()
}

#[tokio::test]
async fn a_check_is_charged_or_limited() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let charge = check(&registry, &MAILS, "ada").await.unwrap();
        assert_eq!((charge.decision().remaining(), charge.outer().is_none()), (1, true));
        assert!(check(&registry, &MAILS, "ada").await.is_ok());
        let limited = check(&registry, &MAILS, "ada").await.unwrap_err();
        assert_eq!((limited.reason(), limited.status().as_u16()), (Reason::Limited, 429));
        assert_eq!(limited.retry_after(), Some(Duration::from_secs(3_600)));
        assert_eq!(limited.decision().map(|decision| decision.policy().as_str()), Some("mails"));
        assert_eq!(limited.to_string(), "rate limit exceeded: retry after 3600 s");
        assert!(check(&registry, &MAILS, "bob").await.is_ok(), "another key");

        charge.refund().await.unwrap();
        assert_eq!(remaining(&registry, &MAILS, "ada").await, 1);
        let key = registry.secret().hasher();
        let ada = {
            let mut hasher = key;
            hasher.writer().part("user", b"ada");
            hasher.finish().unwrap()
        };
        assert!(CheckBuilder::new(&registry, &MAILS).by_key(ada).await.is_ok());
        assert_eq!(remaining(&registry, &MAILS, "ada").await, 0);
    }
}

#[tokio::test]
async fn several_policies_are_charged_together_or_not_at_all() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let send = async |cost| check(&registry, &MAILS, "ada").and(&BYTES).cost(cost).await;
        let charge = send(40).await.unwrap();
        let remaining_of: Vec<_> = charge.decisions().iter().map(Decision::remaining).collect();
        assert_eq!(remaining_of, [1, 60]);
        assert!(charge.charge_more(1).await.unwrap().is_allowed());
        assert_eq!(charge.for_policy("bytes").unwrap().decision().remaining(), 59);

        charge.for_policy("mails").unwrap().refund().await.unwrap();
        let limited = send(60).await.unwrap_err();
        let violated: Vec<_> = limited.rejection().violated_policies().map(ToString::to_string).collect();
        assert_eq!(violated, ["bytes"]);
        assert_eq!(remaining(&registry, &MAILS, "ada").await, 2, "nothing is charged");

        // Each policy by its own key.
        let check =
            check(&registry, &MAILS, "ada").and(&BYTES).by(|key| key.shared_part("all", b"")).cost(100);
        assert_eq!(check.await.unwrap().for_policy("bytes").unwrap().decision().remaining(), 0);
        assert_eq!(remaining(&registry, &BYTES, "ada").await, 59);
    }
}

#[tokio::test]
async fn the_response_is_that_of_a_layer() {
    for mode in MODES {
        for accept in ["text/plain", "application/json", "application/problem+json", "image/png"] {
            let (_, registry) = store(mode);
            registry.headers(RateLimitHeaders::IETF | RateLimitHeaders::X_RATELIMIT);
            let layer = RateLimitLayer::new(
                Arc::clone(&registry),
                MAILS
                    .clone()
                    .by(|parts: &http::request::Parts, key: &mut portcullis_tower::KeyWriter<'_>| {
                        key.part("user", parts.headers["x-user"].as_bytes());
                        Ok(portcullis_tower::Identity::Found)
                    })
                    .cost(2),
            );
            assert!(check(&registry, &MAILS, "ada").await.is_ok());
            let of_layer = send(&probed(&layer).0, request(&[("x-user", "ada"), ("accept", accept)])).await;
            assert_eq!(of_layer.status, 429);

            let mut headers = HeaderMap::new();
            headers.insert("accept", accept.parse().unwrap());
            headers.insert("x-other", "ignored".parse().unwrap());
            let limited = check(&registry, &MAILS, "ada").cost(2).accept(&headers).await.unwrap_err();
            let (parts, body) = limited.clone().into_http().into_parts();
            assert_eq!((parts.status.as_u16(), &body), (429, &of_layer.text.clone().into()));
            assert_eq!(parts.headers, of_layer.headers, "{accept}");

            let afterwards = check(&registry, &MAILS, "ada").cost(2).await.unwrap_err().accept(&headers);
            assert_eq!(afterwards.into_http().body(), &body);
        }
    }
}

#[tokio::test]
async fn the_response_of_a_closure_keeps_the_headers() {
    let registry = registry_of(Arc::default());
    registry.reject_with(|rejection| {
        assert_eq!((rejection.parts().method.as_str(), rejection.parts().uri.path()), ("GET", "/"));
        Response::builder().status(420).body("calm down".into()).unwrap()
    });
    let response = check(&registry, &MAILS, "ada").cost(3).await.unwrap_err().into_http();
    assert_eq!((response.status().as_u16(), &response.body()[..]), (420, &b"calm down"[..]));
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.headers()["x-ratelimit-limit"], "2");
}

#[tokio::test]
async fn failure_modes_apply_as_in_a_layer() {
    let open = MAILS.clone().on_store_failure(FailureMode::Open);
    let closed = BYTES.clone().on_store_failure(FailureMode::Closed);
    for (mode, answer, reason) in [
        (Mode::Down, true, Reason::StoreFailed),
        (Mode::DownLater, true, Reason::StoreFailed),
        (Mode::Overloaded, false, Reason::Overloaded),
        (Mode::OvertakenLater, false, Reason::Overloaded),
    ] {
        let (_, registry) = store(mode);
        let passed = check(&registry, &open, "ada").await;
        assert_eq!(passed.is_ok(), answer, "{mode:?}");
        if let Ok(charge) = passed {
            assert!(charge.decision().is_degraded() && !charge.decision().is_metered());
        }
        for limited in [
            check(&registry, &closed, "ada").await.unwrap_err(),
            check(&registry, &open, "ada").and(&closed).await.unwrap_err(),
        ] {
            assert_eq!((limited.reason(), limited.status().as_u16()), (reason, 503), "{mode:?}");
            assert!(limited.decision().is_none() && limited.retry_after().is_none());
            assert_eq!(limited.close_code(), 1013);
        }
    }
}

#[tokio::test]
async fn a_charge_of_an_outage_checks_once_it_is_over() {
    let open = MAILS.clone().on_store_failure(FailureMode::Open);
    for mode in [Mode::Down, Mode::DownLater] {
        let (store, registry) = store(mode);
        let charge = check(&registry, &open, "ada").await.unwrap();
        assert!(charge.check(1).await.unwrap().is_degraded());
        assert_eq!(charge.charge_more(1).await.map(|decision| decision.is_degraded()), Ok(true));
        store.set(Mode::Ready);
        assert_eq!(charge.check(2).await.unwrap().remaining(), 0);
        assert_eq!(charge.check(1).await.unwrap_err().reason(), Reason::Limited);
        charge.refund().await.unwrap();
        assert_eq!(remaining(&registry, &open, "ada").await, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_waits_for_its_slot_in_a_queue() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let start = Instant::now();
        let mut passed = Vec::new();
        let checks: Vec<_> =
            (0..5).map(|_| tokio::spawn(check(&registry, &QUEUE, "ada").into_future())).collect();
        for check in checks {
            assert!(check.await.unwrap().is_ok());
            passed.push(start.elapsed().as_millis());
        }
        assert_eq!(passed, [0, 1_000, 2_000, 3_000, 4_000], "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_too_long_is_refunded() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let check = |at_most| {
            check(&registry, &BYTES, "ada")
                .cost(10)
                .and(&QUEUE)
                .at_most(Duration::from_millis(at_most))
                .into_future()
        };
        let (first, second) = (tokio::spawn(check(0)), tokio::spawn(check(1_000)));
        assert!(first.await.unwrap().is_ok());
        let late = check(999).await.unwrap_err();
        assert_eq!((late.reason(), late.status().as_u16()), (Reason::Limited, 429));
        let decision = late.decision().unwrap();
        // The slots are a second apart on the clock of the store, which stands still here.
        assert_eq!((decision.policy().as_str(), decision.is_allowed()), ("queue", false));
        assert_eq!(late.retry_after(), Some(Duration::from_millis(1_001)));
        assert_eq!(late.retry_after_seconds(), Some(2));
        assert!(second.await.unwrap().is_ok());
        assert_eq!(remaining(&registry, &BYTES, "ada").await, 80, "{mode:?}");
        let third = tokio::spawn(check(2_000));
        assert!(third.await.unwrap().is_ok(), "the slot was given back");
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_window_is_bounded() {
    static WINDOW: Policy =
        Policy::fixed_window("window", Quota::per_minute(1)).wait_at_most(Duration::from_secs(90));
    for mode in MODES {
        let (_, registry) = store(mode);
        assert!(check(&registry, &WINDOW, "ada").await.is_ok());
        let start = Instant::now();
        let late = check(&registry, &WINDOW, "ada").at_most(Duration::from_millis(10)).await.unwrap_err();
        assert_eq!((late.reason(), start.elapsed()), (Reason::Limited, Duration::ZERO), "{mode:?}");
        assert!(late.retry_after().unwrap() > Duration::from_millis(10));
        let waiting = check(&registry, &WINDOW, "ada").at_most(Duration::from_secs(80)).into_future();
        assert!(tokio::time::timeout(Duration::from_millis(1), waiting).await.is_err(), "it waits");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_check_gives_up_its_slot() {
    for mode in MODES {
        let (_, registry) = store(mode);
        assert!(check(&registry, &QUEUE, "ada").await.is_ok());
        for _ in 0..20 {
            let waiting = check(&registry, &QUEUE, "ada").into_future();
            assert!(tokio::time::timeout(Duration::from_millis(1), waiting).await.is_err());
        }
        let start = Instant::now();
        assert!(check(&registry, &QUEUE, "ada").await.is_ok());
        assert_eq!(start.elapsed().as_millis(), 1_000, "{mode:?}");
    }
}

#[tokio::test]
async fn a_check_that_is_not_awaited_charges_nothing() {
    let (store, registry) = store(Mode::Ready);
    drop(check(&registry, &MAILS, "ada"));
    drop(check(&registry, &MAILS, "ada").into_future());
    assert_eq!(store.asked.load(Relaxed), 0);
    assert_eq!(remaining(&registry, &MAILS, "ada").await, 2);
}

#[tokio::test]
async fn a_check_that_would_wait_is_rejected_if_too_many_wait() {
    for mode in MODES {
        let (_, registry) = store(mode);
        registry.max_waiting_requests(0);
        assert!(check(&registry, &QUEUE, "ada").await.is_ok());
        let limited = check(&registry, &QUEUE, "ada").await.unwrap_err();
        assert_eq!(limited.reason(), Reason::Overloaded, "{mode:?}");
    }
}

#[test]
fn checks_can_be_sent_to_tasks() {
    fn sent<T: Send>(_: T) {}
    fn is_error<T: std::error::Error + Send + Sync + 'static>() {}

    is_error::<Limited>();
    let registry = registry_of(Arc::<TestStore>::default());
    sent(check(&registry, &MAILS, "ada"));
    sent(check(&registry, &MAILS, "ada").into_future());
    let _ = |charge: Charge| sent(async move { charge.check(1).await });
    let _ = |charge: Charge| sent(async move { charge.meter(9).check(1).await });
}

/// The figures of the handler win over those of the layer around it.
#[tokio::test]
async fn a_response_of_a_handler_passes_through_a_layer() {
    let (_, registry) = store(Mode::Ready);
    let outer = RateLimitLayer::new(Arc::clone(&registry), BYTES.clone().by(Header::named("x-user")));
    for (headers, shown) in [(RateLimitHeaders::X_RATELIMIT, Some("2")), (RateLimitHeaders::NONE, None)] {
        let registry = registry_of(Arc::default());
        registry.headers(headers);
        let service = tower::Layer::layer(
            &outer,
            tower::service_fn(move |_: Request<String>| {
                let registry = Arc::clone(&registry);
                async move {
                    let limited = check(&registry, &MAILS, "ada").cost(3).await.unwrap_err();
                    Ok::<_, std::convert::Infallible>(limited.into_http())
                }
            }),
        );
        let response = tower::ServiceExt::oneshot(service, request(&[("x-user", "ada")])).await.unwrap();
        assert_eq!(response.status(), 400);
        let limit = response.headers().get("x-ratelimit-limit").map(|value| value.to_str().unwrap());
        assert_eq!(limit, shown);
    }
}
