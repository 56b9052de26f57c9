//! Limits on requests in flight, from a real server to a real client: downloads, tasks, upgraded connections, and a process that is
//! killed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Request, Response, StatusCode, header};
use axum::response::sse::{Event, Sse};
use axum::{Router, routing::get};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use portcullis::key::Header;
use portcullis::layer::Concurrency;
use portcullis::{Charge, Limiter, Policy, PolicyExt as _, Quota};
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_tests::HttpClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::{Stream, StreamExt as _, wrappers::ReceiverStream};

use crate::process::Process;

const REQUESTS: Policy = Policy::fixed_window("requests", Quota::per_week(1_000));
/// A user runs one of each at a time.
const EXPORTS: Concurrency = Concurrency::new("exports", 1);

#[derive(Clone, Default)]
struct Work {
    /// By request, the rows to stream.
    streams: Arc<Mutex<VecDeque<mpsc::Receiver<&'static str>>>>,
    /// By request, the end of the task that it starts.
    tasks: Arc<Mutex<VecDeque<oneshot::Receiver<()>>>>,
}

impl Work {
    fn rows(&self) -> ReceiverStream<&'static str> {
        ReceiverStream::new(
            self.streams.lock().unwrap().pop_front().expect("the test prepares the stream first"),
        )
    }
}

/// The permit is held as long as the body is.
async fn export(State(work): State<Work>) -> Body {
    Body::from_stream(work.rows().map(|row| Ok::<_, Infallible>(Bytes::from(row))))
}

/// Server-sent events are a body as well.
async fn events(State(work): State<Work>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    Sse::new(work.rows().map(|row| Ok(Event::default().data(row))))
}

/// The permit moves into a task, which outlives the response.
async fn task(State(work): State<Work>, charge: Charge) -> StatusCode {
    let (permit, end) = (charge.take_permit(), work.tasks.lock().unwrap().pop_front().unwrap());
    tokio::spawn(async move {
        let _permit = permit;
        let _ = end.await;
    });
    StatusCode::ACCEPTED
}

/// The permit moves to where the connection is used, as in `on_upgrade` of Axum's web sockets.
async fn upgrade(charge: Charge, request: Request<Body>) -> Response<Body> {
    tokio::spawn(async move {
        let _permit = charge.take_permit();
        let mut connection = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
        let mut text = [0; 5];
        while connection.read_exact(&mut text).await.is_ok() {
            connection.write_all(&text).await.unwrap();
        }
    });
    let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    let response = response.header(header::CONNECTION, "upgrade").header(header::UPGRADE, "echo");
    response.body(Body::empty()).unwrap()
}

struct Server {
    limiter: Limiter,
    url: String,
    client: HttpClient,
    work: Work,
}

impl Server {
    async fn start(limiter: Limiter) -> Self {
        let work = Work::default();
        let layer = limiter.layer(REQUESTS.by(Header::named("x-user"))).and(EXPORTS);
        let app = Router::new()
            .route("/export", get(export))
            .route("/events", get(events))
            .route("/task", get(task))
            .route("/upgrade", get(upgrade))
            .layer(layer)
            .with_state(work.clone());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { limiter, url, client: HttpClient::http_1(), work }
    }

    async fn request(&self, path: &str) -> Response<Incoming> {
        let request = Request::get(format!("{}{path}", self.url)).header("x-user", "ada");
        let request = request.header(header::CONNECTION, "upgrade").header(header::UPGRADE, "echo");
        self.client.start(request, ()).await
    }

    /// Starts a response that streams rows.
    async fn stream(&self, path: &str) -> (Response<Incoming>, mpsc::Sender<&'static str>) {
        let (rows, streamed) = mpsc::channel(1);
        self.work.streams.lock().unwrap().push_back(streamed);
        let response = self.request(path).await;
        if response.status() == 429 {
            self.work.streams.lock().unwrap().pop_back();
        }
        (response, rows)
    }

    /// Waits until the permit is free, which a client that leaves does not see.
    async fn wait_until_free(&self) {
        let ada = self
            .limiter
            .key(|key| {
                key.part("header", b"ada");
                key.part("header name", b"x-user");
            })
            .unwrap();
        let free = async {
            while self.limiter.peek(&EXPORTS.policy(), ada).await.unwrap().remaining() == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within_a_minute("permit", free).await;
    }

    async fn is_limited(&self) {
        let rejected = self.request("/export").await;
        assert_eq!(rejected.status(), 429);
        let headers = rejected.headers();
        assert_eq!(
            (&headers["x-ratelimit-limit"], &headers["x-ratelimit-remaining"]),
            (&1.into(), &0.into())
        );
        assert!(!headers.contains_key("retry-after") && !headers.contains_key("x-ratelimit-reset"));
        let body = rejected.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "too many requests of this client are in progress\n");
    }
}

/// A server on a store in memory, and one on Redis.
async fn on_both_stores() -> (RedisServer, [Server; 2]) {
    let redis = RedisServer::start().unwrap();
    let limiter = Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap();
    (redis, [Server::start(Limiter::memory()).await, Server::start(limiter).await])
}

#[tokio::test(flavor = "multi_thread")]
async fn one_download_at_a_time() {
    let (_redis, servers) = on_both_stores().await;
    for server in servers {
        for path in ["/export", "/events"] {
            let (mut first, rows) = server.stream(path).await;
            assert_eq!(first.status(), 200);
            rows.send("row").await.unwrap();
            assert!(first.body_mut().frame().await.unwrap().unwrap().is_data(), "it is held half-way");
            server.is_limited().await;
            drop((first, rows));
            server.wait_until_free().await;

            let (third, rows) = server.stream(path).await;
            assert_eq!(third.status(), 200);
            rows.send("row").await.unwrap();
            drop(rows);
            assert!(!third.into_body().collect().await.unwrap().to_bytes().is_empty());
            server.wait_until_free().await;
        }
        assert_eq!(server.limiter.drain(Duration::from_secs(60)).await.left, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_half_way_frees_its_permit() {
    let (_redis, servers) = on_both_stores().await;
    for server in servers {
        let (mut response, rows) = server.stream("/export").await;
        rows.send("row").await.unwrap();
        assert!(response.body_mut().frame().await.unwrap().unwrap().is_data());
        drop(response);
        // The body waits for a row that never comes; the server notices the closed connection.
        server.wait_until_free().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_holds_the_permit_of_its_request() {
    let (_redis, servers) = on_both_stores().await;
    for server in servers {
        let (done, end) = oneshot::channel();
        server.work.tasks.lock().unwrap().push_back(end);
        let response = server.request("/task").await;
        assert_eq!(response.status(), 202);
        drop(response.into_body().collect().await.unwrap());
        server.is_limited().await;
        done.send(()).unwrap();
        server.wait_until_free().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgraded_connection_holds_the_permit() {
    let (_redis, servers) = on_both_stores().await;
    for server in servers {
        let response = server.request("/upgrade").await;
        assert_eq!(response.status(), 101);
        let mut connection = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
        for _ in 0..2 {
            connection.write_all(b"hello").await.unwrap();
            connection.read_exact(&mut [0; 5]).await.unwrap();
            server.is_limited().await;
        }
        drop(connection);
        server.wait_until_free().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_permits_of_a_killed_process_come_back() {
    let redis = RedisServer::start().unwrap();
    let [killed, other] =
        [Process::shared_budget(&redis.url(), 10).await, Process::shared_budget(&redis.url(), 10).await];
    let client = HttpClient::http_2();
    let get =
        async |process: &Process| client.start(Request::get(format!("{}/in-flight", process.url)), ()).await;
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(get(&killed).await);
    }
    assert!(held.iter().all(|response| response.status() == 200));
    assert_eq!(get(&other).await.status(), 429);
    drop(killed);
    let mut after = Vec::new();
    let all_admitted = async {
        while after.len() < 100 {
            let response = get(&other).await;
            if response.status() == 200 {
                after.push(response);
            } else {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    };
    within_a_minute("permits", all_admitted).await;
    assert_eq!(get(&other).await.status(), 429, "there are no more");
    assert_eq!(other.stop().await, (0, 0), "a process that is stopped releases its permits");
}
