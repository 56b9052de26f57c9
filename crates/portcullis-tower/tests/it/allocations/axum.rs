//! Allocations of the layer in and around an Axum router.

use std::convert::Infallible;
use std::task::{Context, Poll, Waker};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::{Route, get};
use http::Request;
use portcullis_core::{Policy, Quota};
use portcullis_tower::{Header, PolicyExt as _, RateLimitHeaders, RateLimitLayer};
use tower::{Layer as _, Service, ServiceExt as _, layer::layer_fn};

use super::NonAllocatingStore;

/// Calls the inner service, as any layer does.
#[derive(Clone)]
struct Passing(Route);

impl Service<Request<Body>> for Passing {
    type Response = <Route as Service<Request<Body>>>::Response;
    type Error = <Route as Service<Request<Body>>>::Error;
    type Future = <Route as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.call(request)
    }
}

fn app() -> Router {
    Router::new().route("/", get(|| async { "found" }))
}

fn layer(admitted: bool, headers: RateLimitHeaders) -> RateLimitLayer {
    let second = Policy::gcra("second", Quota::per_second(10).burst(20));
    let limit = second.by(Header::named("x-user"));
    RateLimitLayer::new(NonAllocatingStore::registry(admitted), limit).headers(headers)
}

/// The allocations of a request to a router, from the call to the head of its response.
fn allocations(app: Router, status: u16) -> u64 {
    allocations_of(&app.with_state(()), status)
}

/// The allocations of a request to a service around a router.
fn allocations_of<S>(app: &S, status: u16) -> u64
where
    S: Service<Request<Body>, Response = Response, Error = Infallible> + Clone,
{
    let send = || {
        let request = Request::get("/").header("x-user", "ada").body(Body::empty()).unwrap();
        let mut kept = (Some(request), None);
        let info = allocation_counter::measure(|| {
            let answer = std::pin::pin!(app.clone().oneshot(kept.0.take().unwrap()));
            kept.1 = Some(answer.poll(&mut Context::from_waker(Waker::noop())));
        });
        let Some(Poll::Ready(Ok(response))) = kept.1 else { panic!("the answer is there at once") };
        assert_eq!(response.status(), status);
        info.count_total
    };
    // The first requests initialize what is allocated once, and are marked for layers inside.
    (0..16).for_each(|_| _ = send());
    send()
}

#[test]
fn a_layer_for_axum_allocates_for_the_charge_only() {
    use RateLimitHeaders as Headers;

    let passing = allocations(app().layer(layer_fn(Passing)), 200);
    let beyond = |layer: RateLimitLayer| allocations(app().layer(layer.for_axum()), 200) - passing;
    assert_eq!(beyond(layer(true, Headers::NONE)), 0);
    assert_eq!(beyond(layer(true, Headers::X_RATELIMIT)), 0);
    // The charge in the extensions, whose table is full of the three that the router inserts.
    assert_eq!(beyond(layer(true, Headers::NONE).with_charge()), 2);
    assert_eq!(beyond(layer(true, Headers::X_RATELIMIT).with_charge()), 2);

    // The router boxes a body of another type.
    let boxing = |layer: RateLimitLayer| allocations(app().layer(layer), 200) - passing;
    assert_eq!(boxing(layer(true, Headers::NONE)), 1);
    assert_eq!(boxing(layer(true, Headers::NONE).with_charge()), 2 + 1);
}

#[test]
fn a_layer_around_a_router_allocates_for_the_charge_only() {
    use RateLimitHeaders as Headers;

    let bare = allocations(app(), 200);
    let beyond =
        |layer: RateLimitLayer| allocations_of(&layer.for_axum().layer(app().with_state(())), 200) - bare;
    assert_eq!(beyond(layer(true, Headers::NONE)), 0);
    assert_eq!(beyond(layer(true, Headers::X_RATELIMIT)), 0);
    // The charge in the extensions, whose table the router then enlarges for its own.
    assert_eq!(beyond(layer(true, Headers::NONE).with_charge()), 2);
    assert_eq!(beyond(layer(true, Headers::X_RATELIMIT).with_charge()), 2);
}

#[test]
fn a_rejection_of_a_layer_for_axum_is_boxed_once() {
    let rejecting = || layer(false, RateLimitHeaders::X_RATELIMIT);
    assert_eq!(
        allocations(app().layer(rejecting().for_axum()), 429),
        allocations(app().layer(rejecting()), 429)
    );
}
