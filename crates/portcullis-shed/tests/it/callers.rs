//! One caller whose requests do not end, and what the others get.

use std::net::SocketAddr;
use std::time::Duration;

use http::{Request, Response, Uri};
use http_body_util::Full;
use portcullis_core::KeyWriter;
use portcullis_shed::{Class, ShedLayer};
use portcullis_tower::matching::RequestPath;
use portcullis_tower::{ClientIp, Global, Header, Identity, KeyError, KeyExtractor as _};
use tokio::task::JoinHandle;
use tower::{Layer as _, ServiceExt as _};

use super::{Answer, Held, get, start};
use crate::support::{Probe, Silent, registry};

/// A service behind a layer, with requests that do not end, and others that are answered at once.
struct Service {
    layer: ShedLayer,
    held: Held,
    started: Vec<JoinHandle<Answer>>,
}

fn from(host: u8) -> Request<String> {
    let mut request = get("/");
    request.extensions_mut().insert(SocketAddr::from(([192, 0, 2, host], 1024)));
    request
}

impl Service {
    fn new(layer: ShedLayer) -> Self {
        Self { layer, held: Held::new(), started: Vec::new() }
    }

    /// Begins a request that does not end. Returns whether it is in flight.
    async fn hold(&mut self, request: Request<String>) -> bool {
        let before = self.layer.in_flight();
        self.started.push(start(&self.layer.layer(self.held.clone()), request).await);
        self.layer.in_flight() > before
    }

    /// Sends a request that is answered at once. Returns its status.
    async fn ask(&self, request: Request<String>) -> u16 {
        self.layer.layer(Probe::default()).oneshot(request).await.unwrap().status().as_u16()
    }
}

fn shared(limit: std::ops::RangeInclusive<usize>) -> ShedLayer {
    ShedLayer::new(&registry(), limit).share_per(ClientIp::peer())
}

#[tokio::test(start_paused = true)]
async fn one_caller_leaves_places_to_others() {
    for (limit, held) in [(20..=1_000, 16), (20..=20, 12), (16..=16, 9), (1_000..=1_000, 738)] {
        let mut service = Service::new(shared(limit.clone()));
        while service.hold(from(1)).await {}
        assert_eq!(service.layer.in_flight(), held, "{limit:?}");
        for _ in 0..300 {
            assert_eq!((service.ask(from(1)).await, service.ask(from(2)).await), (503, 200), "{limit:?}");
        }
        // Without shares all are rejected.
        let mut service = Service::new(ShedLayer::new(&registry(), limit.clone()));
        while service.hold(from(1)).await {}
        assert_eq!(service.ask(from(2)).await, 503, "{limit:?}");
    }
}

#[tokio::test]
async fn caller_below_limit_is_not_bound_to_its_share() {
    let mut service = Service::new(shared(100..=100));
    for _ in 0..74 {
        assert!(service.hold(from(1)).await);
    }
    assert!(!service.hold(from(1)).await);
    // 74 in flight, of which 68 do not count, up to what the class may use of the ceiling.
    for host in 2..=3 {
        for _ in 0..3 {
            assert!(service.hold(from(host)).await, "{host}");
        }
    }
    assert_eq!(service.layer.in_flight(), 80);
    assert!(!service.hold(from(6)).await);
    // What has ended is no place any more.
    service.held.finish(80);
    for started in service.started.drain(..) {
        drop(started.await.unwrap());
    }
    assert_eq!(service.layer.in_flight(), 0);
    assert!(service.hold(from(1)).await);
}

#[tokio::test]
async fn others_fill_the_limit_and_no_more() {
    let mut service = Service::new(shared(20..=1_000));
    while service.hold(from(1)).await {}
    // 4 of 16 places count.
    for host in 2..=4 {
        for _ in 0..4 {
            assert!(service.hold(from(host)).await, "{host}");
        }
        assert!(!service.hold(from(host)).await, "{host}");
    }
    assert!(!service.hold(from(5)).await);
    assert_eq!(service.layer.in_flight(), 28);
}

fn paying(host: u8) -> Request<String> {
    let mut request = from(host);
    *request.uri_mut() = Uri::from_static("/pay");
    request
}

#[tokio::test]
async fn callers_leave_the_reserve_to_critical() {
    let layer = || shared(20..=20).class(Class::Critical, RequestPath::exact("/pay"));
    let mut service = Service::new(layer());
    for host in 1..=10 {
        while service.hold(from(host)).await {}
    }
    assert_eq!(service.layer.in_flight(), 16);
    for _ in 0..4 {
        assert!(service.hold(paying(11)).await);
    }
    assert_eq!((service.hold(paying(12)).await, service.layer.in_flight()), (false, 20));

    // Nor do responses that are not read take it.
    let service = layer().layer(Probe::default());
    let mut unread = Vec::new();
    let mut statuses = Vec::new();
    for host in 1..=20 {
        let response = service.clone().oneshot(from(host)).await.unwrap();
        statuses.push(response.status().as_u16());
        unread.push(response);
    }
    assert_eq!(statuses, [[200; 16].as_slice(), &[503; 4]].concat());
    assert_eq!(service.oneshot(paying(21)).await.unwrap().status(), 200);
}

#[tokio::test]
async fn addresses_of_one_network_are_one_caller() {
    let of = |address: &str| {
        let mut request = get("/");
        request.extensions_mut().insert(SocketAddr::new(address.parse().unwrap(), 1024));
        request
    };
    let mut service = Service::new(shared(20..=1_000));
    for host in 0..16 {
        assert!(service.hold(of(&format!("2001:db8::{host:x}"))).await);
    }
    assert!(!service.hold(of("2001:db8::ffff:1")).await);
    assert!(service.hold(of("2001:db8:0:1::1")).await);
}

#[tokio::test]
async fn requests_without_identity_are_one_caller() {
    // Without an address.
    let mut service = Service::new(shared(20..=20));
    while service.hold(get("/")).await {}
    assert_eq!((service.ask(get("/")).await, service.ask(from(1)).await), (503, 200));

    // Exempt requests are counted, and have no share.
    let key = |_: &http::request::Parts, _: &mut KeyWriter<'_>| Ok::<_, KeyError>(Identity::Exempt);
    let mut service = Service::new(ShedLayer::new(&registry(), 20..=20).share_per(key));
    while service.hold(from(1)).await {}
    assert_eq!((service.layer.in_flight(), service.ask(from(2)).await), (16, 503));
}

#[tokio::test]
async fn shares_go_with_kept_permits_and_shadow() {
    let layer = shared(4..=4).reserve_for_critical(0.0).leave_permit();
    let service = layer.layer(Probe::default());
    drop(service.clone().oneshot(from(1)).await.unwrap());
    assert_eq!(layer.in_flight(), 0);

    let mut service = Service::new(shared(4..=4).shadow());
    for _ in 0..6 {
        assert!(service.hold(from(1)).await);
    }
    service.held.finish(6);
    for started in service.started.drain(..) {
        drop(started.await.unwrap());
    }
    assert_eq!(service.layer.in_flight(), 0);
}

#[test]
#[should_panic(
    expected = "the places in flight cannot be shared per `header x-api-key or client_ip`, of which a caller can make up any number: \
                use a key that the server determines, such as `ClientIp`"
)]
fn key_that_callers_choose_is_refused() {
    let _ = ShedLayer::new(&registry(), 1..=10).share_per(Header::named("x-api-key").or(ClientIp::peer()));
}

#[test]
#[should_panic(expected = "which is one for all callers")]
fn key_of_all_callers_is_refused() {
    let _ = ShedLayer::new(&registry(), 1..=10).share_per(Global);
}

#[tokio::test(start_paused = true)]
async fn limit_grows_while_nothing_ends() {
    let mut service = Service::new(ShedLayer::new(&registry(), 5..=8).reserve_for_critical(0.0));
    while service.hold(from(1)).await {}
    let mut seen = Vec::new();
    for _ in 0..3 {
        tokio::time::advance(Duration::from_millis(700)).await;
        seen.push((service.ask(from(2)).await, service.layer.limit()));
    }
    assert_eq!(seen, [(503, 5), (503, 6), (200, 6)], "a second after the first rejection");
    // What is admitted and does not end lets the limit grow to the ceiling, and no further.
    for _ in 0..12 {
        service.hold(from(2)).await;
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!((service.layer.limit(), service.layer.in_flight()), (8, 8));
}

#[tokio::test(start_paused = true)]
async fn limit_stays_while_requests_end() {
    let mut service = Service::new(ShedLayer::new(&registry(), 5..=1_000).reserve_for_critical(0.0));
    while service.hold(from(1)).await {}
    for _ in 0..10 {
        tokio::time::advance(Duration::from_millis(900)).await;
        assert_eq!(service.ask(from(2)).await, 503);
        service.held.finish(1);
        tokio::task::yield_now().await;
        while service.hold(from(1)).await {}
    }
    assert_eq!(service.layer.limit(), 5);
}

/// Behind a proxy all requests are of one caller.
#[tokio::test(start_paused = true)]
async fn limit_grows_for_one_caller_alone() {
    let mut service = Service::new(shared(20..=40));
    while service.hold(from(1)).await {}
    let mut seen = Vec::new();
    for _ in 0..3 {
        tokio::time::advance(Duration::from_millis(700)).await;
        seen.push((service.ask(from(1)).await, service.layer.limit()));
    }
    assert_eq!(seen, [(503, 20), (503, 22), (200, 22)]);
    // It leaves places to others at the ceiling as well.
    for _ in 0..60 {
        service.hold(from(1)).await;
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    assert_eq!((service.layer.limit(), service.layer.in_flight()), (40, 28));
    assert_eq!((service.ask(from(1)).await, service.ask(from(2)).await), (503, 200));
}

#[tokio::test(start_paused = true)]
async fn slow_body_of_axum_gives_its_place_back() {
    use axum::body::Body;
    use http_body_util::BodyExt as _;

    let layer = ShedLayer::new(&registry(), 1..=1);
    let upload = tower::service_fn(async |request: Request<Body>| {
        let body = request.into_body().collect().await.map_err(|error| error.to_string());
        Ok::<_, std::convert::Infallible>(Response::new(Full::from(body.err().unwrap_or_default())))
    });
    let silent = |content_type: &str| {
        Request::post("/").header("content-type", content_type).body(Body::new(Silent)).unwrap()
    };
    // Also of a client that claims to call gRPC, which the response does not confirm.
    for content_type in ["text/plain", "application/grpc"] {
        let answer = layer.layer(upload).oneshot(silent(content_type)).await.unwrap();
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        let slow = "the client sends the body of its request too slowly: less than 1920 bytes in 30s";
        assert_eq!((text, layer.in_flight()), (slow.into(), 0), "{content_type}");
    }

    for layer in [layer.clone().body_rate(None), layer.clone().shadow()] {
        let unbound = layer.layer(upload).oneshot(silent(""));
        assert!(tokio::time::timeout(Duration::from_hours(1), unbound).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn stream_of_grpc_may_be_silent() {
    use axum::body::Body;
    use http_body_util::BodyExt as _;

    let layer = ShedLayer::new(&registry(), 1..=1);
    // Its response body ends with that of the request.
    let echo = tower::service_fn(async |request: Request<Body>| {
        let response = Response::builder().header("content-type", "application/grpc");
        Ok::<_, std::convert::Infallible>(response.body(request.into_body()).unwrap())
    });
    let call = Request::post("/a.B/C").header("content-type", "application/grpc");
    let answer = layer.layer(echo).oneshot(call.body(Body::new(Silent)).unwrap()).await.unwrap();
    let end = tokio::time::timeout(Duration::from_hours(1), answer.into_body().collect());
    assert!(end.await.is_err());
}
