//! Policies that are charged by the outcome of the response.

mod grpc;
mod looking;
mod unanswered;

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use portcullis_core::{FailureMode, ManualClock, Policy, Quota, Secret};
use portcullis_memory::Fallback;
use portcullis_tower::{
    Charge, ChargeError, Event, EventKind, Global, Limit, Observer, PolicyExt as _, RateLimitLayer, Registry,
    ResponseOutcome,
};
use tower::util::BoxCloneService;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{Mode, TestStore, registry, registry_of};

type Service = BoxCloneService<Request<String>, Response<()>, Infallible>;

fn guesses(limit: u64) -> Policy {
    Policy::fixed_window("guesses", Quota::per_day(limit))
}

fn is_refused(outcome: &ResponseOutcome<'_>) -> bool {
    outcome.status() == 401
}

fn layer(registry: &Arc<Registry>, limit: Limit) -> RateLimitLayer {
    RateLimitLayer::new(Arc::clone(registry), limit)
}

fn limit_of(units: u64) -> Limit {
    guesses(units).by(Global)
}

/// A service that responds with the status in the body of the request.
fn echo(layer: &RateLimitLayer) -> Service {
    let inner = service_fn(async |request: Request<String>| {
        tokio::task::yield_now().await;
        let status = request.body().parse::<u16>().unwrap();
        Ok::<_, Infallible>(Response::builder().status(status).body(()).unwrap())
    });
    layer.layer(inner).map_response(|response| response.map(drop)).boxed_clone()
}

fn request(status: u16) -> Request<String> {
    Request::new(status.to_string())
}

/// The status of the response to a request, and what remains according to its headers.
async fn send(service: &Service, request: Request<String>) -> (u16, u64) {
    let response = service.clone().oneshot(request).await.unwrap();
    (response.status().as_u16(), remaining(&response))
}

fn remaining<B>(response: &Response<B>) -> u64 {
    response.headers()["x-ratelimit-remaining"].to_str().unwrap().parse().unwrap()
}

/// What remains under the policy of a limit, by the header of a request that costs nothing.
async fn left(registry: &Arc<Registry>, limit: u64) -> u64 {
    send(&echo(&layer(registry, limit_of(limit).cost(0))), request(200)).await.1
}

/// Waits for tasks in the background until `condition` holds.
async fn eventually(mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..10_000 {
        if condition().await {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the condition does not hold");
}

/// The names of the events about charges.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<&'static str>>>);

impl Recorder {
    fn new(registry: &Registry) -> Self {
        let recorder = Self::default();
        registry.observe(Arc::new(recorder.clone()));
        recorder
    }

    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Recorder {
    fn on_event(&self, event: &Event<'_>) {
        let name = match event.kind {
            EventKind::Refunded { .. } => "refunded",
            EventKind::ChargedMore { .. } => "charged",
            EventKind::RefundDropped => "refund dropped",
            EventKind::ChargeDropped => "charge dropped",
            EventKind::TooManyUnsettled { .. } => "too many unsettled",
            EventKind::OutcomePanicked { .. } => "panicked",
            EventKind::StoreFailed { .. } => "failed",
            EventKind::Rejected { .. } => "rejected",
            _ => return,
        };
        self.0.lock().unwrap().push(name);
    }
}

#[tokio::test]
async fn headers_show_the_budget_after_the_refund() {
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let registry = registry_of(store);
        let events = Recorder::new(&registry);
        let service = echo(&layer(&registry, limit_of(2).charge_when(is_refused)));
        for (status, expected, event) in [
            (200, (200, 2), Some("refunded")),
            (401, (401, 1), None),
            (500, (500, 1), Some("refunded")),
            (401, (401, 0), None),
            (200, (429, 0), Some("rejected")),
        ] {
            assert_eq!(send(&service, request(status)).await, expected, "{mode:?}");
            assert_eq!(events.take(), event.as_slice(), "{mode:?}");
        }
    }
}

#[tokio::test]
async fn of_fifty_parallel_guesses_five_run() {
    let registry = registry();
    let service = echo(&layer(&registry, limit_of(5).charge_when(is_refused)));
    let guesses: Vec<_> = (0..50).map(|_| tokio::spawn(service.clone().oneshot(request(401)))).collect();
    let mut statuses = Vec::new();
    for guess in guesses {
        statuses.push(guess.await.unwrap().unwrap().status().as_u16());
    }
    let count = |status| statuses.iter().filter(|seen| **seen == status).count();
    assert_eq!((count(401), count(429)), (5, 45));
}

#[tokio::test]
async fn a_response_without_a_body_is_judged_by_its_status() {
    let registry = registry();
    let judge = |outcome: &ResponseOutcome<'_>| outcome.status() != 304 && outcome.status() != 101;
    let service = echo(&layer(&registry, limit_of(9).charge_when(judge)));
    for (method, status, expected) in
        [(Method::HEAD, 200, 8), (Method::GET, 304, 8), (Method::GET, 101, 8), (Method::HEAD, 401, 7)]
    {
        let mut request = request(status);
        *request.method_mut() = method;
        assert_eq!(send(&service, request).await, (status, expected));
    }
}

#[tokio::test]
async fn a_closure_sees_the_headers_of_the_inner_service() {
    let judge = |outcome: &ResponseOutcome<'_>| {
        assert!(!outcome.headers().contains_key("x-ratelimit-remaining") && outcome.trailers().is_none());
        outcome.headers().contains_key("x-wrong")
    };
    let layer = layer(&registry(), limit_of(9).charge_when(judge));
    for (name, expected) in [("x-right", "9"), ("x-wrong", "8")] {
        let service = layer.layer(service_fn(async |_: Request<String>| {
            Ok::<_, Infallible>(Response::builder().header(name, "").body(()).unwrap())
        }));
        let response = service.oneshot(request(200)).await.unwrap();
        assert_eq!(response.headers()["x-ratelimit-remaining"], expected);
    }
}

#[tokio::test]
async fn other_policies_of_the_layer_stay_charged() {
    let registry = registry();
    let all = Policy::fixed_window("all", Quota::per_day(9));
    let both = layer(&registry, limit_of(9).charge_when(is_refused)).and(Limit::new(all.clone()).cost(2));
    let service = echo(&both);
    assert_eq!([send(&service, request(200)).await.1, send(&service, request(401)).await.1], [7, 5]);
    assert_eq!(left(&registry, 9).await, 8);
    // Only the last policy is judged.
    let last = Limit::new(guesses(9)).charge_when(is_refused).cost(3);
    let service = echo(&layer(&registry, all.by(Global)).and(last));
    assert_eq!(send(&service, request(200)).await.1, 4, "the first policy");
    assert_eq!(left(&registry, 9).await, 8);
}

#[tokio::test]
async fn each_layer_refunds_its_own_charges() {
    let registry = registry();
    let users = || Policy::fixed_window("users", Quota::per_day(9)).by(Global);
    for (outer, inner, charges) in [
        (users().charge_when(is_refused), limit_of(9), [9, 8]),
        (users(), limit_of(9).charge_when(is_refused), [8, 8]),
        (users().charge_when(is_refused), limit_of(9).charge_when(is_refused), [8, 8]),
    ] {
        let service = layer(&registry, outer.clone()).layer(echo(&layer(&registry, inner)));
        service.oneshot(request(200)).await.unwrap();
        assert_eq!(
            [send(&echo(&layer(&registry, outer.cost(0))), request(401)).await.1, left(&registry, 9).await],
            charges
        );
    }
}

#[tokio::test]
async fn a_charge_that_a_handler_has_settled_is_not_changed() {
    type Work = fn(Charge) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;
    let cases: [(Work, u16, u64); 5] = [
        (|charge| Box::pin(async move { charge.refund().await.unwrap() }), 401, 20),
        (|charge| Box::pin(async move { drop(charge.settle(4).await.unwrap()) }), 200, 16),
        // The outcome decides about the units of the admission only.
        (|charge| Box::pin(async move { drop(charge.charge_more(5).await.unwrap()) }), 200, 15),
        (|charge| Box::pin(async move { drop(charge.charge_more(5).await.unwrap()) }), 401, 13),
        (|_| Box::pin(async {}), 200, 20),
    ];
    for mode in [Mode::Ready, Mode::Later] {
        for (work, status, expected) in cases {
            let store = Arc::<TestStore>::default();
            store.set(mode);
            let layer = layer(&registry_of(store), limit_of(20).charge_when(is_refused).cost(2));
            let service = layer.layer(service_fn(move |request: Request<String>| {
                let work = work(request.extensions().get::<Charge>().unwrap().clone());
                async move {
                    work.await;
                    Ok::<_, Infallible>(Response::builder().status(status).body(()).unwrap())
                }
            }));
            let response = service.oneshot(request(200)).await.unwrap();
            assert_eq!(remaining(&response), expected, "{status}, {mode:?}");
        }
    }
}

#[tokio::test]
async fn a_refund_by_outcome_settles_the_charge() {
    let kept = Mutex::new(None);
    let layer = layer(&registry(), limit_of(9).charge_when(is_refused));
    let service = layer.layer(service_fn(async |request: Request<String>| {
        *kept.lock().unwrap() = request.extensions().get::<Charge>().cloned();
        Ok::<_, Infallible>(Response::new(()))
    }));
    service.oneshot(request(200)).await.unwrap();
    let charge = kept.lock().unwrap().take().unwrap();
    assert_eq!(charge.decision().remaining(), 9);
    assert_eq!(charge.charge_more(1).await, Err(ChargeError::Settled));
}

#[tokio::test]
async fn shadow_policies_are_charged_by_outcome_as_well() {
    for mode in [Mode::Ready, Mode::Later] {
        for (charges_after, status, expected) in
            [(false, 200, 9), (false, 401, 8), (true, 200, 9), (true, 401, 8)]
        {
            let store = Arc::<TestStore>::default();
            store.set(mode);
            let registry = registry_of(store);
            let shadow = limit_of(9).shadow().charge_when(is_refused);
            let shadow = if charges_after { shadow.charge_after() } else { shadow };
            let all = Policy::fixed_window("all", Quota::per_day(9));
            send(&echo(&layer(&registry, shadow).and(all)), request(status)).await;
            assert_eq!(left(&registry, 9).await, expected, "{status}, {mode:?}");
        }
    }
}

#[tokio::test]
async fn a_layer_of_shadow_policies_is_charged_by_outcome() {
    let registry = registry();
    let service = echo(&layer(&registry, limit_of(9).shadow().charge_when(is_refused)));
    for status in [200, 401, 200] {
        assert_eq!(service.clone().oneshot(request(status)).await.unwrap().status(), status);
    }
    assert_eq!(left(&registry, 9).await, 8);
}

#[tokio::test]
async fn nothing_is_refunded_where_the_store_had_failed() {
    let store = Arc::<TestStore>::default();
    store.set(Mode::Down);
    let registry = registry_of(Arc::clone(&store));
    let events = Recorder::new(&registry);
    let open = || guesses(9).on_store_failure(FailureMode::Open);
    let limit = open().by(Global).charge_when(is_refused);
    for limit in [limit.clone(), limit.charge_after()] {
        let response = echo(&layer(&registry, limit)).oneshot(request(200)).await.unwrap();
        assert_eq!(response.headers()["x-ratelimit-degraded"], "true");
        assert_eq!(events.take(), ["failed"]);
    }
}

#[tokio::test]
async fn a_charge_of_the_fallback_is_corrected_there() {
    for (down, ready) in [(Mode::Down, Mode::Ready), (Mode::DownLater, Mode::Later)] {
        for charges_after in [false, true] {
            let store = Arc::<TestStore>::default();
            let fallback = Fallback::builder(Arc::clone(&store)).clock(ManualClock::default()).build();
            let registry = Arc::new(Registry::new(Arc::new(fallback), Secret::published()));
            let limit = limit_of(3).charge_when(is_refused);
            let limit = if charges_after { limit.charge_after() } else { limit };
            let layer = layer(&registry, limit);
            store.set(down);
            assert_eq!(send(&echo(&layer), request(200)).await, (200, 3));
            assert_eq!(send(&echo(&layer), request(401)).await, (401, 2));
            // The store recovers while a request is handled, and has not charged it.
            for (status, expected) in [(200, 2), (401, 1)] {
                store.set(down);
                let service = layer.layer(service_fn(async |_: Request<String>| {
                    store.set(ready);
                    Ok::<_, Infallible>(Response::builder().status(status).body(()).unwrap())
                }));
                service.oneshot(request(200)).await.unwrap();
                assert_eq!(left(&registry, 3).await, 3);
                store.set(down);
                assert_eq!(left(&registry, 3).await, expected);
            }
        }
    }
}

#[tokio::test]
async fn a_refund_that_fails_is_an_event_and_is_not_repeated() {
    for (mode, fails) in [(Mode::Ready, Mode::Down), (Mode::Later, Mode::DownLater)] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let registry = registry_of(Arc::clone(&store));
        let events = Recorder::new(&registry);
        let layer = layer(&registry, limit_of(9).charge_when(is_refused));
        let service = layer.layer(service_fn(async |_: Request<String>| {
            store.set(fails);
            Ok::<_, Infallible>(Response::new(()))
        }));
        let response = service.oneshot(request(200)).await.unwrap();
        assert_eq!((response.status().as_u16(), remaining(&response)), (200, 8));
        assert_eq!(events.take(), ["failed"]);
        store.set(mode);
        assert_eq!(left(&registry, 9).await, 8, "the fate of the refund is unknown");
    }
}
