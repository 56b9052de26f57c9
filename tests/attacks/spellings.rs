//! One credential in several spellings, over HTTP/2, where no parser has removed whitespace.

use std::net::Ipv4Addr;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::{self, Next};
use axum::{Router, routing::get};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use portcullis::key::{Bearer, Cookie, Extension, Header, Host, KeyExtractor, PathKey};
use portcullis::{Limiter, Policy, PolicyExt as _, RateLimitLayer};
use portcullis_tests::per_half_century;
use tokio::net::{TcpListener, TcpStream};

type Client = SendRequest<Empty<Bytes>>;

fn one_request(key: impl KeyExtractor) -> RateLimitLayer {
    Limiter::memory().layer(Policy::fixed_window("all", per_half_century(1)).by(key))
}

async fn serve(app: Router) -> Client {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    tokio::spawn(axum::serve(listener, app).into_future());
    let (client, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn limited(key: impl KeyExtractor) -> Client {
    // Asserts that the value arrives as it was sent.
    let handler = |request: Request| async move {
        let sent = request.headers().get("x-sent").unwrap().to_str().unwrap().to_owned();
        let value = request.headers()["x-name"].to_str().unwrap().to_owned();
        assert_eq!(format!("{:?}", request.headers()[value.as_str()].to_str().unwrap()), sent);
    };
    serve(Router::new().route("/", get(handler)).layer(one_request(key))).await
}

async fn status(client: &mut Client, name: &str, value: &str) -> u16 {
    client.ready().await.unwrap();
    let request = Request::get("http://localhost/")
        .header(name, HeaderValue::from_str(value).unwrap())
        .header("x-name", name)
        .header("x-sent", format!("{value:?}"))
        .body(Empty::new())
        .unwrap();
    client.send_request(request).await.unwrap().status().as_u16()
}

/// The number of budgets that these spellings use.
async fn budgets(client: &mut Client, name: &str, spellings: &[&str]) -> usize {
    let mut budgets = 0;
    for spelling in spellings {
        match status(client, name, spelling).await {
            200 => budgets += 1,
            other => assert_eq!(other, 429, "{spelling:?}"),
        }
    }
    budgets
}

#[tokio::test]
async fn blanks_around_a_value_do_not_change_the_key() {
    let mut client = limited(Header::named("x-api-key")).await;
    assert_eq!(budgets(&mut client, "x-api-key", &["k ", "k", " k", "\tk", "k\t", " \tk \t "]).await, 1);
    let mut client = limited(Bearer).await;
    let spellings = ["Bearer t ", "Bearer t", " Bearer t", "\tbearer\tt\t", "BEARER   t", "Bearer \t t"];
    assert_eq!(budgets(&mut client, "authorization", &spellings).await, 1);
    let mut client = limited(Cookie::named("sid")).await;
    let spellings = ["sid=1 ", "sid=1", " sid=1", "\tsid\t=\t1\t", "sid=1 ;", " ; sid= 1"];
    assert_eq!(budgets(&mut client, "cookie", &spellings).await, 1);
}

/// The statuses of one request after the other, with a budget of one request for each key.
async fn statuses(key: impl KeyExtractor, targets: &[&str]) -> Vec<u16> {
    let mut client = serve(Router::new().fallback(|| async {}).layer(one_request(key))).await;
    let mut statuses = Vec::new();
    for target in targets {
        client.ready().await.unwrap();
        let request = Request::get(*target).body(Empty::new()).unwrap();
        statuses.push(client.send_request(request).await.unwrap().status().as_u16());
    }
    statuses
}

#[tokio::test]
async fn spellings_of_path_and_host_are_one_budget() {
    let paths = [
        "http://localhost/channels/a-b",
        "http://localhost/Channels/A-B",
        "http://localhost/channels/%61-b?x=1",
        "http://localhost/channels/%2561-b",
        "http://localhost/channels//a-b/",
        "http://localhost/channels/a-b;x=1",
        "http://localhost/channels%2Fa-b.",
    ];
    for key in [PathKey::whole(), PathKey::of("/channels/{channel}")] {
        assert_eq!(statuses(key, &paths).await, [200, 429, 429, 429, 429, 429, 429]);
    }
    // In one of the two a server finds the channel that is used up.
    let odd = [
        "http://localhost/channels/a",
        "http://localhost/channels/x%3F/../a",
        "http://localhost/channels/y/../a",
    ];
    assert_eq!(statuses(PathKey::of("/channels/{channel}"), &odd).await, [200, 400, 429]);
    assert_eq!(statuses(PathKey::whole(), &odd).await, [200, 400, 400]);
    let hosts = ["http://a.example/", "http://A.example:8080/", "http://a.example./x", "http://b.example/"];
    assert_eq!(statuses(Host, &hosts).await, [200, 429, 429, 200]);
}

/// The verifier normalises padding: what it has verified is one key, while the value as sent is one key per spelling.
#[tokio::test]
async fn padding_does_not_change_the_key_that_the_verifier_sets() {
    #[derive(Clone)]
    struct Token(Vec<u8>);

    let spellings = ["Bearer t", "Bearer t=", "Bearer t=="];
    let verify = async |mut request: axum::extract::Request, next: Next| {
        let sent = request.headers()["authorization"].as_bytes();
        let token = sent.split(|byte| *byte == b' ').next_back().unwrap_or_default();
        let end = token.iter().position(|byte| *byte == b'=').unwrap_or(token.len());
        let found = Token(token[..end].to_vec());
        request.extensions_mut().insert(found);
        next.run(request).await
    };
    let by_token = Extension::<Token>::with(|token, key| key.part("token", &token.0));
    let app = Router::new().route("/", get(async || "")).layer(one_request(by_token));
    let mut client = serve(app.layer(middleware::from_fn(verify))).await;
    assert_eq!(budgets(&mut client, "authorization", &spellings).await, 1);

    let mut client = limited(Bearer).await;
    assert_eq!(budgets(&mut client, "authorization", &spellings).await, spellings.len());
}
