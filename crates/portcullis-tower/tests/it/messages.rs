//! Messages of streams, checked by the charge of the stream.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Waker};

use portcullis_core::{Policy, Quota};
use portcullis_tower::{Charge, ChargeError, PolicyExt as _, Reason, Registry};
use tokio::time::Instant;

use crate::handler_checks::{BYTES, MAILS, check, remaining};
use crate::rejections::{MODES, store};
use crate::support::{Mode, TestStore, registry};

async fn stream(registry: &Arc<Registry>, policy: &Policy) -> Charge {
    check(registry, policy, "ada").cost(0).await.unwrap()
}

#[tokio::test]
async fn each_message_is_charged_or_limited() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let charge = check(&registry, &MAILS, "ada").cost(0).and(&BYTES).cost(0).await.unwrap();
        assert_eq!(charge.check(1).await.unwrap().remaining(), 1);
        assert_eq!(charge.decision().remaining(), 1, "the figures are current");
        let bytes = charge.for_policy("bytes").unwrap();
        assert_eq!(bytes.check(50).await.unwrap().remaining(), 49);
        assert_eq!(remaining(&registry, &MAILS, "ada").await, 1, "not charged by the narrowed one");
        let limited = charge.check(2).await.unwrap_err();
        assert_eq!((limited.reason(), limited.close_code()), (Reason::Limited, 1008));
        assert_eq!(limited.close_reason(), "rate limit exceeded: retry after 3600 s");
        assert_eq!(charge.check(101).await.unwrap_err().reason(), Reason::NeverFits);
        assert_eq!(remaining(&registry, &BYTES, "ada").await, 49, "all or none");

        charge.refund().await.unwrap();
        assert_eq!(remaining(&registry, &BYTES, "ada").await, 100, "messages are part of the charge");
        // Settling the charge does not open the stream.
        assert!(charge.check(2).await.is_ok());
        assert_eq!(charge.check(1).await.unwrap_err().reason(), Reason::Limited);
    }
}

#[tokio::test]
async fn settling_one_policy_keeps_receipts_of_others() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let charge = check(&registry, &MAILS, "ada").cost(0).and(&BYTES).cost(0).await.unwrap();
        charge.for_policy("mails").unwrap().settle(0).await.unwrap();
        let bytes = charge.for_policy("bytes").unwrap();
        assert!(charge.check(1).await.is_ok());
        assert_eq!(bytes.decision().remaining(), 99, "{mode:?}");
        let mut meter = charge.meter(1);
        assert!(meter.check(1).await.is_ok());
        drop(meter);
        assert_eq!(bytes.decision().remaining(), 98, "{mode:?}");

        charge.refund().await.unwrap();
        assert_eq!(remaining(&registry, &BYTES, "ada").await, 100, "{mode:?}");
        assert_eq!(remaining(&registry, &MAILS, "ada").await, 0, "what is settled stays charged");
        assert_eq!(charge.settle(0).await, Err(ChargeError::Settled));
    }
}

#[tokio::test]
async fn the_charge_of_a_layer_checks_messages() {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use http::{Request, Response};
    use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer};
    use tower::{Layer as _, ServiceExt as _};

    for mode in MODES {
        let (_, registry) = store(mode);
        let planned = Policy::gcra("planned", Quota::per_second(1));
        let layer = RateLimitLayer::new(Arc::clone(&registry), planned.by(Global).shadow())
            .with_charge()
            .and(BYTES.clone());
        let kept = Arc::<Mutex<Option<Charge>>>::default();
        let keep = Arc::clone(&kept);
        let service = layer.layer(tower::service_fn(move |request: Request<String>| {
            *keep.lock().unwrap() = request.extensions().get::<Charge>().cloned();
            async { Ok::<_, Infallible>(Response::builder().status(101).body(()).unwrap()) }
        }));
        let response = service.oneshot(Request::new(String::new())).await.unwrap();
        assert_eq!(response.status(), 101);
        let charge = kept.lock().unwrap().take().unwrap();
        assert_eq!(charge.check(98).await.unwrap().remaining(), 1);
        assert_eq!(charge.check(2).await.unwrap_err().reason(), Reason::Limited);
        assert_eq!(charge.check(1).await.unwrap().remaining(), 0);
        charge.settle(1).await.unwrap();
        assert_eq!(charge.decision().remaining(), 99);
    }
}

#[tokio::test]
async fn streams_that_begin_in_an_outage_are_limited_later() {
    use std::convert::Infallible;
    use std::sync::Mutex;
    use std::time::Duration;

    use http::{Request, Response};
    use portcullis_core::{FailureMode, ManualClock, Secret};
    use portcullis_memory::Fallback;
    use portcullis_tower::{Global, RateLimitLayer};
    use tower::{Layer as _, ServiceExt as _};

    for mode in [Mode::Down, Mode::DownLater] {
        let store = Arc::<TestStore>::default();
        let fallback = Fallback::builder(Arc::clone(&store)).clock(ManualClock::default()).build();
        let registry = Arc::new(Registry::new(Arc::new(fallback), Secret::published()));
        let policy = BYTES.clone().on_store_failure(FailureMode::OpenFor(Duration::from_secs(60)));
        let kept = Arc::<Mutex<Option<Charge>>>::default();
        let keep = Arc::clone(&kept);
        let service = RateLimitLayer::new(registry, policy.by(Global)).with_charge().layer(
            tower::service_fn(move |request: Request<String>| {
                *keep.lock().unwrap() = request.extensions().get::<Charge>().cloned();
                async { Ok::<_, Infallible>(Response::new(())) }
            }),
        );
        store.set(mode);
        assert_eq!(service.oneshot(Request::new(String::new())).await.unwrap().status(), 200);
        let charge = kept.lock().unwrap().take().unwrap();
        assert!(charge.check(101).await.is_ok(), "open");
        store.set(Mode::Ready);
        assert_eq!(charge.check(60).await.unwrap().remaining(), 40);
        assert!(charge.check(60).await.is_err(), "{mode:?}");
    }
}

#[tokio::test]
async fn messages_are_checked_under_the_policy_as_it_is_now() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let charge = stream(&registry, &BYTES).await;
        assert_eq!(charge.check(40).await.unwrap().remaining(), 60);
        registry.set_policy(Policy::fixed_window("bytes", Quota::per_hour(50))).unwrap();
        assert_eq!(charge.check(11).await.unwrap_err().reason(), Reason::Limited);
        let decision = charge.check(5).await.unwrap();
        assert_eq!((decision.limit(), decision.remaining()), (50, 5));
        let mut meter = charge.meter(4);
        meter.check(1).await.unwrap();
        assert_eq!((meter.credit(), charge.check(0).await.unwrap().remaining()), (3, 1));
        meter.finish().await.unwrap();
        assert!(charge.meter(8).check(5).await.is_err(), "four are left");
        assert!(charge.check(4).await.is_ok());
    }
}

#[tokio::test]
async fn the_wait_of_a_message_is_spread_as_by_its_layer() {
    use std::convert::Infallible;
    use std::time::Duration;

    use http::{Request, Response};
    use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer};
    use tower::{Layer as _, ServiceExt as _};

    let hourly = Policy::fixed_window("hourly", Quota::per_hour(1)).by(Global).cost(0);
    let layer =
        RateLimitLayer::new(registry(), hourly).with_charge().spread_retries(Duration::from_secs(600));
    let service = layer.layer(tower::service_fn(async |request: Request<String>| {
        let charge = request.extensions().get::<Charge>().unwrap();
        assert!(charge.check(1).await.is_ok());
        let mut waits = Vec::new();
        for _ in 0..3 {
            let limited = charge.check(1).await.unwrap_err();
            let wait = limited.retry_after_seconds().unwrap();
            assert_eq!(limited.into_http().headers()["retry-after"], wait.to_string());
            waits.push(wait);
        }
        assert!(waits.iter().all(|wait| (3_600..=4_200).contains(wait)), "{waits:?}");
        assert!(waits[0] != waits[1] && waits[1] != waits[2], "{waits:?}");
        Ok::<_, Infallible>(Response::new(()))
    }));
    assert_eq!(service.oneshot(Request::new(String::new())).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn messages_wait_in_a_queue() {
    let queue = Policy::leaky_bucket("queue", Quota::per_second(1).burst(5));
    for mode in MODES {
        let (_, registry) = store(mode);
        let charge = stream(&registry, &queue).await;
        let start = Instant::now();
        let messages: Vec<_> = (0..3)
            .map(|_| {
                let charge = charge.clone();
                tokio::spawn(async move { charge.check(1).await.is_ok() })
            })
            .collect();
        for message in messages {
            assert!(message.await.unwrap());
        }
        assert_eq!(start.elapsed().as_millis(), 2_000, "{mode:?}");
    }
}

#[test]
fn memory_does_not_grow_with_messages() {
    for policy in [
        Policy::gcra("messages", Quota::per_day(10_000_000).burst(1_000_000)),
        Policy::fixed_window("messages", Quota::per_day(1_000_000)),
        Policy::sliding_window("messages", Quota::per_day(1_000_000)),
    ] {
        let registry = registry();
        let mut context = Context::from_waker(Waker::noop());
        let mut opened = std::pin::pin!(stream(&registry, &policy));
        let std::task::Poll::Ready(charge) = opened.as_mut().poll(&mut context) else { panic!("at once") };
        let meter = std::cell::RefCell::new(charge.meter(16));
        let hold = |messages: u32| {
            allocation_counter::measure(|| {
                for _ in 0..messages {
                    let mut context = Context::from_waker(Waker::noop());
                    assert!(std::pin::pin!(charge.check(1)).poll(&mut context).is_ready());
                    let mut meter = meter.borrow_mut();
                    assert!(std::pin::pin!(meter.check(1)).poll(&mut context).is_ready());
                }
            })
        };
        assert!(hold(200).bytes_current < 8_192);
        assert_eq!(hold(100_000).bytes_current, 0);
    }
}

#[tokio::test]
async fn a_meter_calls_the_store_once_per_batch() {
    for mode in MODES {
        let (store, registry) = store(mode);
        let charge = stream(&registry, &BYTES).await;
        for (batch, messages, calls) in [(0, 6, 6), (1, 6, 6), (3, 6, 2), (10, 11, 2), (2, 1, 1)] {
            let before = store.asked.load(Relaxed);
            let mut meter = charge.meter(batch);
            for _ in 0..messages {
                meter.check(1).await.unwrap();
            }
            assert_eq!(store.asked.load(Relaxed) - before, calls, "{batch}");
            meter.finish().await.unwrap();
        }
        assert_eq!(remaining(&registry, &BYTES, "ada").await, 70, "{mode:?}");
        charge.refund().await.unwrap();
        assert_eq!(remaining(&registry, &BYTES, "ada").await, 100, "batches are part of the charge");
    }
}

#[tokio::test]
async fn meters_never_use_more_than_the_limit_and_all_of_it() {
    for mode in MODES {
        for batch in [1, 7, 30, 64, 1_000] {
            let (store, registry) = store(mode);
            let charge = stream(&registry, &BYTES).await;
            let mut meters = [charge.meter(batch), charge.meter(batch), charge.meter(batch)];
            let mut used = 0;
            for number in 0..60 {
                let units = 1 + number % 3;
                for meter in &mut meters {
                    used += meter.check(units).await.map_or(0, |()| units);
                }
            }
            assert!(used <= 100, "{used}");
            let before = store.asked.load(Relaxed);
            assert!(meters[0].check(101).await.is_err());
            assert_eq!(
                store.asked.load(Relaxed) - before,
                1,
                "a flood of denied messages costs one call each"
            );
            let [one, two, three] = meters;
            for meter in [one, two, three] {
                meter.finish().await.unwrap();
            }
            let left = remaining(&registry, &BYTES, "ada").await;
            assert_eq!(left + used, 100, "{batch}: everything else was returned");
        }
    }
}

#[tokio::test]
async fn a_message_that_fits_is_not_denied_for_its_batch() {
    let (_, registry) = store(Mode::Ready);
    let mut meter = stream(&registry, &BYTES).await.meter(64);
    for _ in 0..100 {
        meter.check(1).await.unwrap();
    }
    assert_eq!(meter.check(1).await.unwrap_err().reason(), Reason::Limited);
}

#[tokio::test]
async fn a_dropped_meter_returns_its_units() {
    for mode in MODES {
        let (_, registry) = store(mode);
        let charge = stream(&registry, &BYTES).await;
        let mut meter = charge.meter(50);
        meter.check(10).await.unwrap();
        assert_eq!(meter.credit(), 40);
        assert_eq!(remaining(&registry, &BYTES, "ada").await, 50);
        drop(meter);
        while remaining(&registry, &BYTES, "ada").await < 90 {
            tokio::task::yield_now().await;
        }
        charge.refund().await.unwrap();
        assert_eq!(remaining(&registry, &BYTES, "ada").await, 100);
    }
}

#[tokio::test]
async fn a_meter_falls_back_to_single_checks_in_an_outage() {
    let open = BYTES.clone().on_store_failure(portcullis_core::FailureMode::Open);
    let (store, registry) = store(Mode::Ready);
    let charges = [stream(&registry, &MAILS).await, stream(&registry, &open).await];
    let mut meters = charges.each_ref().map(|charge| charge.meter(8));
    store.set(Mode::Down);
    assert_eq!(meters[0].check(1).await.unwrap_err().reason(), Reason::StoreFailed);
    assert!(meters[1].check(1).await.is_ok());
    assert_eq!(meters[1].credit(), 0, "nothing is charged ahead");
    store.set(Mode::Ready);
    assert_eq!(meters[0].check(1).await.map_err(|limited| limited.reason()), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_meter_of_a_queue_has_no_batches() {
    let queue = Policy::leaky_bucket("queue", Quota::per_second(1).burst(5));
    let (store, registry) = store(Mode::Ready);
    let mut meter = stream(&registry, &queue).await.meter(4);
    let before = store.asked.load(Relaxed);
    for _ in 0..3 {
        meter.check(1).await.unwrap();
        store.micros.fetch_add(1_000_000, Relaxed);
    }
    assert_eq!((store.asked.load(Relaxed) - before, meter.credit()), (3, 0));
}

/// Without a runtime nothing can be refunded in the background, and nothing panics.
#[test]
fn a_meter_may_be_dropped_without_a_runtime() {
    let store = Arc::<TestStore>::default();
    let registry = crate::support::registry_of(store);
    let mut context = Context::from_waker(Waker::noop());
    let mut opened = std::pin::pin!(stream(&registry, &BYTES));
    let std::task::Poll::Ready(charge) = opened.as_mut().poll(&mut context) else { panic!("at once") };
    let mut meter = charge.meter(9);
    assert!(std::pin::pin!(meter.check(1)).poll(&mut context).is_ready());
    drop(meter);
    assert_eq!(charge.decision().remaining(), 100, "the units stay charged");
}
