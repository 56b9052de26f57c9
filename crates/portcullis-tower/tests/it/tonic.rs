//! The layer under Tonic.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use portcullis_core::{Policy, Quota};
use portcullis_tower::{
    ClientIp, LayerLog, PolicyExt as _, PreparedLayer, RateLimitLayer, SelectLayer, SelectedRateLimit,
    Selection,
};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::TcpConnectInfo;
use tower::{Layer as _, Service, ServiceExt as _};

use crate::support::registry;

/// A service as `tonic-build` would write it.
#[derive(Clone)]
struct Greeter;

impl NamedService for Greeter {
    const NAME: &'static str = "hello.Greeter";
}

impl Service<Request<Body>> for Greeter {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        std::future::ready(Ok(Response::new(Body::empty())))
    }
}

fn limit() -> RateLimitLayer {
    RateLimitLayer::new(registry(), Policy::gcra("all", Quota::per_minute(1)).by(ClientIp::peer()))
}

fn request(address: &str) -> Request<Body> {
    let mut request = Request::post("/hello.Greeter/SayHello")
        .header("content-type", "application/grpc")
        .body(Body::empty())
        .unwrap();
    let remote_addr = Some(address.parse::<SocketAddr>().unwrap());
    request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr });
    request
}

/// The status as a Tonic client decodes it.
async fn status(
    service: impl Service<Request<Body>, Response = Response<impl Sized>, Error: std::fmt::Debug>,
    address: &str,
) -> Option<tonic::Code> {
    let response = service.oneshot(request(address)).await.unwrap();
    assert_eq!(response.status(), 200);
    tonic::Status::from_header_map(response.headers()).map(|status| status.code())
}

#[tokio::test]
async fn a_layer_wraps_one_service() {
    let service = limit().layer(Greeter);
    let routes = tonic::service::Routes::new(service).prepare();
    assert_eq!(status(routes.clone(), "192.0.2.1:1").await, None);
    assert_eq!(status(routes.clone(), "192.0.2.1:2").await, Some(tonic::Code::ResourceExhausted));
    assert_eq!(status(routes, "192.0.2.2:1").await, None);
}

#[cfg(feature = "axum")]
#[tokio::test]
async fn a_layer_for_axum_wraps_one_service() {
    let routes = tonic::service::Routes::new(limit().for_axum().layer(Greeter)).prepare();
    assert_eq!(status(routes.clone(), "192.0.2.1:1").await, None);
    assert_eq!(status(routes, "192.0.2.1:2").await, Some(tonic::Code::ResourceExhausted));
}

#[tokio::test]
async fn a_layer_wraps_a_server() {
    let service = limit().layer(tonic::service::Routes::new(Greeter));
    assert_eq!(status(service.clone(), "[2001:db8::1]:1").await, None);
    assert_eq!(status(service, "[2001:db8::2]:1").await, Some(tonic::Code::ResourceExhausted));

    let server = Server::builder().layer(limit()).add_service(limit().layer(Greeter));
    drop(server.serve("127.0.0.1:0".parse().unwrap()));
}

#[tokio::test]
async fn a_chosen_layer_wraps_one_service() {
    struct One(PreparedLayer);
    impl SelectLayer for One {
        fn select(&self, _: &http::request::Parts) -> Selection {
            Selection::layer(self.0.current())
        }
    }
    let one = Arc::new(One(PreparedLayer::new(&limit(), &LayerLog::default())));
    let routes = tonic::service::Routes::new(SelectedRateLimit::new(Greeter, one)).prepare();
    assert_eq!(status(routes.clone(), "192.0.2.1:1").await, None);
    assert_eq!(status(routes, "192.0.2.1:2").await, Some(tonic::Code::ResourceExhausted));
}

#[tokio::test]
async fn a_connection_without_an_address_is_an_internal_error() {
    let mut request = request("192.0.2.1:1");
    request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr: None });
    let response = limit().layer(Greeter).oneshot(request).await.unwrap();
    let status = tonic::Status::from_header_map(response.headers()).unwrap();
    assert_eq!(status.code(), tonic::Code::Internal);
    assert!(status.message().starts_with("the server cannot tell who is calling"), "{}", status.message());
    assert_eq!(status.message().contains("has no `remote_addr`"), cfg!(debug_assertions));
}
