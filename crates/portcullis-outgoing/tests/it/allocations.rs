//! A request that is sent at once allocates what its check does, and no more.

use std::future::{Ready, ready};
use std::pin::pin;

use portcullis_tower::CheckBuilder;
use tower::Service;

use super::*;

/// Answers at once, and drops the request uncounted.
#[derive(Clone)]
struct Inner;

impl Service<Request<NotClone>> for Inner {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<NotClone>) -> Self::Future {
        allocation_counter::opt_out(|| drop(request));
        ready(Ok(Response::new(())))
    }
}

fn count(measured: impl FnOnce()) -> u64 {
    allocation_counter::measure(measured).count_total
}

#[tokio::test(start_paused = true)]
async fn a_request_allocates_no_more_than_its_check() {
    let [registry] = processes();
    let policy = Policy::gcra("peer", Quota::per_second(10).burst(10)).allow_overrides();
    let mut client = OutgoingLayer::new(Arc::clone(&registry), policy.clone()).layer(Inner);
    let mut context = Context::from_waker(Waker::noop());
    let check = || CheckBuilder::new(&registry, &policy).by(|key| key.part("host", b"api.example.com"));
    // The first of each initializes what is allocated once.
    assert!(check().await.is_ok());
    assert!(client.call(get("https://api.example.com/v1")).await.is_ok());

    let mut request = Some(get("https://api.example.com/v1"));
    let sent = count(|| {
        let future = pin!(client.call(request.take().unwrap()));
        assert!(matches!(future.poll(&mut context), Poll::Ready(Ok(_))));
    });
    let checked = count(|| {
        let future = pin!(check().into_future());
        assert!(matches!(future.poll(&mut context), Poll::Ready(Ok(_))));
    });
    assert_eq!(sent, checked);
}
