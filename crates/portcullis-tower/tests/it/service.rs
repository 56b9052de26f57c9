//! The contract of `tower::Service`.

use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use portcullis_core::{FailureMode, Policy, Quota};
use portcullis_tower::{Global, PolicyExt as _, RateLimit, RateLimitLayer, ResponseFuture};
use tower::limit::ConcurrencyLimit;
use tower::{Layer as _, Service as _, ServiceExt as _};

use crate::probe::{Probe, probed, request, send};
use crate::support::{Mode, TestStore, registry_of};

fn limit(store: &Arc<TestStore>, quota: Quota) -> RateLimitLayer {
    RateLimitLayer::new(
        registry_of(Arc::clone(store)),
        Policy::gcra("all", quota).on_store_failure(FailureMode::Open).by(Global),
    )
}

fn plenty() -> Quota {
    Quota::per_second(1_000).burst(1_000)
}

#[tokio::test]
async fn the_instance_that_was_polled_ready_is_called() {
    let store = Arc::<TestStore>::default();
    for mode in [Mode::Ready, Mode::Later, Mode::Down, Mode::DownLater] {
        store.set(mode);
        let probe = Probe::default();
        let mut service = limit(&store, plenty()).layer(ConcurrencyLimit::new(probe.clone(), 1));
        for _ in 0..3 {
            let response = service.ready().await.unwrap().call(request(&[])).await.unwrap();
            assert_eq!(response.status(), 200, "{mode:?}");
        }
        assert_eq!(probe.calls(), 3, "{mode:?}");
    }
}

#[tokio::test]
async fn the_inner_service_is_not_called_before_the_decision() {
    let store = Arc::<TestStore>::default();
    store.set(Mode::Later);
    let (mut service, probe) = probed(&limit(&store, plenty()));
    let mut future = Box::pin(service.ready().await.unwrap().call(request(&[])));
    assert_eq!(probe.calls(), 0);
    assert!(poll_once(future.as_mut()).is_none());
    assert_eq!(probe.calls(), 0);
    assert_eq!(future.await.unwrap().status(), 200);
    assert_eq!(probe.calls(), 1);
}

#[tokio::test]
async fn a_dropped_future_gives_its_permit_back() {
    let store = Arc::<TestStore>::default();
    store.set(Mode::Never);
    let probe = Probe::default();
    let mut service = limit(&store, plenty()).layer(ConcurrencyLimit::new(probe.clone(), 1));
    for _ in 0..5 {
        let mut future = Box::pin(service.ready().await.unwrap().call(request(&[])));
        assert!(poll_once(future.as_mut()).is_none());
    }
    assert_eq!(probe.calls(), 0);
    store.set(Mode::Ready);
    let response = tokio::time::timeout(Duration::from_secs(5), service.ready()).await.unwrap().unwrap();
    assert_eq!(response.call(request(&[])).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_denial_never_reaches_the_inner_service() {
    for mode in [Mode::Ready, Mode::Later] {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let (service, probe) = probed(&limit(&store, Quota::per_minute(1)));
        let statuses = [send(&service, request(&[])).await.status, send(&service, request(&[])).await.status];
        assert_eq!((statuses, probe.calls()), ([200, 429], 1), "{mode:?}");
    }
}

#[tokio::test]
async fn clones_and_services_of_one_layer_share_the_budget() {
    let layer = limit(&Arc::default(), Quota::per_minute(1).burst(3));
    let (left, _) = probed(&layer);
    let (right, _) = probed(&layer.clone());
    for (service, status) in [(&left, 200), (&right, 200), (&left.clone(), 200), (&right, 429), (&left, 429)]
    {
        assert_eq!(send(service, request(&[])).await.status, status);
    }
}

#[tokio::test]
async fn errors_of_the_inner_service_are_unchanged() {
    #[derive(Debug, PartialEq)]
    struct Broken(u8);

    let layer = limit(&Arc::default(), plenty());
    let inner = tower::service_fn(|_: Request<String>| async { Err::<Response<Full<Bytes>>, _>(Broken(7)) });
    assert_eq!(layer.layer(inner).oneshot(request(&[])).await.unwrap_err(), Broken(7));
}

#[tokio::test]
async fn a_request_body_need_not_be_sync() {
    fn send<F: Future + Send>(future: F) -> F {
        future
    }
    let inner = tower::service_fn(|request: Request<NotSync>| async move {
        Ok::<_, Infallible>(Response::new(request.into_body().0.get().to_string()))
    });
    let request = Request::new(NotSync(Cell::new(7)));
    let response = send(limit(&Arc::default(), plenty()).layer(inner).oneshot(request)).await;
    assert_eq!(response.unwrap().into_body().collect().await.unwrap().to_bytes(), "7");
}

struct NotSync(Cell<u8>);

impl Body for NotSync {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }
}

#[test]
fn layers_and_services_are_send_sync_and_small() {
    fn shared<T: Clone + Send + Sync + 'static>() {}

    shared::<RateLimitLayer>();
    shared::<RateLimit<Probe>>();
    assert_eq!(size_of::<RateLimitLayer>(), size_of::<usize>());
    let future = size_of::<ResponseFuture<Probe, String>>();
    assert!(future <= 256, "the future has {future} bytes");
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
