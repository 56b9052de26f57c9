//! The HTTP client of the tests.

use std::net::IpAddr;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::request::Builder;
use axum::http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::time::timeout;

/// A client with a pool of connections, which follows no redirects. Clones share the pool.
#[derive(Debug, Clone)]
pub struct HttpClient(Client<HttpConnector, Body>);

impl HttpClient {
    /// A client that speaks HTTP/1.1.
    pub fn http_1() -> Self {
        Self::new(None, false)
    }

    /// A client that speaks HTTP/2 from the first byte.
    pub fn http_2() -> Self {
        Self::new(None, true)
    }

    /// A client that speaks HTTP/1.1 and connects from this address.
    pub fn from_address(address: IpAddr) -> Self {
        Self::new(Some(address), false)
    }

    fn new(address: Option<IpAddr>, is_http_2: bool) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_local_address(address);
        Self(Client::builder(TokioExecutor::new()).http2_only(is_http_2).build(connector))
    }

    /// Sends a request with an absolute URL, and reads the whole response.
    ///
    /// # Panics
    ///
    /// Panics if the request is invalid, and without a complete response after two minutes.
    pub async fn send(&self, request: Builder, body: impl Into<Body>) -> Response<Bytes> {
        let response = async {
            let (head, body) = self.start(request, body).await.into_parts();
            let body = body.collect().await.expect("the body is complete");
            Response::from_parts(head, body.to_bytes())
        };
        timeout(PATIENCE, response).await.expect("a response comes within two minutes")
    }

    /// Sends a request with an absolute URL, and waits for the head of the response.
    ///
    /// # Panics
    ///
    /// Panics if the request is invalid, and without a response.
    pub async fn start(&self, request: Builder, body: impl Into<Body>) -> Response<Incoming> {
        let request = request.body(body.into()).expect("the request is valid");
        self.0.request(request).await.expect("the server responds")
    }
}

/// Sends a GET request over a connection of its own, and reads the whole response.
///
/// # Panics
///
/// Panics if the URL is invalid, and without a complete response after two minutes.
pub async fn get(url: &str) -> Response<Bytes> {
    HttpClient::http_1().send(Request::get(url), ()).await
}

/// A request without a response by then never gets one.
const PATIENCE: Duration = Duration::from_secs(120);
