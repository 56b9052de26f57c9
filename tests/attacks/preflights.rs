//! Password guesses sent as CORS preflights, pipelined over one HTTP/1.1 connection.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::any;
use portcullis::key::{Header, Lookup};
use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, RateLimitLayer};
use portcullis_servers::within_a_minute;
use portcullis_tests::per_half_century;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket};

const LIMIT: u32 = 10;
const GUESSES: usize = 10_000;

fn policy(name: &'static str) -> Policy {
    Policy::fixed_window(name, per_half_century(LIMIT.into()))
}

fn by_address() -> RateLimitLayer {
    Limiter::memory().layer(policy("address").by(ClientIp::peer()))
}

/// Starts a server that checks passwords for any method. Returns its address and the number of passwords checked.
async fn serve(limit: RateLimitLayer) -> (SocketAddr, Arc<AtomicUsize>) {
    let checked = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&checked);
    let login = async move |headers: HeaderMap| {
        let Some(password) = headers.get("authorization") else { return StatusCode::NO_CONTENT };
        count.fetch_add(1, Relaxed);
        if password == "Bearer 9999" { StatusCode::METHOD_NOT_ALLOWED } else { StatusCode::UNAUTHORIZED }
    };
    let app = Router::new().route("/login", any(login)).route_layer(limit);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, app).into_future());
    (address, checked)
}

/// Sends requests from a loopback address without waiting for responses, and returns the statuses.
async fn statuses(from: [u8; 4], to: SocketAddr, requests: impl Iterator<Item = String>) -> Vec<u16> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let (mut answers, mut connection) = socket.connect(to).await.unwrap().into_split();
    let mut requests: String = requests.collect();
    requests.push_str("GET /absent HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    let writer = tokio::spawn(async move {
        connection.write_all(requests.as_bytes()).await.unwrap();
        connection
    });
    let mut text = Vec::new();
    within_a_minute("end of the responses", answers.read_to_end(&mut text)).await.unwrap();
    writer.await.unwrap();
    let text = String::from_utf8(text).unwrap();
    let statuses = text.split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].parse().unwrap());
    let mut statuses: Vec<_> = statuses.collect();
    statuses.pop();
    statuses
}

fn request(method: &str, more: &str) -> String {
    format!("{method} /login HTTP/1.1\r\nhost: a\r\n{more}\r\n")
}

fn preflight(more: &str) -> String {
    request("OPTIONS", &format!("origin: https://a.example\r\naccess-control-request-method: POST\r\n{more}"))
}

fn guesses() -> impl Iterator<Item = String> {
    (0..GUESSES).map(|guess| preflight(&format!("authorization: Bearer {guess}\r\n")))
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|other| **other == status).count()
}

const ATTACKER: [u8; 4] = [127, 0, 0, 66];
const BROWSER: [u8; 4] = [127, 0, 0, 1];

#[tokio::test]
async fn guesses_sent_as_preflights_are_limited() {
    let (address, checked) = serve(by_address()).await;
    let answers = statuses(ATTACKER, address, guesses()).await;
    let limit = usize::try_from(LIMIT).unwrap();
    assert_eq!((count(&answers, 401), count(&answers, 429)), (limit, GUESSES - limit));
    assert_eq!(checked.load(Relaxed), limit);

    // Sent as `POST`, the guesses are charged to the budget of requests, and no more than it passes.
    let posts = (0..GUESSES).map(|guess| request("POST", &format!("authorization: Bearer {guess}\r\n")));
    let answers = statuses(ATTACKER, address, posts.take(100)).await;
    assert_eq!((count(&answers, 401), count(&answers, 429)), (limit, 100 - limit));
    assert_eq!(checked.load(Relaxed), 2 * limit);

    // The two budgets suffice for a browser that sends a preflight before each request.
    let page = (0..LIMIT).flat_map(|_| [preflight(""), request("POST", "content-length: 0\r\n")]);
    assert_eq!(statuses(BROWSER, address, page).await, [204; 2 * LIMIT as usize]);
}

#[tokio::test]
async fn a_preflight_without_a_key_passes_only_without_credentials() {
    let (address, checked) =
        serve(Limiter::memory().layer(policy("key").by(Header::named("x-api-key")))).await;
    let answers = statuses(ATTACKER, address, guesses().take(1_000)).await;
    assert_eq!(count(&answers, 400), 1_000);
    assert_eq!(checked.load(Relaxed), 0);
    for credentials in ["authorization:\r\n", "proxy-authorization: Basic YTpi\r\n", "cookie: sid=1\r\n"] {
        assert_eq!(statuses(ATTACKER, address, [preflight(credentials)].into_iter()).await, [400]);
    }
    let empty = preflight("").replace("https://a.example", "");
    assert_eq!(statuses(ATTACKER, address, [preflight(""), empty].into_iter()).await, [204, 400]);
}

#[tokio::test]
async fn guesses_sent_as_preflights_start_no_look_up() {
    let looked_up = Arc::<AtomicUsize>::default();
    let count_up = Arc::clone(&looked_up);
    let tenant = move |_: &axum::http::request::Parts| {
        count_up.fetch_add(1, Relaxed);
        async { Ok(Lookup::missing()) }
    };
    let limit = by_address().and(policy("tenant").by_async(tenant));
    let (address, checked) = serve(limit).await;
    let answers = statuses(ATTACKER, address, guesses().take(1_000)).await;
    let limit = usize::try_from(LIMIT).unwrap();
    assert_eq!((count(&answers, 401), count(&answers, 429)), (limit, 1_000 - limit));
    assert_eq!((checked.load(Relaxed), looked_up.load(Relaxed)), (limit, 0));
}
