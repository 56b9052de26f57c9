//! A request through rules allocates what one through a layer of the same policies does.

use std::future::{Ready, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use portcullis_core::Policy;
use portcullis_tower::{ClientIp, PolicyExt as _, RateLimitLayer};
use tower::Service;
use tower::util::ServiceFn;

use super::*;

/// A service that drops the request uncounted.
type Inner = ServiceFn<fn(Request<String>) -> Ready<Result<Response<()>, Infallible>>>;

/// An empty response whose headers have capacity already.
fn preallocated(request: Request<String>) -> Ready<Result<Response<()>, Infallible>> {
    let mut response = Response::new(());
    allocation_counter::opt_out(|| {
        drop(request);
        response.headers_mut().reserve(16);
    });
    ready(Ok(response))
}

/// The allocations of the second request, from the call to the response. The first one allocates what is kept.
fn allocations<L, B>(layer: &L, uri: &str, status: u16) -> u64
where
    L: tower::Layer<Inner>,
    L::Service: Service<Request<String>, Response = Response<B>, Error = Infallible>,
{
    let mut service = layer.layer(service_fn(preallocated));
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(service.call(request(uri))).poll(&mut context).is_ready());
    let mut request = Some(request(uri));
    let mut response = None;
    let info = allocation_counter::measure(|| {
        let future = pin!(service.call(request.take().unwrap()));
        response = Some(future.poll(&mut context));
    });
    let Some(Poll::Ready(Ok(response))) = response else { panic!("the answer is there at once") };
    assert_eq!(response.status(), status);
    info.count_total
}

#[test]
fn a_request_allocates_what_one_through_a_layer_does() {
    for (limit, status) in [(9, 200), (1, 429)] {
        let quota = Quota::per_day(limit);
        let of_code =
            RateLimitLayer::new(registry(), Policy::fixed_window("search", quota).by(ClientIp::peer()));
        let expected = allocations(&of_code, "/search", status);
        assert!(expected > 0);
        let path = "match = { path = \"/search\" }";
        let text = window("search", &format!("{limit}/d"), path)
            + &window("other", "1/d", "match = { path = \"/other\" }");
        let live = live(&text);
        assert_eq!(allocations(&live.layer(), "/search", status), expected, "{status}");
        assert_eq!(allocations(&live.layer_of("search").unwrap(), "/", status), expected, "{status}");
    }
}

#[test]
fn a_request_that_no_rule_matches_allocates_nothing() {
    let live = live(&window(
        "search",
        "1/d",
        "match = { path = \"/search\", methods = [\"GET\"], hosts = [\"a.example\"] }",
    ));
    for uri in ["/", "/search"] {
        assert_eq!(allocations(&live.layer(), uri, 200), 0, "{uri}");
    }
}

/// Escapes, empty segments and parameters give a path several readings, which are parts of a text on the stack.
#[test]
fn no_request_allocates_when_matching() {
    let text = window("search", "1/d", "match = { path = \"/search\" }")
        + &window("files", "1/d", "match = { path = \"/files/{id}/{*rest}\", methods = [\"POST\"] }")
        + &window("other", "1/d", "match = { hosts = [\"*.example.com\"] }");
    let live = live(&text);
    for uri in [
        "/",
        "/caf%C3%A9//x",
        "/%2e%2e/search/x",
        "//search//x",
        "/a;v=1/./b/../%5cc/",
        "/search/caf%C3%A9?q=%20",
        "/files/1/2",
        "/%66iles//2%2F3",
    ] {
        assert_eq!(allocations(&live.layer(), uri, 200), 0, "{uri}");
    }
    // A path with many segments does, within a bound that does not grow with it.
    for segments in [100, 300, 1_000] {
        let uri = "/%61/..;x//b".repeat(segments / 4);
        assert!(
            allocations(&live.layer(), &uri, 200) <= 40,
            "{segments} {}",
            allocations(&live.layer(), &uri, 200)
        );
    }
}

#[test]
fn another_spelling_of_a_path_allocates_no_more() {
    let live = live(&window("search", "99/d", "match = { path = \"/search\" }"));
    let expected = allocations(&live.layer(), "/search", 200);
    for uri in ["/%73earch", "//search", "/search/", "/./search;v=1"] {
        assert_eq!(allocations(&live.layer(), uri, 200), expected, "{uri}");
    }
}

#[test]
fn rules_that_were_replaced_allocate_nothing_more() {
    let live = live(&window("search", "5/d", ""));
    let before = allocations(&live.layer(), "/", 200);
    live.swap(rules(&window("search", "9/d", ""))).unwrap();
    assert_eq!(allocations(&live.layer(), "/", 200), before);
}
