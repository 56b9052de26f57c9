//! `OPTIONS` requests with a body over HTTP/2, where a layer around the limit has changed the type of the body.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use axum::http::{Request, Response, StatusCode};
use axum::{Router, routing::any};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::client::conn::http2::SendRequest;
use portcullis::key::Global;
use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
use portcullis_tests::per_half_century;
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tower::ServiceBuilder;
use tower_http::limit::RequestBodyLimitLayer;

use crate::raw;

type Body = BoxBody<Bytes, Infallible>;

fn two_calls() -> RateLimitLayer {
    Limiter::memory().layer(Policy::fixed_window("calls", per_half_century(2)).by(Global))
}

async fn tonic() -> SendRequest<Body> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let limits = ServiceBuilder::new().layer(RequestBodyLimitLayer::new(1 << 20)).layer(two_calls());
    let server = Server::builder().layer(limits.into_inner()).add_service(health);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    raw::http2(stream).await
}

async fn axum() -> SendRequest<Body> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let limits = ServiceBuilder::new().layer(RequestBodyLimitLayer::new(1 << 20)).layer(two_calls());
    let app = Router::new().route(CALL, any(async || "ran")).layer(limits);
    tokio::spawn(axum::serve(listener, app).into_future());
    raw::http2(stream).await
}

const CALL: &str = "/grpc.health.v1.Health/Check";

/// An empty gRPC message in its own frame, which no header announces.
fn message() -> Body {
    let frames = [Ok(Frame::data(Bytes::from_static(&[0; 5])))];
    StreamBody::new(tokio_stream::iter(frames)).boxed()
}

async fn options(client: &mut SendRequest<Body>, more: &[(&str, &str)], body: Body) -> Response<Incoming> {
    client.ready().await.unwrap();
    let mut request = Request::options(format!("http://localhost{CALL}"))
        .header("origin", "https://a.example")
        .header("access-control-request-method", "POST");
    for (name, value) in more {
        request = request.header(*name, *value);
    }
    client.send_request(request.body(body).unwrap()).await.unwrap()
}

fn remaining(response: &Response<Incoming>) -> (StatusCode, &str) {
    (response.status(), response.headers()["x-ratelimit-remaining"].to_str().unwrap())
}

#[tokio::test]
async fn a_tonic_call_with_a_body_is_counted_whatever_its_method() {
    let mut client = tonic().await;
    let first = options(&mut client, &[], message()).await;
    assert_eq!(remaining(&first), (StatusCode::OK, "1"));
    let ran = first.into_body().collect().await.unwrap();
    assert_eq!(ran.trailers().unwrap()["grpc-status"], "0", "the call is run");
    assert_eq!(remaining(&options(&mut client, &[], message()).await), (StatusCode::OK, "0"));
    for _ in 0..100 {
        let refused = options(&mut client, &[], message()).await;
        assert_eq!(remaining(&refused), (StatusCode::TOO_MANY_REQUESTS, "0"));
    }
}

#[tokio::test]
async fn a_preflight_of_grpc_web_is_charged_beside_the_calls() {
    let mut client = tonic().await;
    for _ in 0..3 {
        options(&mut client, &[], message()).await;
    }
    let more = [("access-control-request-headers", "content-type,x-grpc-web")];
    for expected in [(StatusCode::OK, "1"), (StatusCode::OK, "0"), (StatusCode::TOO_MANY_REQUESTS, "0")] {
        let body = Empty::new().boxed();
        assert_eq!(remaining(&options(&mut client, &more, body).await), expected);
    }
}

#[tokio::test]
async fn a_handler_for_any_method_is_not_run_uncounted() {
    let mut client = axum().await;
    let (mut ran, mut refused) = (0, 0);
    for _ in 0..100 {
        match options(&mut client, &[], message()).await.status() {
            StatusCode::OK => ran += 1,
            _ => refused += 1,
        }
    }
    assert_eq!((ran, refused), (2, 98));
    let preflight = options(&mut client, &[], Empty::new().boxed()).await;
    assert_eq!(remaining(&preflight), (StatusCode::OK, "1"));
}
