//! What a request costs that is not shed, and what a layer costs that has no requests.

use std::convert::Infallible;
use std::future::Ready;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use http::{Request, Response};
use portcullis_shed::{Class, Shed, ShedBody, ShedFuture, ShedLayer};
use portcullis_tower::matching::RequestPath;
use tower::{Layer as _, Service};

use crate::support::registry;

/// Answers with an empty response, and drops the request uncounted.
#[derive(Clone)]
struct Empty;

impl Service<Request<String>> for Empty {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        allocation_counter::opt_out(|| drop(request));
        std::future::ready(Ok(Response::new(())))
    }
}

fn call(service: &mut Shed<Empty>, request: Request<String>, context: &mut Context<'_>) -> u16 {
    assert!(service.poll_ready(context).is_ready());
    let Poll::Ready(Ok(response)) = pin!(service.call(request)).poll(context) else {
        panic!("the answer is there at once")
    };
    response.status().as_u16()
}

#[tokio::test(start_paused = true)]
async fn an_admitted_request_allocates_nothing() {
    let layer = ShedLayer::new(&registry(), 10..=100)
        .class(Class::Critical, RequestPath::prefix("/pay"))
        .trust_class_header(http::HeaderName::from_static("x-class"));
    let mut service = layer.layer(Empty);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..250 {
        tokio::time::advance(Duration::from_millis(5)).await;
        let mut request = Some(Request::new(String::new()));
        let info = allocation_counter::measure(|| {
            assert_eq!(call(&mut service, request.take().unwrap(), &mut context), 200);
        });
        assert_eq!(info.count_total, 0, "also where a window ends");
    }
}

#[test]
fn a_permit_adds_four_words_to_the_future_and_the_body() {
    let word = size_of::<usize>();
    // The text of a rejection, which is four words and a tag, and the permit.
    assert_eq!(size_of::<ShedBody<()>>(), 5 * word + 4 * word);
    // The response to a rejected request, which is larger than the inner future, and the permit.
    let inner = size_of::<Response<http_body_util::Full<bytes::Bytes>>>();
    assert_eq!(size_of::<ShedFuture<Empty, String>>(), inner + 4 * word);
    assert_eq!(size_of::<Shed<()>>(), 2 * word);
}

/// Counts how often it wakes its task.
#[derive(Default)]
struct Wakeups(AtomicUsize);

impl Wake for Wakeups {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_without_requests() {
    let wakeups = Arc::new(Wakeups::default());
    let waker = Waker::from(Arc::clone(&wakeups));
    let layer = ShedLayer::new(&registry(), 1..=100);
    let mut service = layer.layer(Empty);
    for _ in 0..100 {
        call(&mut service, Request::new(String::new()), &mut Context::from_waker(&waker));
        tokio::time::advance(Duration::from_millis(5)).await;
    }
    let handle = tokio::runtime::Handle::current();
    let allocated = allocation_counter::measure(|| {
        assert_eq!(handle.metrics().num_alive_tasks(), 0, "the layer has no task");
    });
    tokio::time::advance(Duration::from_hours(24)).await;
    assert_eq!((allocated.count_total, wakeups.0.load(Ordering::Relaxed)), (0, 0));
    assert_eq!(handle.metrics().num_alive_tasks(), 0);
}
