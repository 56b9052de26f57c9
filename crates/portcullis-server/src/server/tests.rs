use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::get;
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tonic::Code;
use tonic::service::Routes;
use tonic::transport::Endpoint;
use tonic_health::ServingStatus;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::ServiceExt as _;

use super::*;
use crate::NotReady;

/// No test waits for longer, and none takes nearly as long.
const BOUND: Duration = Duration::from_secs(20);

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

async fn status(addr: SocketAddr) -> ServingStatus {
    let channel = Endpoint::from_shared(format!("http://{addr}")).unwrap().connect().await.unwrap();
    let mut client = HealthClient::new(channel);
    let answer = client.check(HealthCheckRequest::default()).await.unwrap();
    match answer.get_ref().status {
        1 => ServingStatus::Serving,
        2 => ServingStatus::NotServing,
        _ => ServingStatus::Unknown,
    }
}

#[tokio::test]
async fn grpc_health_follows_readiness() {
    let limiter = Limiter::memory();
    let server = Server::new(limiter.clone()).grpc(LOOPBACK.into(), Routes::default(), &[]);
    let readiness = server.readiness().clone();
    let server = server.bind().await.unwrap();
    let addr = server.addresses().grpc.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    assert_eq!(status(addr).await, ServingStatus::Serving);
    readiness.set_rules_refused(true);
    assert_eq!(readiness.reasons(), [], "the last good rules apply");
    readiness.set_no_rules(true);
    let changed = async {
        while status(addr).await != ServingStatus::NotServing {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(BOUND, changed).await.expect("it is reported");
    stop.send(()).unwrap();
    let finished = timeout(BOUND, ended).await.unwrap().unwrap();
    assert_eq!((finished.cut_off, finished.unsettled), (0, 0));
    assert_eq!(readiness.reasons(), [NotReady::Draining, NotReady::NoRules]);
}

#[tokio::test]
async fn those_who_watch_health_do_not_keep_the_server() {
    let limiter = Limiter::memory();
    let server = Server::new(limiter.clone()).grpc(LOOPBACK.into(), Routes::default(), &[]);
    let server = server.limits(Limits::default().drain_timeout(10 * BOUND)).bind().await.unwrap();
    let addr = server.addresses().grpc.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let ended = tokio::spawn(server.run(async {
        let _ = stopped.await;
    }));
    let channel = Endpoint::from_shared(format!("http://{addr}")).unwrap().connect().await.unwrap();
    let watched = HealthClient::new(channel).watch(HealthCheckRequest::default()).await.unwrap();
    let mut watched = watched.into_inner();
    let mut last = watched.message().await.unwrap().unwrap().status;
    assert_eq!(last, 1, "serving");
    stop.send(()).unwrap();
    while let Some(next) = watched.message().await.unwrap() {
        last = next.status;
    }
    assert_eq!(last, 2, "not serving");
    let finished = timeout(BOUND, ended).await.expect("it ends").unwrap();
    assert_eq!(finished.cut_off, 0);
}

#[tokio::test]
async fn tokens_of_admin_api_are_guessed_slowly() {
    let limiter = Limiter::memory();
    let admin = limiter.admin(|parts: &axum::http::request::Parts| {
        if portcullis::admin::has_bearer_token(parts, "0123456789abcdef") {
            Ok(portcullis::admin::Actor::new("operator"))
        } else {
            Err(portcullis::admin::Refused::Unauthenticated)
        }
    });
    let server = Server::new(limiter.clone()).admin(LOOPBACK.into(), admin.into_router());
    let server = server.bind().await.unwrap();
    let addr = server.addresses().admin.unwrap();
    let _running = tokio::spawn(server.run(std::future::pending()));
    let ask = async |token: &'static str| {
        let stream = tokio::net::TcpStream::connect(addr).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
        tokio::spawn(connection);
        let request = Request::get("/v1/policies").header("host", "localhost");
        let request = match token {
            "" => request,
            token => request.header("authorization", format!("Bearer {token}")),
        };
        let request = request.body(String::new()).unwrap();
        sender.send_request(request).await.unwrap().status().as_u16()
    };
    for _ in 0..20 {
        assert_eq!(ask("0123456789abcdef").await, 200, "what succeeds is free");
    }
    for _ in 0..20 {
        assert_eq!(ask("").await, 401, "a page that has no token locks nobody out");
    }
    let mut statuses = Vec::new();
    for _ in 0..30 {
        statuses.push(ask("0123456789abcdee").await);
    }
    assert_eq!(statuses[..10], [401; 10]);
    let checked = statuses.iter().filter(|status| **status == 401).count();
    assert!(checked < 30 && statuses.contains(&429), "{statuses:?}");
    assert_eq!(limiter.policies().len(), 0, "the limiter of the server has no part in it");
}

#[tokio::test]
async fn addresses_of_other_machines_have_to_be_allowed() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let server = || Server::new(Limiter::memory()).http(everywhere, Router::new());
    let refused = server().bind().await.unwrap_err();
    assert!(matches!(refused, ServeError::Exposed { place: Place::Http, .. }), "{refused}");
    assert!(server().allow_unauthenticated(Place::Grpc).bind().await.is_err());
    assert!(server().allow_unauthenticated(Place::Http).bind().await.is_ok());
    let nothing = Server::new(Limiter::memory()).bind().await.unwrap_err();
    assert!(matches!(nothing, ServeError::NoListener));
}

#[tokio::test]
async fn service_beside_ends_before_status() {
    let (stop, stopped) = oneshot::channel::<()>();
    let (release, released) = oneshot::channel::<()>();
    let server = Server::new(Limiter::memory()).status(LOOPBACK.into()).beside(|ended| async move {
        ended.cancelled().await;
        released.await.unwrap();
        3
    });
    let server = server.bind().await.unwrap();
    let addr = server.addresses().status.unwrap();
    let ended = tokio::spawn(server.run(async { stopped.await.unwrap() }));
    stop.send(()).unwrap();
    // The service drains meanwhile.
    assert!(tokio::net::TcpStream::connect(addr).await.is_ok());
    release.send(()).unwrap();
    assert_eq!(timeout(BOUND, ended).await.unwrap().unwrap().cut_off, 3);
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
    let alone = Server::new(Limiter::memory()).beside(|_| async { 0 }).bind().await.unwrap();
    assert_eq!(alone.run(async {}).await.cut_off, 0);
}

#[tokio::test]
async fn address_in_use_is_named_in_the_error() {
    let first = Server::new(Limiter::memory()).status(LOOPBACK.into()).bind().await.unwrap();
    let addr = first.addresses().status.unwrap();
    let error = Server::new(Limiter::memory()).status(addr).bind().await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("status cannot listen at {addr}: ")), "{error}");
}

#[tokio::test(start_paused = true)]
async fn request_timeout_is_an_answer_of_the_protocol() {
    let slow = || Router::new().route("/slow", get(std::future::pending::<()>));
    let limits = Limits::default().request_timeout(Duration::from_secs(5));
    let ask = || Request::get("/slow").body(Body::empty()).unwrap();
    let http = guards::guarded(slow(), Place::Http, &limits).oneshot(ask()).await.unwrap();
    assert_eq!(http.status(), 503);
    let grpc = guards::guarded(slow(), Place::Grpc, &limits).oneshot(ask()).await.unwrap();
    assert_eq!(grpc.headers()["grpc-status"], (Code::DeadlineExceeded as i32).to_string().as_str());
}

#[tokio::test]
async fn dropped_readiness_does_not_keep_the_limiter() {
    let limiter = Limiter::memory();
    let store = std::sync::Arc::downgrade(limiter.store());
    let readiness = Readiness::new(&limiter);
    assert!(limiter.try_layer([Policy::gcra("all", Quota::per_second(1)).by(ClientIp::peer())]).is_ok());
    drop((readiness, limiter));
    assert!(store.upgrade().is_none());
}

#[test]
fn callers_are_no_clients() {
    let named = TrustedPeers::networks(["10.0.0.0/8".parse().unwrap()]);
    for peer in ["10.0.0.9", "127.0.0.1", "192.0.2.1"] {
        let peer: IpAddr = peer.parse().unwrap();
        let client = Peer::Client(Client::at(peer));
        for place in [Place::Grpc, Place::Http] {
            let by_default = if peer.is_loopback() { Peer::Caller } else { client };
            assert_eq!(kind(None, place, peer), by_default, "{place} {peer}");
            let is_named = peer.to_string().starts_with("10.");
            let with_names = if is_named { Peer::Proxy } else { client };
            assert_eq!(kind(Some(&named), place, peer), with_names, "{place} {peer}");
        }
        for place in [Place::Status, Place::Admin] {
            assert_eq!(kind(None, place, peer), client, "{place} {peer}");
            assert_eq!(kind(Some(&named), place, peer), client, "{place} {peer}");
        }
    }
}
