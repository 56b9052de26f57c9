//! Requests without an outcome.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use portcullis_core::Secret;
use portcullis_memory::MemoryStore;
use std::time::Duration;
use tokio::time::Instant;

use super::*;
use crate::leaving::{Slow, Virtual};

/// Polls a request once, which does not complete.
fn begin(layer: &RateLimitLayer) -> impl Future + use<> {
    let service = layer
        .layer(service_fn(|_: Request<String>| std::future::pending::<Result<Response<()>, Infallible>>()));
    let mut response = Box::pin(service.oneshot(request(200)));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..4 {
        assert!(response.as_mut().poll(&mut cx).is_pending());
    }
    response
}

/// The four ways to judge a request, and what remains of 9 units if it has no outcome.
fn rows(registry: &Arc<Registry>) -> [(RateLimitLayer, u64); 4] {
    let limit = || limit_of(9).charge_when(is_refused);
    [
        (limit(), 8),
        (limit().refund_unanswered(), 9),
        (limit().charge_after(), 8),
        (limit().charge_after().refund_unanswered(), 9),
    ]
    .map(|(limit, left)| (layer(registry, limit), left))
}

fn in_mode(mode: Mode) -> (Arc<TestStore>, Arc<Registry>) {
    let store = Arc::<TestStore>::default();
    store.set(mode);
    (Arc::clone(&store), registry_of(store))
}

#[tokio::test]
async fn a_dropped_request_stays_charged() {
    for mode in [Mode::Ready, Mode::Later] {
        for row in 0..4 {
            let (_, registry) = in_mode(mode);
            let (layer, expected) = rows(&registry)[row].clone();
            drop(begin(&layer));
            eventually(async || left(&registry, 9).await == expected).await;
            assert_eq!(send(&echo(&layer), request(200)).await, (200, expected), "no permit is left");
        }
    }
}

#[tokio::test]
async fn a_request_that_fails_stays_charged() {
    for row in 0..4 {
        let (_, registry) = in_mode(Mode::Ready);
        let (layer, expected) = rows(&registry)[row].clone();
        let service = layer.layer(service_fn(async |_: Request<String>| Err::<Response<()>, _>("broken")));
        assert_eq!(service.oneshot(request(200)).await.unwrap_err(), "broken");
        assert_eq!(left(&registry, 9).await, expected);
    }
}

#[tokio::test]
async fn a_request_that_panics_stays_charged() {
    for row in 0..4 {
        for panics_at_once in [true, false] {
            let (_, registry) = in_mode(Mode::Ready);
            let (layer, expected) = rows(&registry)[row].clone();
            let service = layer.layer(service_fn(move |_: Request<String>| {
                assert!(!panics_at_once, "in the call");
                async move {
                    assert!(panics_at_once, "in the poll");
                    Ok::<_, Infallible>(Response::new(()))
                }
            }));
            let mut response = Box::pin(service.oneshot(request(200)));
            let mut cx = Context::from_waker(Waker::noop());
            assert!(catch_unwind(AssertUnwindSafe(|| response.as_mut().poll(&mut cx))).is_err());
            drop(catch_unwind(AssertUnwindSafe(|| drop(response))));
            assert_eq!(left(&registry, 9).await, expected);
        }
    }
}

#[tokio::test]
async fn a_request_stays_charged_if_the_closure_panics() {
    let (_, registry) = in_mode(Mode::Ready);
    let events = Recorder::new(&registry);
    let limit = limit_of(9).charge_when(|_| panic!("a bug")).refund_unanswered();
    assert_eq!(send(&echo(&layer(&registry, limit.clone())), request(200)).await, (200, 8));
    assert_eq!(send(&echo(&layer(&registry, limit.charge_after())), request(200)).await, (200, 7));
    assert_eq!(events.take(), ["panicked", "panicked", "charged"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_leaves_during_its_refund_is_refunded() {
    let memory = MemoryStore::builder().clock(Virtual(Instant::now())).build();
    let store = Slow { memory, latency: Duration::from_millis(10) };
    let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    let events = Recorder::new(&registry);
    let service = layer(&registry, limit_of(9).charge_when(is_refused)).layer(service_fn(
        async |_: Request<String>| {
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok::<_, Infallible>(Response::new(()))
        },
    ));
    let response = tokio::time::timeout(Duration::from_millis(25), service.oneshot(request(200)));
    assert!(response.await.is_err(), "the response waits for the refund");
    assert_eq!(events.take(), [""; 0]);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(events.take(), ["refunded"]);
    assert_eq!(left(&registry, 9).await, 9);
}

#[tokio::test(start_paused = true)]
async fn a_refund_frees_no_slot_in_the_middle_of_a_queue() {
    let start = Instant::now();
    let memory = MemoryStore::builder().clock(Virtual(start)).build();
    let store = Slow { memory, latency: Duration::ZERO };
    let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    let queue = Policy::leaky_bucket("queue", Quota::per_second(1).burst(5));
    let layer = RateLimitLayer::new(registry, queue.by(Global).charge_when(|_| false));
    let passed = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&passed);
    let mut service = layer.layer(service_fn(move |_: Request<String>| {
        times.lock().unwrap().push(start.elapsed().as_secs());
        async { Ok::<_, Infallible>(Response::new(())) }
    }));
    let mut responses: Vec<_> = (0..3).map(|_| tower::Service::call(&mut service, request(200))).collect();
    assert_eq!(responses.remove(0).await.unwrap().status(), 200);
    responses.push(tower::Service::call(&mut service, request(200)));
    for response in responses {
        assert_eq!(response.await.unwrap().status(), 200);
    }
    assert_eq!(*passed.lock().unwrap(), [0, 1, 2, 3]);
}

#[test]
fn without_a_runtime_corrections_that_wait_are_dropped() {
    for (row, event) in [(1, "refund dropped"), (2, "charge dropped")] {
        let (store, registry) = in_mode(Mode::Ready);
        let events = Recorder::new(&registry);
        let pending = begin(&rows(&registry)[row].0);
        store.set(Mode::Later);
        drop(pending);
        assert_eq!(events.take(), [event]);
    }
}

#[test]
fn a_store_that_answers_at_once_needs_no_runtime() {
    for row in 0..4 {
        let (_, registry) = in_mode(Mode::Ready);
        let (layer, expected) = rows(&registry)[row].clone();
        drop(begin(&layer));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(left(&registry, 9)), expected);
    }
}

/// Never ready, so that an admitted request does not reach it.
#[derive(Clone)]
struct Unready;

impl tower::Service<Request<String>> for Unready {
    type Response = Response<()>;
    type Error = &'static str;
    type Future = std::future::Ready<Result<Response<()>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        Poll::Ready(Err("broken"))
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        unreachable!("it is never ready")
    }
}

#[tokio::test]
async fn a_request_that_never_reaches_the_service_is_not_judged() {
    for row in 0..4 {
        let (_, registry) = in_mode(Mode::Later);
        let (layer, _) = rows(&registry)[row].clone();
        // A look-up releases the instance that was ready.
        let tenants = Policy::fixed_window("tenants", Quota::per_day(9));
        let layer = layer.and(tenants.by_async(|_: &http::request::Parts| async {
            tokio::task::yield_now().await;
            Ok(portcullis_tower::Lookup::found("tenant", "acme"))
        }));
        let mut service = layer.layer(Unready);
        let response = Pin::new(&mut tower::Service::call(&mut service, request(200))).await;
        assert_eq!(response.unwrap_err(), "broken");
        eventually(async || left(&registry, 9).await == 9).await;
    }
}
