//! Events of charges that change after a request was decided, and of requests that leave or cannot wait.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll, Waker};

use http::Response;
use portcullis_tower::{Charge, PolicyExt as _};
use tower::{Layer as _, Service, ServiceExt as _, service_fn};

use super::*;

#[tokio::test]
async fn changes_of_a_charge_emit_events() {
    for mode in [Mode::Ready, Mode::Later] {
        let observed = Observed::new(mode);
        let layer = observed.layer(policy("a", 10), Global).and(policy("b", 20));
        let service = layer.layer(service_fn(async |request: Request<String>| {
            let charge = request.extensions().get::<Charge>().unwrap();
            drop(charge.charge_more(2).await.unwrap());
            drop(charge.charge_more(100).await.unwrap());
            charge.for_policy("a").unwrap().settle(5).await.unwrap();
            charge.for_policy("b").unwrap().settle(1).await.unwrap();
            assert!(charge.refund().await.is_err());
            Ok::<_, Infallible>(Response::new(()))
        }));
        service.oneshot(request(&[])).await.unwrap();
        let expected = [
            "admitted a:9 b:19",
            "charged 2 a:7 b:17",
            "denied 100 a:7! b:17!",
            "charged 2 a:5",
            "refunded 2 b:19",
        ];
        assert_eq!(observed.events.take(), expected, "{mode:?}");
    }
}

#[tokio::test]
async fn a_call_that_fails_for_a_handler_emits_no_event() {
    let observed = Observed::new(Mode::Ready);
    let store = Arc::clone(&observed.store);
    let layer = observed.layer(policy("a", 10), Global);
    let service = layer.layer(service_fn(async |request: Request<String>| {
        store.set(Mode::Down);
        let charge = request.extensions().get::<Charge>().unwrap();
        assert!(charge.charge_more(2).await.is_err() && charge.refund().await.is_err());
        Ok::<_, Infallible>(Response::new(()))
    }));
    service.oneshot(request(&[])).await.unwrap();
    assert_eq!(observed.events.take(), ["admitted a:9"]);
}

#[tokio::test]
async fn a_request_charged_twice_emits_an_event_each_time() {
    let observed = Observed::new(Mode::Ready);
    let layer = || observed.layer(policy("a", 10), Global);
    let service = (layer(), layer())
        .layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(()))));
    for [outer, inner] in [["admitted a:9", "admitted a:8"], ["admitted a:7", "admitted a:6"]] {
        service.clone().oneshot(request(&[])).await.unwrap();
        assert_eq!(observed.events.take(), [outer, "charged twice a", inner]);
    }
}

#[tokio::test]
async fn a_request_that_leaves_is_refunded_without_a_verdict() {
    for mode in [Mode::Ready, Mode::Later] {
        let observed = Observed::new(mode);
        let layer = observed.layer(policy("a", 10), Global).and(policy("b", 10).by_async(tenants()));
        let (mut service, _) = probed(&layer);
        let left = service.ready().await.unwrap().call(request(&[("x-api-key", "slow")]));
        assert!(tokio::time::timeout(Duration::from_millis(1), left).await.is_err());
        for _ in 0..1_000 {
            if !observed.events.0.lock().unwrap().is_empty() {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(observed.events.take(), ["refunded 1 a:10"], "{mode:?}");
    }
}

#[test]
fn a_dropped_refund_emits_an_event() {
    let observed = Observed::new(Mode::Ready);
    let layer = observed.layer(policy("a", 10), Global).and(policy("b", 10).by_async(tenants()));
    let (mut service, _) = probed(&layer);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let entered = runtime.enter();
    assert!(service.poll_ready(&mut context).is_ready());
    let mut left = Box::pin(service.call(request(&[("x-api-key", "slow")])));
    assert!(left.as_mut().poll(&mut context).is_pending());
    drop(entered);
    observed.store.set(Mode::Later);
    drop(left);
    assert_eq!(observed.events.take(), ["refund dropped"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_wait_emits_an_event() {
    let observed = Observed::new(Mode::Ready);
    observed.registry.max_waiting_requests(0);
    let expected = ["too many waiting", "rejected Overloaded"];
    let known = || request(&[("x-api-key", "known")]);
    assert_eq!(observed.after(&observed.looks_up(policy("a", 10)), known()).await, expected);

    observed.registry.max_waiting_requests(16);
    let layer = observed.looks_up(policy("a", 10)).ready_deadline(Duration::from_secs(1));
    let late = layer.layer(ReadyOnce(true)).oneshot(known()).await.unwrap();
    assert_eq!(late.status(), 503);
    assert_eq!(observed.events.take(), ["not ready", "rejected Overloaded", "refunded 1 a:10"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_late_is_refunded_in_shadow() {
    for mode in [Mode::Ready, Mode::Later] {
        let observed = Observed::new(mode);
        let layer = observed.looks_up(policy("a", 10)).ready_deadline(Duration::from_secs(1));
        let layer = layer.and(policy("tried", 10).by(Global).shadow());
        let known = request(&[("x-api-key", "known")]);
        let late = layer.layer(ReadyOnce(true)).oneshot(known).await.unwrap();
        assert_eq!(late.status(), 503);
        let refunds = ["refunded 1 a:10", "refunded 1 tried:10"];
        assert_eq!(observed.events.take(), [&["not ready", "rejected Overloaded"], &refunds[..]].concat());
    }
}

/// Ready, but its clones never get ready.
pub(crate) struct ReadyOnce(pub(crate) bool);

impl Clone for ReadyOnce {
    fn clone(&self) -> Self {
        Self(false)
    }
}

impl Service<Request<String>> for ReadyOnce {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.0 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        ready(Ok(Response::new(())))
    }
}
