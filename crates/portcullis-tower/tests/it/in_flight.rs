//! Limits on requests in flight: how long a request holds its permit, and that it is released once.

mod changes;
mod concurrent;
mod leaks;
mod leases;
mod outages;
mod responses;
mod tasks;
mod upgrades;

use std::convert::Infallible;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Concurrency, Key, Policy, Quota, Secret};
use portcullis_tower::{
    Event, EventKind, Global, Limit, Lookup, PolicyExt as _, RateLimitLayer, Registry, ResponseBody,
};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

use crate::steps::{Step, Steps};
use crate::support::{Mode, TestStore, registry_of};

const LIMIT: u64 = 5;
const EXPORTS: Concurrency = Concurrency::new("exports", LIMIT);
const LEASE: Duration = Duration::from_secs(30);

struct Setup {
    store: Arc<TestStore>,
    registry: Arc<Registry>,
    seen: Arc<Mutex<Vec<&'static str>>>,
}

impl Setup {
    fn new(mode: Mode) -> Self {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        Self::of(Arc::clone(&store), registry_of(store))
    }

    fn of(store: Arc<TestStore>, registry: Arc<Registry>) -> Self {
        let seen = Arc::<Mutex<Vec<_>>>::default();
        let list = Arc::clone(&seen);
        registry.observe(Arc::new(move |event: &Event<'_>| {
            list.lock().unwrap().push(match event.kind {
                EventKind::PermitReleased { .. } => "released",
                EventKind::PermitLapsed { .. } => "lapsed",
                EventKind::UpgradeReleased { .. } => "upgrade released",
                EventKind::SettlementLost { .. } => "lost",
                EventKind::ShadowWouldReject { .. } => "shadow",
                EventKind::RefundDropped => "dropped",
                _ => return,
            });
        }));
        Self { store, registry, seen }
    }

    fn layer(&self) -> RateLimitLayer {
        self.layer_of(EXPORTS.by(Global))
    }

    fn layer_of(&self, limit: Limit) -> RateLimitLayer {
        RateLimitLayer::new(Arc::clone(&self.registry), limit)
    }

    /// How many permits are held once all releases are made.
    async fn held(&self) -> u64 {
        assert_eq!(self.registry.drain(Duration::from_secs(5)).await.left, 0);
        self.held_now().await
    }

    async fn held_now(&self) -> u64 {
        let mode = *self.store.mode.lock().unwrap();
        self.store.set(Mode::Ready);
        let peek = self.store.check(Checks::one(EXPORTS.into(), global(), 0)).await.unwrap();
        self.store.set(mode);
        LIMIT - peek.decision().remaining()
    }

    fn seen(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

fn global() -> Key {
    use portcullis_tower::KeyExtractor as _;

    let mut hasher = Secret::published().hasher();
    let (parts, ()) = Request::new(()).into_parts();
    let _ = Global.extract(&parts, &mut hasher.writer()).unwrap();
    hasher.finish().unwrap()
}

fn request() -> Request<String> {
    Request::new(String::new())
}

/// The response of a service whose body has these steps.
async fn respond(layer: &RateLimitLayer, steps: &[Step]) -> Response<ResponseBody<Steps>> {
    let steps = Arc::new(steps.to_vec());
    let service = layer.layer(service_fn(move |_: Request<String>| {
        let steps = Steps::new(&steps);
        async { Ok::<_, Infallible>(Response::new(steps)) }
    }));
    service.oneshot(request()).await.unwrap()
}

/// Polls a future some times, which does not complete.
fn poll_often<F: Future + ?Sized>(mut future: Pin<&mut F>) {
    for _ in 0..8 {
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}

#[tokio::test]
async fn a_permit_is_held_until_the_body_ends() {
    for mode in [Mode::Ready, Mode::Later] {
        for end in [Step::End, Step::Trailers(None), Step::Error] {
            let setup = Setup::new(mode);
            let mut response = respond(&setup.layer(), &[Step::Data, Step::Data, end]).await;
            for _ in 0..2 {
                assert!(response.body_mut().frame().await.unwrap().unwrap().is_data());
                assert_eq!(setup.held().await, 1);
            }
            let _ = response.body_mut().frame().await;
            assert_eq!(setup.held().await, 0, "{mode:?}, {end:?}");
            drop(response);
            assert_eq!((setup.held().await, setup.seen()), (0, vec!["released"]));
        }
    }
}

#[tokio::test]
async fn a_body_that_is_dropped_releases_its_permit() {
    for mode in [Mode::Ready, Mode::Later] {
        let setup = Setup::new(mode);
        let mut response = respond(&setup.layer(), &[Step::Data]).await;
        let _ = response.body_mut().frame().await;
        poll_often(pin!(response.body_mut().frame()));
        assert_eq!(setup.held().await, 1);
        drop(response);
        assert_eq!((setup.held().await, setup.seen()), (0, vec!["released"]));
    }
}

#[tokio::test]
async fn permits_can_be_held_until_the_headers() {
    let setup = Setup::new(Mode::Ready);
    let queries = Concurrency::new("queries", 1);
    let layer = setup.layer().and(Limit::new(queries).release_at_headers());
    let first = respond(&layer, &[Step::Data]).await;
    assert_eq!((setup.held().await, setup.seen()), (1, vec!["released"]), "only that of the other policy");
    let second = respond(&layer, &[Step::Data]).await;
    assert_eq!((second.status(), setup.held().await), (http::StatusCode::OK, 2));
    drop((first, second));
    assert_eq!(setup.held().await, 0);
}

#[tokio::test]
async fn rates_and_permits_are_charged_together_or_not() {
    let setup = Setup::new(Mode::Ready);
    let hourly = Policy::fixed_window("hourly", Quota::per_hour(LIMIT + 2));
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), hourly.clone().by(Global));
    let layer = layer.and(EXPORTS);
    let mut responses = Vec::new();
    for _ in 0..LIMIT {
        responses.push(respond(&layer, &[]).await);
    }
    assert_eq!(respond(&layer, &[]).await.status(), 429);
    let used = || async {
        let peek = setup.store.check(Checks::one(hourly.clone(), global(), 0)).await.unwrap();
        peek.decision().limit() - peek.decision().remaining()
    };
    assert_eq!(used().await, LIMIT, "what is rejected for the permits is not charged");
    responses.clear();
    for _ in 0..2 {
        assert_eq!(respond(&layer, &[]).await.status(), 200);
    }
    assert_eq!(respond(&layer, &[]).await.status(), 429);
    assert_eq!(
        (used().await, setup.held().await),
        (LIMIT + 2, 0),
        "what is rejected by the rate holds nothing"
    );
}

#[tokio::test]
async fn a_cost_is_a_number_of_permits() {
    let setup = Setup::new(Mode::Ready);
    let layer = setup.layer_of(EXPORTS.by(Global).cost(2));
    let both = (respond(&layer, &[]).await, respond(&layer, &[]).await);
    assert_eq!(setup.held().await, 4);
    assert_eq!(respond(&layer, &[]).await.status(), 429);
    drop(both);
    assert_eq!(setup.held().await, 0);
    let never = respond(&setup.layer_of(EXPORTS.by(Global).cost(LIMIT + 1)), &[]).await;
    assert_eq!(never.status(), 400);
}

#[tokio::test]
async fn a_request_without_a_response_releases_its_permit() {
    for mode in [Mode::Ready, Mode::Later] {
        let setup = Setup::new(mode);
        let waits = setup
            .layer()
            .layer(service_fn(|_: Request<String>| pending::<Result<Response<String>, Infallible>>()));
        let mut response = Box::pin(waits.oneshot(request()));
        poll_often(response.as_mut());
        assert_eq!(setup.held().await, 1);
        drop(response);
        assert_eq!(setup.held().await, 0, "the client has disconnected, {mode:?}");

        let fails =
            setup.layer().layer(service_fn(async |_: Request<String>| Err::<Response<String>, _>("broken")));
        assert_eq!(fails.oneshot(request()).await.unwrap_err(), "broken");
        assert_eq!(setup.held().await, 0, "the service has failed, {mode:?}");
        assert_eq!(setup.seen(), ["released"; 2]);
    }
}

#[test]
fn a_panic_of_the_service_releases_the_permit() {
    let setup = Setup::new(Mode::Ready);
    for at_once in [true, false] {
        let mut service = setup.layer().layer(service_fn(move |_: Request<String>| {
            if at_once {
                std::panic::resume_unwind(Box::new("a bug in a service"));
            }
            async {
                tokio::task::yield_now().await;
                if true {
                    std::panic::resume_unwind(Box::new("a bug in a handler"));
                }
                Ok::<_, Infallible>(Response::new(String::new()))
            }
        }));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            crate::support::block_on(async { service.ready().await.unwrap().call(request()).await })
        }));
        assert!(panicked.is_err());
        assert_eq!(crate::support::block_on(setup.held()), 0);
    }
    assert_eq!(setup.seen(), ["released"; 2]);
}

#[tokio::test]
async fn a_request_that_leaves_before_the_answer_holds_nothing() {
    let setup = Setup::new(Mode::Later);
    let service = setup
        .layer()
        .layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(String::new()))));
    let mut response = Box::pin(service.oneshot(request()));
    assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(setup.held_now().await, 1, "the store has decided");
    drop(response);
    while setup.held_now().await > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((setup.held().await, setup.seen()), (0, vec!["released"]));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_holds_its_permit() {
    let setup = Setup::new(Mode::Ready);
    let queue = Policy::leaky_bucket("queue", Quota::per_minute(1).burst(9));
    let layer = setup.layer().and(queue);
    drop(respond(&layer, &[Step::End]).await);
    let mut waiting = Box::pin(respond(&layer, &[]));
    poll_often(waiting.as_mut());
    assert_eq!(setup.held().await, 1);
    drop(waiting);
    assert_eq!(setup.held().await, 0);
}

/// Finds a tenant after a turn of the runtime, or never.
fn looked_up(is_found: bool) -> impl portcullis_tower::AsyncKeyExtractor {
    move |_: &http::request::Parts| async move {
        tokio::task::yield_now().await;
        if !is_found {
            pending::<()>().await;
        }
        Ok(Lookup::found("tenant", "acme"))
    }
}

#[tokio::test]
async fn a_later_rejection_releases_the_permit() {
    for mode in [Mode::Ready, Mode::Later] {
        let setup = Setup::new(mode);
        let tenants = Policy::fixed_window("tenants", Quota::per_hour(1));
        let layer = setup.layer().and(tenants.by_async(looked_up(true)));
        drop(respond(&layer, &[]).await);
        assert_eq!(respond(&layer, &[]).await.status(), 429, "by the second decision");
        assert_eq!((setup.held().await, setup.seen()), (0, vec!["released"; 2]), "{mode:?}");

        let others = Policy::fixed_window("others", Quota::per_hour(1));
        let slow = setup.layer().and(others.by_async(looked_up(false)));
        let mut looking = Box::pin(respond(&slow, &[]));
        poll_often(looking.as_mut());
        assert_eq!(setup.held().await, 1);
        drop(looking);
        assert_eq!(setup.held().await, 0, "{mode:?}");
        let impatient = slow.lookup_deadline(Duration::from_millis(1));
        assert_eq!(respond(&impatient, &[]).await.status(), 503);
        assert_eq!(setup.held().await, 0);
    }
}

#[tokio::test]
async fn a_shadow_policy_holds_permits_and_never_rejects() {
    for mode in [Mode::Ready, Mode::Later] {
        let setup = Setup::new(mode);
        let layer = setup.layer_of(EXPORTS.by(Global).shadow());
        let mut responses = Vec::new();
        for _ in 0..LIMIT + 2 {
            responses.push(respond(&layer, &[]).await);
            assert_eq!(responses.last().unwrap().status(), 200);
        }
        assert_eq!((setup.held().await, setup.seen()), (LIMIT, vec!["shadow"; 2]));
        responses.clear();
        assert_eq!(setup.held().await, 0, "{mode:?}");

        let mut leaves = Box::pin(respond(&layer, &[]));
        if mode == Mode::Later {
            assert!(leaves.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        drop(leaves);
        while setup.held_now().await > 0 {
            tokio::task::yield_now().await;
        }
    }
}
