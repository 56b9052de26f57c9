//! The HTTP client of the tests, quotas whose windows no test sees end, a store around whose decisions a test does something, and a subscriber that
//! keeps their log lines.

mod around_store;

use std::io;
use std::net::IpAddr;
use std::sync::Once;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::request::Builder;
use axum::http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use portcullis::Quota;
use tokio::time::timeout;

pub use around_store::{AroundStore, Decide};

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

    /// A client that connects from an address, if there is one, and speaks HTTP/2 from the first byte or HTTP/1.1.
    pub fn new(address: Option<IpAddr>, is_http_2: bool) -> Self {
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

/// Units per 50 years, for a fixed window on a real clock. Such windows begin at the multiples of their period since 1970: the current
/// one ends in 2069. One of an hour would end between two requests of a test that runs at the full hour.
///
/// # Panics
///
/// Panics if the limit is zero or beyond that of a quota.
pub const fn per_half_century(limit: u64) -> Quota {
    Quota::per(limit, HALF_CENTURY)
}

/// Sets a subscriber for all threads. Otherwise a line that another test logs first, without a subscriber, may be disabled for all of
/// them.
///
/// # Panics
///
/// Panics if there is another global subscriber.
pub fn set_global_subscriber() {
    static GLOBAL_SUBSCRIBER: Once = Once::new();

    GLOBAL_SUBSCRIBER.call_once(|| {
        let subscriber = tracing_subscriber::fmt().with_writer(io::sink).finish();
        tracing::subscriber::set_global_default(subscriber).expect("it is the only one");
    });
}

const HALF_CENTURY: Duration = Duration::from_secs(50 * 365 * 24 * 3_600);
/// A request without a response by then never gets one.
const PATIENCE: Duration = Duration::from_secs(120);
