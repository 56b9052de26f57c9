//! Reservations: what a response is charged when its body has ended.

mod ends;
mod usage;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use portcullis_core::{Key, Policy, PolicyName, Quota, Secret, store::Checks, store::Store as _};
use portcullis_tower::{
    Charge, Global, LayerError, Limit, OnAbort, PolicyExt as _, RateLimitLayer, Registry, Usage,
};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use crate::support::{Mode, TestStore, registry_of};

fn policy(name: &'static str) -> Policy {
    Policy::fixed_window(name, Quota::per_day(1_000))
}

fn limit(name: &'static str) -> Limit {
    policy(name).by(Global)
}

struct Setup {
    store: Arc<TestStore>,
    registry: Arc<Registry>,
}

impl Setup {
    fn new(mode: Mode) -> Self {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        Self { registry: registry_of(Arc::clone(&store)), store }
    }

    fn layer(&self, name: &'static str) -> RateLimitLayer {
        self.layer_of(limit(name))
    }

    fn layer_of(&self, limit: Limit) -> RateLimitLayer {
        RateLimitLayer::new(Arc::clone(&self.registry), limit)
    }

    /// What is charged under a policy once all settlements are made.
    async fn charged(&self, name: &'static str) -> u64 {
        let drained = self.registry.drain(Duration::from_secs(5)).await;
        assert_eq!(drained.left, 0);
        self.store.set(Mode::Ready);
        let peek = self.store.check(Checks::one(policy(name), global(), 0)).await.unwrap();
        1_000 - peek.decision().remaining()
    }

    fn settlements(&self) -> usize {
        self.store.settlements.load(Ordering::Relaxed)
    }
}

fn global() -> Key {
    use portcullis_tower::KeyExtractor as _;

    let mut hasher = Secret::published().hasher();
    let _ = Global.extract(&Request::new(()).into_parts().0, &mut hasher.writer()).unwrap();
    hasher.finish().unwrap()
}

/// A body that counts each number when it is polled for it, and fails where there is none.
struct Counting {
    usage: Option<Usage>,
    chunks: VecDeque<Option<u64>>,
}

impl Body for Counting {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let chunk = self.chunks.pop_front();
        if let (Some(usage), Some(Some(units))) = (&self.usage, chunk) {
            usage.add(units);
        }
        Poll::Ready(chunk.map(|units| units.map(|_| Frame::data(Bytes::from_static(b"x"))).ok_or("broken")))
    }
}

type Answer = Result<Response<Counting>, Infallible>;

/// Answers with a body of these chunks.
fn streaming(
    chunks: &'static [Option<u64>],
) -> impl Service<Request<String>, Response = Response<Counting>, Error = Infallible, Future: Send> + Clone {
    service_fn(move |mut request: Request<String>| async move {
        let usage = request.extensions_mut().remove::<Usage>();
        Answer::Ok(Response::new(Counting { usage, chunks: chunks.iter().copied().collect() }))
    })
}

fn request() -> Request<String> {
    Request::new(String::new())
}

#[tokio::test]
async fn a_response_is_charged_what_it_used() {
    for mode in [Mode::Ready, Mode::Later] {
        for (chunks, used, calls) in [
            (&[Some(10), Some(20)][..], 30, 1),
            (&[Some(100), Some(140)], 240, 1),
            (&[Some(60), Some(40)], 100, 0),
            (&[Some(0)], 0, 1),
            (&[], 100, 0),
        ] {
            let setup = Setup::new(mode);
            let service = setup.layer_of(limit("tokens").reserve(100)).layer(streaming(chunks));
            let response = service.oneshot(request()).await.unwrap();
            assert_eq!(response.headers()["x-ratelimit-remaining"], "900", "the figure at the reservation");
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), chunks.len());
            assert_eq!(setup.charged("tokens").await, used, "{mode:?} {chunks:?}");
            assert_eq!(setup.settlements(), calls, "one call, or none where nothing changes");
        }
    }
}

#[tokio::test]
async fn an_aborted_response_is_charged_by_choice() {
    for mode in [Mode::Ready, Mode::Later] {
        for (on_abort, counted, uncounted) in
            [(OnAbort::Used, 10, 100), (OnAbort::Nothing, 0, 0), (OnAbort::Reservation, 100, 100)]
        {
            for (chunks, expected) in [(&[Some(10), Some(20)][..], counted), (&[Some(10), None], counted)] {
                let setup = Setup::new(mode);
                let service =
                    setup.layer_of(limit("tokens").reserve_or(100, on_abort)).layer(streaming(chunks));
                let mut body = service.clone().oneshot(request()).await.unwrap().into_body();
                assert!(body.frame().await.is_some());
                if chunks[1].is_none() {
                    assert!(body.frame().await.unwrap().is_err());
                }
                drop(body);
                assert_eq!(setup.charged("tokens").await, expected, "{mode:?} {on_abort:?} {chunks:?}");
            }
            let setup = Setup::new(mode);
            let layer = setup.layer_of(limit("tokens").reserve_or(100, on_abort));
            let failing =
                layer.layer(service_fn(async |_: Request<String>| Err::<Response<Counting>, _>("no")));
            assert!(failing.oneshot(request()).await.is_err());
            assert_eq!(setup.charged("tokens").await, uncounted, "an error of the service, {on_abort:?}");

            let setup = Setup::new(mode);
            let layer = setup.layer_of(limit("tokens").reserve_or(100, on_abort));
            let hanging = layer.layer(service_fn(async |request: Request<String>| {
                request.extensions().get::<Usage>().unwrap().add(10);
                std::future::pending::<Answer>().await
            }));
            assert!(
                tokio::time::timeout(Duration::from_millis(1), hanging.oneshot(request())).await.is_err()
            );
            assert_eq!(setup.charged("tokens").await, counted, "a dropped future, {on_abort:?}");
        }
    }
}

#[tokio::test]
async fn a_handler_that_settles_itself_is_not_settled_again() {
    let setup = Setup::new(Mode::Ready);
    let layer = setup.layer_of(limit("tokens").reserve(100)).and(policy("calls"));
    let service = layer.layer(service_fn(async |request: Request<String>| {
        request.extensions().get::<Usage>().unwrap().add(500);
        let charge = request.extensions().get::<Charge>().unwrap();
        charge.for_policy("tokens").unwrap().settle(7).await.unwrap();
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    service.oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!((setup.charged("tokens").await, setup.charged("calls").await), (7, 1));
}

#[tokio::test]
async fn each_policy_is_settled_at_its_own_count() {
    let setup = Setup::new(Mode::Later);
    let layer = setup.layer("calls").and(Limit::new(policy("tokens")).reserve(100));
    let layer = layer.and(Limit::new(policy("bytes")).reserve_or(50, OnAbort::Nothing));
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let usage = request.extensions().get::<Usage>().unwrap();
        usage.for_policy("tokens").unwrap().add(3);
        usage.for_policy("bytes").unwrap().set(70);
        assert!(usage.for_policy("calls").is_none() && usage.outer().is_none());
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    service.clone().oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
    let charged = async |name| setup.charged(name).await;
    assert_eq!((charged("calls").await, charged("tokens").await, charged("bytes").await), (1, 3, 70));
    drop(service.oneshot(request()).await.unwrap());
    assert_eq!((charged("calls").await, charged("tokens").await, charged("bytes").await), (2, 6, 70));
}

#[tokio::test]
async fn nested_reservations_are_counted_apart() {
    let setup = Setup::new(Mode::Ready);
    let (outer, inner) =
        (setup.layer_of(limit("bytes").reserve(50)), setup.layer_of(limit("tokens").reserve(100)));
    let service = (outer, inner).layer(service_fn(async |request: Request<String>| {
        let usage = request.extensions().get::<Usage>().unwrap();
        usage.add(3);
        usage.outer().unwrap().add(5);
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    service.oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!((setup.charged("tokens").await, setup.charged("bytes").await), (3, 5));
}

#[tokio::test]
async fn an_estimate_that_does_not_fit_is_rejected() {
    let setup = Setup::new(Mode::Ready);
    let service = setup.layer_of(limit("tokens").reserve(600)).layer(streaming(&[Some(1)]));
    let first = service.clone().oneshot(request()).await.unwrap();
    assert_eq!(service.clone().oneshot(request()).await.unwrap().status(), 429);
    drop(first);
    assert_eq!(service.oneshot(request()).await.unwrap().status(), 429, "dropped without a count");
    let never = setup.layer_of(limit("bytes").reserve(1_001)).layer(streaming(&[]));
    assert_eq!(never.oneshot(request()).await.unwrap().status(), 400);
}

#[tokio::test]
async fn requests_without_a_reservation_have_no_counter() {
    let setup = Setup::new(Mode::Ready);
    for layer in [setup.layer("calls"), setup.layer_of(limit("shadow").reserve(100).shadow())] {
        let service = layer.layer(service_fn(async |request: Request<String>| {
            assert!(request.extensions().get::<Usage>().is_none());
            Ok::<_, Infallible>(Response::new(String::new()))
        }));
        service.oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
    }
    assert_eq!((setup.charged("calls").await, setup.charged("shadow").await), (1, 100));
    assert_eq!(setup.settlements(), 0);
}

#[tokio::test(start_paused = true)]
async fn only_the_last_slots_of_a_queue_are_refunded() {
    let setup = Setup::new(Mode::Ready);
    let queue = Policy::leaky_bucket("queue", Quota::per_second(1).burst(100));
    let layer = RateLimitLayer::new(Arc::clone(&setup.registry), queue.clone().by(Global).reserve(10));
    let service = layer.layer(streaming(&[Some(4)]));
    let first = service.clone().oneshot(request()).await.unwrap();
    let second = service.oneshot(request()).await.unwrap();
    let charged = async || {
        let peek = setup.store.check(Checks::one(queue.clone(), global(), 0)).await.unwrap();
        100 - peek.decision().remaining()
    };
    first.into_body().collect().await.unwrap();
    assert_eq!(charged().await, 20, "the slots of the second request follow");
    second.into_body().collect().await.unwrap();
    assert_eq!(charged().await, 14);
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn usage_is_an_extractor() {
    use axum::{Router, body::Body, routing::get};

    let setup = Setup::new(Mode::Ready);
    let app = Router::new()
        .route("/", get(async |usage: Usage| usage.add(5)))
        .route("/maybe", get(async |usage: Option<Usage>| usage.is_some().to_string()))
        .layer(setup.layer_of(limit("tokens").reserve(100)))
        .route("/without", get(async |_: Usage| ()))
        .route("/without/maybe", get(async |usage: Option<Usage>| usage.is_some().to_string()));
    for (path, status, text) in [
        ("/", 200, ""),
        ("/maybe", 200, "true"),
        ("/without", 500, "the server cannot count what this request uses\n"),
        ("/without/maybe", 200, "false"),
    ] {
        let response = app.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), text, "{path}");
    }
    assert_eq!(setup.charged("tokens").await, 5 + 100);
}
