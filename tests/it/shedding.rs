//! Load shedding: a real server that can do two requests at a time, and real clients that send more.

use std::future::IntoFuture as _;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use axum::routing::get;
use http_body_util::BodyExt as _;
use portcullis::key::Global;
use portcullis::layer::RequestPath;
use portcullis::shed::{Class, ShedLayer};
use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
use portcullis_servers::within_a_minute;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tonic::Code;
use tonic::transport::Server as TonicServer;
use tonic_health::pb::HealthCheckRequest;
use tower::limit::GlobalConcurrencyLimitLayer;

use crate::grpc::{connect, listen};

/// Waits until a condition holds that another task brings about.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    within_a_minute(what, wait).await;
}

/// Five requests may be in flight, four of them may be others than payments, and three may be reports.
fn five_in_flight(limiter: &Limiter) -> ShedLayer {
    let class = |layer: ShedLayer, class, path| layer.class(class, RequestPath::prefix(path));
    let layer = class(limiter.shed(5..=5), Class::Critical, "/pay");
    class(layer, Class::Background, "/reports")
}

struct Server {
    url: String,
    client: HttpClient,
    shed: ShedLayer,
    /// The capacity of the service: it works on as many requests at a time. The others wait in front of it.
    capacity: Arc<Semaphore>,
}

impl Server {
    async fn start() -> Self {
        let (limiter, capacity) = (Limiter::memory(), Arc::new(Semaphore::new(0)));
        let shed = five_in_flight(&limiter);
        let daily = limiter.layer(Policy::fixed_window("daily", Quota::per_week(1_000)).by(Global));
        let app = Router::new()
            .route("/pay", get(|| async { "paid" }))
            .route("/search", get(|| async { "found" }))
            .route("/reports/week", get(|| async { "a report" }))
            .layer(GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&capacity)))
            .layer(daily)
            .layer(shed.clone());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { url, client: HttpClient::http_1(), shed, capacity }
    }

    fn request(&self, path: &str) -> JoinHandle<Response<Bytes>> {
        let (client, request) = (self.client.clone(), Request::get(format!("{}{path}", self.url)));
        tokio::spawn(async move { client.send(request, Body::empty()).await })
    }

    /// Sends a request that has to wait for the service.
    async fn held(&self, path: &str) -> JoinHandle<Response<Bytes>> {
        let before = self.shed.in_flight();
        let request = self.request(path);
        until("a request in flight", || self.shed.in_flight() == before + 1).await;
        request
    }

    /// Sends a request that is rejected.
    async fn is_shed(&self, path: &str) {
        let rejected = self.request(path).await.unwrap();
        assert_eq!(rejected.status(), 503, "{path}");
        let wait: u64 = rejected.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=10).contains(&wait), "{wait}");
        assert_eq!(*rejected.body(), format!("the service is overloaded: retry after {wait} s\n"));
        assert!(!rejected.headers().contains_key("x-ratelimit-remaining"), "it was not counted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn payments_are_served_while_the_rest_is_shed() {
    let server = Server::start().await;
    // Nothing is finished: the service is overloaded. Reports are shed first, payments last.
    let mut held = vec![server.held("/reports/week").await];
    held.push(server.held("/reports/week").await);
    held.push(server.held("/reports/week").await);
    server.is_shed("/reports/week").await;
    held.push(server.held("/search").await);
    server.is_shed("/search").await;
    server.is_shed("/reports/week").await;
    held.push(server.held("/pay").await);
    server.is_shed("/pay").await;

    // The service recovers: what was admitted is served, and only that was charged.
    server.capacity.add_permits(2);
    for request in held {
        assert_eq!(request.await.unwrap().status(), 200);
    }
    until("an idle service", || server.shed.in_flight() == 0).await;
    let next = server.request("/reports/week").await.unwrap();
    assert_eq!(
        (next.status().as_u16(), &next.headers()["x-ratelimit-remaining"]),
        (200, &"994".parse().unwrap())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave_make_room() {
    let server = Server::start().await;
    // A connection that is closed is a request that is dropped.
    let held = [server.held("/search").await, server.held("/search").await, server.held("/search").await];
    let last = server.held("/search").await;
    server.is_shed("/search").await;
    for request in &held {
        request.abort();
    }
    until("requests that are gone", || server.shed.in_flight() == 1).await;
    server.capacity.add_permits(2);
    assert_eq!(last.await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_download_is_in_flight_until_it_ends() {
    let limiter = Limiter::memory();
    let shed = five_in_flight(&limiter);
    let (rows, streamed) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(1);
    let streamed = Arc::new(std::sync::Mutex::new(Some(streamed)));
    let download = get(move || async move {
        let rows = streamed.lock().unwrap().take().unwrap();
        Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(rows))
    });
    let app: Router = Router::new().route("/download", download).layer(shed.clone());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/download", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app).into_future());
    let mut response = HttpClient::http_1().start(Request::get(url), ()).await;
    rows.send(Ok("row".into())).await.unwrap();
    assert!(response.body_mut().frame().await.unwrap().unwrap().is_data());
    assert_eq!(shed.in_flight(), 1);
    drop(rows);
    assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
    until("the end of the download", || shed.in_flight() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_client_is_told_when_to_come_back() {
    let (capacity, shed) = (Arc::new(Semaphore::new(0)), Limiter::memory().shed(1..=1));
    let (incoming, url) = listen().await;
    let (_, health) = tonic_health::server::health_reporter();
    let server = TonicServer::builder()
        .layer(shed.clone())
        .layer(GlobalConcurrencyLimitLayer::with_semaphore(Arc::clone(&capacity)))
        .add_service(health);
    let server = tokio::spawn(server.serve_with_incoming(incoming));

    let mut client = connect(url).await;
    let mut first = client.clone();
    let first = tokio::spawn(async move { first.check(HealthCheckRequest::default()).await });
    until("a call in flight", || shed.in_flight() == 1).await;
    let rejected = client.check(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(rejected.code(), Code::Unavailable);
    let pushback: u64 =
        rejected.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap().parse().unwrap();
    assert!((1_000..=10_000).contains(&pushback), "{pushback}");

    capacity.add_permits(1);
    assert!(first.await.unwrap().is_ok());
    assert!(client.check(HealthCheckRequest::default()).await.is_ok());
    server.abort();
}
