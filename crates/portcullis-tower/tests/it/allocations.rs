//! Allocations of the layer where the store answers at once.

#[cfg(feature = "axum")]
mod axum;

use std::convert::Infallible;
use std::future::Ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::{Request, Response};
use portcullis_core::store::{CheckResult, Checks, Outcome, ReadyCheck, Store, StoreFuture};
use portcullis_core::{
    Decision, Key, Policy, PolicyName, Quota, Receipt, Secret, Settlement, StoreError, Timestamp,
};
use portcullis_tower::{
    Event, Header, Limit, Mode, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Registry,
};
use tower::{Layer as _, Service};

/// A store that answers without heap allocations.
struct NonAllocatingStore {
    admitted: bool,
    now: Timestamp,
}

impl NonAllocatingStore {
    fn registry(admitted: bool) -> Arc<Registry> {
        Self::registry_at(Timestamp::EPOCH, admitted)
    }

    fn registry_at(now: Timestamp, admitted: bool) -> Arc<Registry> {
        Arc::new(Registry::new(Arc::new(Self { admitted, now }), Secret::published()))
    }
}

impl Store for NonAllocatingStore {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        let now = self.now;
        let checked = checks.clone();
        let results = checked
            .iter()
            .map(|check| CheckResult::of(check.policy.strategy(), None, now, check.cost, self.admitted));
        StoreFuture::ready(Ok(Outcome::new(checks, now, results).unwrap()))
    }

    fn check_now(&self, policy: &Policy, _: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        let CheckResult { snapshot, position, .. } =
            CheckResult::of(policy.strategy(), None, self.now, cost, self.admitted);
        Some(Ok(ReadyCheck { decision: Decision::new(policy, self.now, snapshot), position }))
    }

    fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
        unimplemented!("no layer refunds")
    }

    fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
        unimplemented!("no layer settles")
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        unimplemented!("no layer resets")
    }
}

/// Answers with an empty response whose headers have capacity already, and drops the request uncounted.
#[derive(Clone)]
struct PreallocatedService;

impl Service<Request<String>> for PreallocatedService {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let mut response = Response::new(());
        allocation_counter::opt_out(|| {
            drop(request);
            response.headers_mut().reserve(16);
        });
        std::future::ready(Ok(response))
    }
}

fn layer(admitted: bool) -> RateLimitLayer {
    layer_in(NonAllocatingStore::registry(admitted))
}

fn layer_in(registry: Arc<Registry>) -> RateLimitLayer {
    let second = Policy::gcra("second", Quota::per_second(10).burst(20));
    let day = Policy::fixed_window("day", Quota::per_day(1_000));
    RateLimitLayer::new(registry, second.by(Header::named("x-user"))).and(Limit::new(day).cost(2))
}

/// The allocations from the call to the response.
fn allocations(layer: &RateLimitLayer, mut request: Request<String>, status: u16) -> u64 {
    let mut service = layer.layer(PreallocatedService);
    let mut context = Context::from_waker(std::task::Waker::noop());
    // The first requests initialize what is allocated once, and are marked.
    request.headers_mut().insert("x-user", "ada".parse().unwrap());
    for _ in 0..16 {
        assert!(std::pin::pin!(service.call(request.clone())).poll(&mut context).is_ready());
        assert!(service.poll_ready(&mut context).is_ready());
    }
    let mut request = Some(request);
    let mut response = None;
    let info = allocation_counter::measure(|| {
        let future = std::pin::pin!(service.call(request.take().unwrap()));
        response = Some(future.poll(&mut context));
    });
    let Some(Poll::Ready(Ok(response))) = response else { panic!("the answer is there at once") };
    assert_eq!(response.status().as_u16(), status);
    info.count_total
}

#[test]
fn an_admitted_request_has_few_allocations() {
    // What the headers show is in memory that the thread keeps, and their values are small numbers, which are static.
    assert_eq!(allocations(&layer(true), Request::new(String::new()), 200), 0);

    // The request's extensions: their box, their table, and the charge in it. What the charge shares with its clones is in the
    // memory of the first request.
    let with_charge = layer(true).with_charge();
    assert_eq!(allocations(&with_charge, Request::new(String::new()), 200), 3);

    // If the extensions were used before, as by a server for the address, their box and table exist.
    let mut request = Request::new(String::new());
    request.extensions_mut().insert("something");
    assert_eq!(allocations(&with_charge, request, 200), 1);

    // The same with one policy, whose check has no outcome.
    let second = Policy::gcra("second", Quota::per_second(10).burst(20));
    let one = RateLimitLayer::new(NonAllocatingStore::registry(true), second.by(Header::named("x-user")));
    assert_eq!(allocations(&one, Request::new(String::new()), 200), 0);
    assert_eq!(allocations(&one.with_charge(), Request::new(String::new()), 200), 3);
}

#[test]
fn a_quota_of_the_caller_adds_no_allocation() {
    let second = Policy::gcra("second", Quota::per_second(10).burst(20))
        .caller_quotas(Quota::per_second(1), Quota::per_second(50).burst(50));
    let layer = RateLimitLayer::new(
        NonAllocatingStore::registry(true),
        second
            .by(Header::named("x-user"))
            .quota(|parts| parts.headers.get("x-user").map(|_| Quota::per_second(30).burst(30))),
    );
    for layer in [layer.clone(), layer.headers(RateLimitHeaders::NONE)] {
        assert_eq!(allocations(&layer, Request::new(String::new()), 200), 0);
    }
}

#[test]
fn an_observer_adds_no_allocation() {
    for (admitted, status, expected) in [(true, 200, 0), (false, 429, 2 + 1)] {
        let registry = NonAllocatingStore::registry(admitted);
        let seen = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&seen);
        registry.observe(Arc::new(move |_: &Event<'_>| {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        let layer = layer_in(registry);
        assert_eq!(allocations(&layer, Request::new(String::new()), status), expected);
        assert_eq!(seen.load(Ordering::Relaxed), 17);
    }
}

#[test]
fn a_policy_that_has_changed_adds_no_allocation() {
    let registry = NonAllocatingStore::registry(true);
    let layer = layer_in(Arc::clone(&registry));
    let service = layer.layer(PreallocatedService);
    registry.set_policy(Policy::gcra("second", Quota::per_second(10).burst(30))).unwrap();
    for mode in [Mode::Enforce, Mode::Off] {
        registry.set_mode(&PolicyName::literal("day"), mode).unwrap();
        // The first request of the layer takes over the change.
        assert_eq!(allocations(&layer, Request::new(String::new()), 200), 0);
    }
    drop(service);
}

#[test]
fn each_dialect_allocates_at_most_once() {
    use RateLimitHeaders as Headers;

    let with = |headers| allocations(&layer(true).headers(headers), Request::new(String::new()), 200);
    assert_eq!(with(Headers::NONE), 0);
    assert_eq!(with(Headers::X_RATELIMIT), 0);
    assert_eq!(with(Headers::IETF_DRAFT_6), 0);
    // `RateLimit-Policy` is rendered ahead.
    assert_eq!(with(Headers::IETF), 1);
    assert_eq!(with(Headers::X_RATELIMIT | Headers::IETF_DRAFT_6 | Headers::IETF), 1);
}

#[test]
fn values_that_are_not_static_share_one_allocation() {
    use RateLimitHeaders as Headers;

    let day = Policy::fixed_window("day", Quota::per_day(1_000_000));
    let now = Timestamp::from_micros(1_700_000_000_000_000);
    let all = Headers::X_RATELIMIT.reset_as_unix_time() | Headers::IETF_DRAFT_6 | Headers::IETF;
    let with = |headers, admitted, status| {
        let registry = NonAllocatingStore::registry_at(now, admitted);
        let layer = RateLimitLayer::new(registry, day.clone().by(Header::named("x-user"))).headers(headers);
        allocations(&layer, Request::new(String::new()), status)
    };
    for headers in [Headers::X_RATELIMIT, Headers::X_RATELIMIT.reset_as_unix_time(), all] {
        assert_eq!(with(headers, true, 200) - with(Headers::NONE, true, 200), 1);
    }
    // A rejection without figures is marked in its extensions.
    assert_eq!(with(Headers::X_RATELIMIT, false, 429), with(Headers::NONE, false, 429) - 2 + 1);
}

#[test]
fn a_preflight_without_a_key_allocates_nothing() {
    let preflight = || {
        let mut request = Request::new(String::new());
        *request.method_mut() = http::Method::OPTIONS;
        request.headers_mut().insert("origin", "https://example.com".parse().unwrap());
        request.headers_mut().insert("access-control-request-method", "GET".parse().unwrap());
        request
    };
    let registry = NonAllocatingStore::registry(true);
    let policy = Policy::gcra("all", Quota::per_second(1));
    let layer_without_key = RateLimitLayer::new(registry, policy.by(Header::named("x-absent")));
    assert_eq!(allocations(&layer_without_key, preflight(), 200), 0);
    // With a key it is counted.
    assert_eq!(allocations(&layer(true), preflight(), 200), 0);
}

#[test]
fn an_exempt_request_allocates_nothing() {
    let exempt = |_: &http::request::Parts, _: &mut portcullis_tower::KeyWriter<'_>| {
        Ok(portcullis_tower::Identity::Exempt)
    };
    let registry = NonAllocatingStore::registry(true);
    let layer = RateLimitLayer::new(registry, Policy::gcra("all", Quota::per_second(1)).by(exempt));
    assert_eq!(allocations(&layer, Request::new(String::new()), 200), 0);
}

#[test]
fn lists_allocate_nothing() {
    use portcullis_tower::matching::{GrpcMethod, Network, RequestMatcher as _, RequestPath};
    use portcullis_tower::{ClientIp, Trust};

    let clients = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
    let listed = |layer: RateLimitLayer| {
        layer
            .deny(RequestPath::prefix("/admin").and(Network::of(&clients, ["192.0.2.0/24"]).not()))
            .deny(Network::of(&clients, ["198.51.100.0/24"]))
            .deny(GrpcMethod::service("a.Admin"))
            .only([http::Method::GET, http::Method::POST])
            .except(RequestPath::exact("/health"))
            .except(|parts: &http::request::Parts| parts.version == http::Version::HTTP_09)
    };
    let request = |path: &str| {
        let mut request = Request::get(path).body(String::new()).unwrap();
        request.extensions_mut().insert(std::net::SocketAddr::from(([10, 0, 0, 9], 1)));
        request.headers_mut().insert("x-forwarded-for", "6.6.6.6, 192.0.2.1".parse().unwrap());
        request
    };
    for path in ["/search", "/caf%C3%A9//x"] {
        let without = allocations(&layer(true), request(path), 200);
        assert_eq!(allocations(&listed(layer(true)), request(path), 200), without);
    }
    assert_eq!(allocations(&listed(layer(true)), request("/health"), 200), 0);
    // A line of the log allocates, and an event that waits for one, if another test has a subscriber at the time.
    let denying = listed(layer(true));
    (0..2).for_each(|_| _ = allocations(&denying, request("/a.Admin/Stop"), 403));
    // Its response, like one to a limited request, and its mark.
    assert_eq!(allocations(&denying, request("/a.Admin/Stop"), 403), 2 + 1 + 2);
}

#[test]
fn limits_that_are_off_allocate_for_the_charge_only() {
    let off = layer_in(Arc::new(Registry::off()));
    assert_eq!(allocations(&off, Request::new(String::new()), 200), 0);
    // The decisions, and the three of every charge.
    assert_eq!(allocations(&off.with_charge(), Request::new(String::new()), 200), 1 + 3);
}

#[test]
fn a_denied_request_allocates_its_response() {
    // The header map's index and entries, and the text. The header values are small numbers.
    assert_eq!(allocations(&layer(false), Request::new(String::new()), 429), 2 + 1);
}

#[test]
fn a_denial_has_room_for_the_line_of_a_server() {
    let mut service = layer(false).layer(PreallocatedService);
    let mut request = Request::new(String::new());
    request.headers_mut().insert("x-user", "ada".parse().unwrap());
    let future = std::pin::pin!(service.call(request));
    let Poll::Ready(Ok(mut response)) = future.poll(&mut Context::from_waker(std::task::Waker::noop()))
    else {
        panic!("the answer is there at once")
    };
    let length = http::HeaderValue::from_static("36");
    let info =
        allocation_counter::measure(|| drop(response.headers_mut().insert("content-length", length.clone())));
    assert_eq!((response.status().as_u16(), info.count_total), (429, 0));
}

#[test]
fn a_check_of_a_handler_has_few_allocations() {
    use portcullis_tower::{Charge, CheckBuilder};

    let registry = NonAllocatingStore::registry(true);
    let second = Policy::gcra("second", Quota::per_second(10).burst(20));
    let day = Policy::fixed_window("day", Quota::per_day(1_000));
    let decide = |kept: &mut Option<Charge>| {
        let check = CheckBuilder::new(&registry, &second).by(|key| key.part("user", b"ada")).and(&day);
        let future = std::pin::pin!(check.into_future());
        let Poll::Ready(charge) = future.poll(&mut Context::from_waker(std::task::Waker::noop())) else {
            panic!("the answer is there at once")
        };
        *kept = charge.ok();
    };
    let mut charges = [const { None }; 2];
    decide(&mut charges[0]);
    // The way to the store, and the charge.
    assert_eq!(allocation_counter::measure(|| decide(&mut charges[1])).count_total, 2);
    assert!(charges.iter().all(Option::is_some));
}

#[test]
fn charging_more_keeps_memory_bounded() {
    use crate::support::registry;
    use portcullis_tower::{Charge, Global};
    use tower::ServiceExt as _;

    let policy = Policy::token_bucket("bytes", Quota::per_day(1_000_000));
    let service = RateLimitLayer::new(registry(), policy.by(Global)).with_charge().layer(tower::service_fn(
        async |request: Request<String>| {
            let charge = request.extensions().get::<Charge>().unwrap().clone();
            let hold = |times: u32| {
                let charge = charge.clone();
                allocation_counter::measure(move || {
                    for _ in 0..times {
                        let mut more = std::pin::pin!(charge.charge_more(1));
                        let mut context = Context::from_waker(std::task::Waker::noop());
                        assert!(more.as_mut().poll(&mut context).is_ready());
                    }
                })
            };
            // The maximum number of runs; afterwards each call drops one.
            assert!(hold(100).bytes_current < 4_096);
            assert_eq!(hold(20_000).bytes_current, 0);
            Ok::<_, Infallible>(Response::new(()))
        },
    ));
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(std::pin::pin!(service.oneshot(Request::new(String::new()))).poll(&mut context).is_ready());
}

#[test]
fn extracting_a_key_allocates_nothing() {
    use portcullis_tower::{Bearer, ClientIp, Cookie, KeyExtractor, Query, Route, Trust};

    let request = Request::get("/?q=1&key=k-17")
        .header("authorization", "Bearer abc.def")
        .header("cookie", "theme=dark; sid=31d4")
        .header("x-forwarded-for", "6.6.6.6, 192.0.2.1:80, 10.0.0.7")
        .header("forwarded", r#"for=6.6.6.6, for="[2001:db8::1]:80";proto=https, for=10.0.0.7"#)
        .extension(std::net::SocketAddr::from(([10, 0, 0, 1], 80)))
        .body(())
        .unwrap();
    let (parts, ()) = request.into_parts();
    let behind = || ClientIp::behind(Trust::networks(["10.0.0.0/8"]));
    let extractors: [(&str, Box<dyn KeyExtractor>); 7] = [
        ("x-forwarded-for", Box::new(behind().x_forwarded_for())),
        ("forwarded", Box::new(behind().forwarded())),
        ("bearer", Box::new(Bearer)),
        ("cookie", Box::new(Cookie::named("sid"))),
        ("query", Box::new(Query::named("key"))),
        ("grpc or method", Box::new(Route::grpc_method().or(Route::http_method()))),
        ("both", Box::new(Bearer.and(Header::named("x-user").or(behind().x_forwarded_for())))),
    ];
    for (name, extractor) in extractors {
        let mut hasher = Secret::published().hasher();
        let info = allocation_counter::measure(|| {
            assert!(extractor.extract(&parts, &mut hasher.writer()).is_ok());
        });
        assert_eq!(info.count_total, 0, "{name}");
    }
}
