//! Reservations beside charges by outcome, and unusual ends of a response.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use http::{HeaderMap, HeaderValue, Method};
use portcullis_memory::MemoryStore;
use portcullis_tower::{Event, EventKind, Limit, PolicyExt as _, RateLimitLayer, ResponseOutcome};

use super::*;
use crate::support::mistake;

fn is_refused(outcome: &ResponseOutcome<'_>) -> bool {
    outcome.grpc_status().map_or(outcome.status() == 401, |status| status == 16)
}

/// Answers in HTTP, or in gRPC with a status in its trailers, and counts 3 units as `tokens`.
fn refusing(
    is_grpc: bool,
    refuses: bool,
) -> impl Service<
    Request<String>,
    Response = Response<impl Body<Data = Bytes, Error = Infallible> + Unpin>,
    Error = Infallible,
    Future: Send,
> + Clone {
    service_fn(move |request: Request<String>| async move {
        request.extensions().get::<Usage>().unwrap().for_policy("tokens").unwrap().add(3);
        let status = HeaderValue::from_static(if refuses { "16" } else { "0" });
        let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), status)]);
        let body = http_body_util::Full::new(Bytes::from_static(b"message"));
        let body = body.with_trailers(std::future::ready(is_grpc.then_some(Ok(trailers))));
        let mut response = Response::new(Box::pin(body));
        if is_grpc {
            response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
        } else if refuses {
            *response.status_mut() = http::StatusCode::UNAUTHORIZED;
        }
        Ok::<_, Infallible>(response)
    })
}

#[tokio::test]
async fn a_response_that_is_not_charged_refunds_the_reservation() {
    for mode in [Mode::Ready, Mode::Later] {
        for is_grpc in [false, true] {
            for (refuses, expected) in [(true, 3), (false, 0)] {
                let setup = Setup::new(mode);
                let layer = setup.layer_of(limit("tokens").reserve(10).charge_when(is_refused));
                let service = layer.layer(refusing(is_grpc, refuses));
                service.oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                assert_eq!(setup.charged("tokens").await, expected, "{mode:?}, gRPC: {is_grpc}");
            }
        }
    }
}

#[tokio::test]
async fn each_policy_of_a_layer_is_charged_by_its_own_rule() {
    for mode in [Mode::Ready, Mode::Later] {
        for is_grpc in [false, true] {
            for charges_after in [false, true] {
                for (refuses, guesses) in [(true, 1), (false, 0)] {
                    let setup = Setup::new(mode);
                    let by_outcome = limit("guesses").charge_when(is_refused);
                    let by_outcome = if charges_after { by_outcome.charge_after() } else { by_outcome };
                    let layer = setup.layer_of(by_outcome).and(Limit::new(policy("tokens")).reserve(10));
                    let service = layer.layer(refusing(is_grpc, refuses));
                    service.oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
                    for _ in 0..10 {
                        tokio::task::yield_now().await;
                    }
                    let charged = [setup.charged("guesses").await, setup.charged("tokens").await];
                    assert_eq!(charged, [guesses, 3], "{mode:?}, gRPC: {is_grpc}");
                }
            }
        }
    }
}

#[test]
fn a_policy_reserves_or_charges_after() {
    let setup = Setup::new(Mode::Ready);
    let error = LayerError::ReservesAndLooks { policy: PolicyName::literal("tokens") };
    let tokens = || limit("tokens").charge_when(is_refused);
    assert_eq!(mistake(&setup.registry, [tokens().reserve(1).charge_after()]), error);
    assert_eq!(mistake(&setup.registry, [tokens().charge_after().reserve_or(1, OnAbort::Used)]), error);
    let bytes = Limit::new(policy("bytes")).reserve_or(1, OnAbort::Used);
    assert!(RateLimitLayer::try_new(setup.registry, [tokens().charge_after(), bytes]).is_ok());
}

#[tokio::test]
async fn a_response_without_a_body_is_complete_when_it_is_dropped() {
    let cases = [
        (Method::HEAD, 200, 7),
        (Method::GET, 304, 7),
        (Method::GET, 204, 7),
        (Method::GET, 101, 7),
        (Method::GET, 200, 0),
    ];
    for (method, status, expected) in cases {
        let setup = Setup::new(Mode::Ready);
        let layer = setup.layer_of(limit("tokens").reserve_or(100, OnAbort::Nothing));
        let service = layer.layer(service_fn(move |request: Request<String>| async move {
            request.extensions().get::<Usage>().unwrap().add(7);
            let response = Response::builder().status(status).header("content-length", "4");
            Ok::<_, Infallible>(response.body(String::from("body")).unwrap())
        }));
        let mut head = request();
        *head.method_mut() = method.clone();
        drop(service.oneshot(head).await.unwrap());
        assert_eq!(setup.charged("tokens").await, expected, "{method} {status}");
    }
}

/// A body that counts when it is dropped, and panics when it is polled.
struct Panicking(Usage);

impl Body for Panicking {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        panic!("a bug in a body")
    }
}

impl Drop for Panicking {
    fn drop(&mut self) {
        self.0.add(5);
    }
}

#[tokio::test]
async fn a_body_that_panics_is_settled_once_with_its_last_count() {
    let setup = Setup::new(Mode::Ready);
    let layer = setup.layer_of(limit("tokens").reserve(100));
    let service = layer.layer(service_fn(async |request: Request<String>| {
        Ok::<_, Infallible>(Response::new(Panicking(request.extensions().get().cloned().unwrap())))
    }));
    let mut body = Box::pin(service.oneshot(request()).await.unwrap().into_body());
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(catch_unwind(AssertUnwindSafe(|| body.as_mut().poll_frame(&mut cx).is_ready())).is_err());
    drop(body);
    assert_eq!((setup.charged("tokens").await, setup.settlements()), (5, 1));
}

#[tokio::test]
async fn a_panic_of_an_observer_does_not_leave_a_destructor() {
    let setup = Setup::new(Mode::Ready);
    setup.registry.observe(Arc::new(|event: &Event<'_>| {
        assert!(!matches!(event.kind, EventKind::Refunded { .. }), "a bug in an observer");
    }));
    let layer = setup.layer_of(limit("tokens").reserve(100));
    let service = layer.layer(service_fn(|request: Request<String>| {
        request.extensions().get::<Usage>().unwrap().add(5);
        async { if true { panic!("a bug in a handler") } else { Answer::Ok(Response::new(empty())) } }
    }));
    assert!(tokio::spawn(service.oneshot(request())).await.is_err());
    assert_eq!(setup.charged("tokens").await, 5);
    // The same at the end of a body.
    let service = setup.layer_of(limit("tokens").reserve(100)).layer(streaming(&[Some(1)]));
    assert!(service.oneshot(request()).await.unwrap().into_body().collect().await.is_ok());
    assert_eq!(setup.charged("tokens").await, 6);
}

fn empty() -> Counting {
    Counting { usage: None, chunks: VecDeque::new() }
}

#[tokio::test]
async fn any_number_of_units_is_settled() {
    for mode in [Mode::Ready, Mode::Later] {
        for estimate in [0, 100, 1_000] {
            let setup = Setup::new(mode);
            let layer = setup.layer_of(limit("tokens").reserve(estimate));
            let service = layer.layer(service_fn(async |request: Request<String>| {
                let usage = request.extensions().get::<Usage>().unwrap();
                usage.set(u64::MAX);
                usage.add(u64::MAX);
                Ok::<_, Infallible>(Response::new(String::new()))
            }));
            service.oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
            assert_eq!(setup.charged("tokens").await, 1_000, "{mode:?}");
        }
    }
}

#[tokio::test]
async fn a_queue_is_charged_more_behind_later_slots() {
    let setup = Setup::new(Mode::Ready);
    let queue = Policy::leaky_bucket("queue", Quota::per_second(1).burst(100));
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), queue.clone().by(Global).reserve(0));
    let service = layer.layer(streaming(&[Some(4)]));
    let responses = [service.clone().oneshot(request()).await, service.oneshot(request()).await];
    for response in responses {
        response.unwrap().into_body().collect().await.unwrap();
    }
    let peek = setup.store.check(Checks::one(queue, global(), 0)).await.unwrap();
    assert_eq!(peek.decision().remaining(), 92);
}

#[tokio::test]
async fn a_reservation_outlives_its_layer_and_a_change_of_its_policy() {
    let clock = portcullis_core::ManualClock::default();
    let store = Arc::new(MemoryStore::builder().clock(clock).build());
    let registry = Arc::new(Registry::new(Arc::clone(&store) as Arc<_>, Secret::published()));
    let layer = RateLimitLayer::new(Arc::clone(&registry), policy("tokens").by(Global).reserve(100));
    let service = layer.layer(streaming(&[Some(30)]));
    let [first, second] = [service.clone().oneshot(request()).await, service.oneshot(request()).await];
    let wider = Policy::fixed_window("tokens", Quota::per_day(2_000));
    registry.set_policy(wider.clone()).unwrap();
    drop(layer);
    let left = async |policy: &Policy| {
        store.check(Checks::one(policy.clone(), global(), 0)).await.unwrap().decision().remaining()
    };
    first.unwrap().into_body().collect().await.unwrap();
    assert_eq!(left(&wider).await, 2_000 - 130);
    drop(second);
    assert_eq!(left(&wider).await, 2_000 - 130, "nothing was counted");
}

#[tokio::test]
async fn usage_is_there_if_limits_are_off() {
    let kept = Mutex::new(None);
    let layer = RateLimitLayer::new(Arc::new(Registry::off()), policy("tokens").by(Global).reserve(100));
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let usage = request.extensions().get::<Usage>().unwrap().clone();
        usage.for_policy("tokens").unwrap().add(9);
        *kept.lock().unwrap() = Some(usage);
        let charge = request.extensions().get::<Charge>().unwrap();
        assert!(charge.settle(4).await.is_ok());
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    service.oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(kept.lock().unwrap().take().unwrap().units(), Some(9));
}
