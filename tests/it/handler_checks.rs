//! Checks in the handlers of real servers, on memory and on Redis.

use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Request};
use axum::routing::{get, post};
use portcullis::check::Limited;
use portcullis::{Charge, ClientIp, Limiter, Policy, PolicyExt as _, Quota, Reason};
use portcullis_servers::RedisServer;
use portcullis_tests::{HttpClient, per_half_century};
use tokio::net::TcpListener;
use tonic::transport::{Endpoint, Server};
use tonic::{Code, Response, Status};
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::grpc::listen;

static MAIL: Policy = Policy::sliding_window("mail", Quota::per_hour(2));
static ALL_MAIL: Policy = Policy::fixed_window("all mail", per_half_century(4));
/// Ten rows per second, for which requests of other routes may wait for an hour.
static ROWS: Policy = Policy::token_bucket("rows", Quota::per_minute(600).burst(1_000))
    .wait_at_most(Duration::from_secs(3_600));
static CALLS: Policy = Policy::fixed_window("calls", per_half_century(2));

/// A limiter in memory, and one on a Redis server.
pub(crate) async fn limiters() -> (RedisServer, [Limiter; 2]) {
    let redis = RedisServer::start().unwrap();
    let shared = Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap();
    (redis, [Limiter::memory(), shared])
}

/// Mails a link to an address: twice an hour to each, four times in all.
async fn forgot(
    State(limiter): State<Limiter>,
    headers: HeaderMap,
    email: String,
) -> Result<&'static str, Limited> {
    limiter
        .check(&MAIL)
        .by(|key| key.part("email", email.to_lowercase().as_bytes()))
        .and(&ALL_MAIL)
        .by(|key| key.shared_part("all", b""))
        .accept(&headers)
        .await?;
    Ok("sent")
}

/// Exports rows, when there is a slot for all of them within half a minute.
async fn export(State(limiter): State<Limiter>, Path(rows): Path<u64>) -> Result<String, Limited> {
    let check = limiter.check(&ROWS).by(|key| key.part("user", b"ada"));
    check.cost(rows).at_most(Duration::from_secs(30)).await?;
    Ok(format!("{rows} rows"))
}

/// Charges a mistake of the server: a key without parts.
async fn mistaken(State(limiter): State<Limiter>) -> Result<(), Limited> {
    limiter.check(&MAIL).by(|_| {}).await.map(drop)
}

async fn serve(app: Router) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = app.into_make_service_with_connect_info::<std::net::SocketAddr>();
    tokio::spawn(axum::serve(listener, app).into_future());
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_limits_by_what_is_in_the_body() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let by_address =
            limiter.layer(Policy::gcra("requests", Quota::per_minute(60).burst(50)).by(ClientIp::peer()));
        let app = Router::new()
            .route("/forgot", post(forgot))
            .route("/mistaken", post(mistaken))
            .layer(by_address)
            .with_state(limiter);
        let (url, client) = (serve(app).await, HttpClient::http_1());
        let send = async |path: &str, email: &'static str| {
            let request = Request::post(format!("{url}/{path}")).header("accept", "application/problem+json");
            client.send(request, email).await
        };
        for (email, status) in [("Ada@example.com", 200), ("ada@example.com", 200), ("ada@Example.com", 429)]
        {
            assert_eq!(send("forgot", email).await.status(), status, "{email}");
        }
        let limited = send("forgot", "ada@example.com").await;
        assert_eq!(limited.headers()["content-type"], "application/problem+json");
        let problem = String::from_utf8_lossy(limited.body());
        assert!(problem.contains(r#""violated-policies":["mail"]"#), "{problem}");
        // The figures are those of the check, not those of the layer around the handler.
        assert_eq!(limited.headers()["x-ratelimit-limit"], "2");
        assert!(limited.headers().contains_key("retry-after"));

        // What was denied by one policy has not charged the other.
        for (email, status) in [("bob@example.com", 200), ("eve@example.com", 200), ("joe@example.com", 429)]
        {
            assert_eq!(send("forgot", email).await.status(), status, "{email}");
        }
        assert_eq!(send("mistaken", "").await.status(), 500);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_waits_for_the_cost_of_its_request() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let app = Router::new().route("/export/{rows}", get(export)).with_state(limiter);
        let url = serve(app).await;
        let export = async |rows: u64| portcullis_tests::get(&format!("{url}/export/{rows}")).await;
        assert_eq!(export(1_000).await.into_body(), "1000 rows");
        // They wait for half a second.
        assert_eq!(export(5).await.into_body(), "5 rows");
        // These would have to wait for longer than a minute, so they are rejected, and refunded.
        let limited = export(1_000).await;
        assert_eq!(limited.status(), 429);
        assert!(limited.headers().contains_key("retry-after"));
        assert_eq!(export(5).await.into_body(), "5 rows");
    }
}

/// A service that counts its calls by a field of the message.
struct ByService(Limiter);

#[tonic::async_trait]
impl Health for ByService {
    async fn check(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = &request.get_ref().service;
        let charge: Charge = self.0.check(&CALLS).by(|key| key.part("service", service.as_bytes())).await?;
        Ok(Response::new(HealthCheckResponse {
            status: i32::try_from(charge.decision().remaining()).unwrap(),
        }))
    }

    type WatchStream = tokio_stream::Empty<Result<HealthCheckResponse, Status>>;

    async fn watch(
        &self,
        _: tonic::Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("this server does not watch"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tonic_method_returns_the_status_of_a_rejection() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let (incoming, url) = listen().await;
        let server = Server::builder().add_service(HealthServer::new(ByService(limiter)));
        let server = tokio::spawn(server.serve_with_incoming(incoming));
        let mut client = HealthClient::new(Endpoint::from_shared(url).unwrap().connect().await.unwrap());
        let mut call =
            async |service: &str| client.check(HealthCheckRequest { service: service.to_owned() }).await;
        assert_eq!(call("mail").await.unwrap().into_inner().status, 1);
        assert_eq!(call("mail").await.unwrap().into_inner().status, 0);
        let refused = call("mail").await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted);
        assert!(refused.message().starts_with("rate limit exceeded: retry after "), "{}", refused.message());
        for name in ["retry-after", "grpc-retry-pushback-ms", "x-ratelimit-limit"] {
            assert!(refused.metadata().contains_key(name), "{name}");
        }
        assert!(!refused.details().is_empty());
        assert!(call("news").await.is_ok(), "another key");
        server.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_modes_apply_in_a_handler_while_redis_is_down() {
    use portcullis::FailureMode;

    let mut redis = RedisServer::start().unwrap();
    let limiter = Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap();
    let quota = Quota::per_week(4);
    let local = Policy::fixed_window("local", quota).on_store_failure(FailureMode::local(2));
    let open = Policy::fixed_window("open", quota).on_store_failure(FailureMode::Open);
    let closed = Policy::fixed_window("closed", quota).on_store_failure(FailureMode::Closed);
    let check = async |policy: &Policy| limiter.check(policy).by(|key| key.part("user", b"ada")).await;
    for policy in [&local, &open, &closed] {
        assert!(!check(policy).await.unwrap().decision().is_degraded());
    }
    redis.kill().unwrap();
    // A share of the limit in this process, then a denial like any other.
    for _ in 0..2 {
        let decision = check(&local).await.unwrap().decision();
        assert_eq!((decision.is_degraded(), decision.limit()), (true, 2));
    }
    assert_eq!(check(&local).await.unwrap_err().reason(), Reason::Limited);
    for _ in 0..9 {
        assert!(!check(&open).await.unwrap().decision().is_metered());
    }
    let failed = check(&closed).await.unwrap_err();
    assert_eq!((failed.reason(), failed.status().as_u16()), (Reason::StoreFailed, 503));
}
