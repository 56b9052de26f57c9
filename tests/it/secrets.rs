//! No secret of a run remains in Redis, the log, responses or `Debug` output.

use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::{Request, request::Parts};
use axum::{Router, routing::get};
use portcullis::key::{Bearer, Cookie, Extension, Header, KeyExtractor as _, Lookup, Query, Trust};
use portcullis::{ClientIp, Limiter, OnMissing, Policy, PolicyExt as _, Quota, RateLimitLayer, Secret};
use portcullis_servers::RedisServer;
use portcullis_tests::set_global_subscriber;
use tower::ServiceExt as _;

/// Values in requests, each different from any other text in the output.
const VALUES: [&str; 8] = [
    "hdr-5ecret-Zq1",
    "tok-5ecret-Zq2",
    "cki-5ecret-Zq3",
    "qry-5ecret-Zq4",
    "usr-5ecret-Zq5",
    "ten-5ecret-Zq6",
    "203.0.113.77",
    "2001:db8:77:66",
];
const SECRET: [u8; 16] = *b"the-s3cret-bytes";

#[derive(Clone)]
struct User(&'static str);

impl AsRef<[u8]> for User {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

fn layers(limiter: &Limiter) -> Vec<RateLimitLayer> {
    let policy = |name| Policy::gcra(name, Quota::per_minute(1));
    let proxies = || ClientIp::behind(Trust::networks(["10.0.0.0/8"]));
    let tenant = |parts: &Parts| {
        let known = parts.headers.contains_key("x-api-key");
        async move { Ok(if known { Lookup::found("tenant", VALUES[5]) } else { Lookup::missing() }) }
    };
    vec![
        limiter.layer(policy("header").by(Header::named("x-api-key").credential("ApiKey"))),
        limiter.layer(policy("bearer").by(Bearer)),
        limiter.layer(policy("cookie").by(Cookie::named("sid").and(ClientIp::peer()))),
        limiter.layer(policy("query").by(Query::named("key"))),
        limiter.layer(policy("user").by(Extension::<User>::new()).on_missing(OnMissing::Shared)),
        limiter.layer(policy("tenant").by_async(tenant)),
        limiter.layer(policy("address").by(proxies().x_forwarded_for())),
        limiter.layer(policy("forwarded").by(proxies().forwarded())),
        limiter.layer(policy("single").by(proxies().header("x-real-ip"))),
    ]
}

/// A request with every value in its place, or with every place malformed.
fn request(malformed: bool) -> Request<Body> {
    let [header, token, cookie, query, user, _, ipv4, ipv6] = VALUES;
    let suffix = if malformed { "," } else { "" };
    let uri = if malformed { format!("/?key={query}&key={query}") } else { format!("/?key={query}") };
    let mut request = Request::get(uri)
        .header("x-api-key", header)
        .header("authorization", format!("Bearer {token}{suffix}"))
        .header("cookie", format!("sid={cookie}"))
        .header("x-forwarded-for", format!("{ipv4}{suffix}"))
        .header("forwarded", format!("for=\"[{ipv6}::1]\"{suffix}{suffix}"))
        .header("x-real-ip", format!("{ipv4}{suffix}"));
    if malformed {
        request = request.header("x-api-key", header).header("cookie", format!("sid={cookie}"));
    } else {
        request = request.extension(User(user));
    }
    request.extension(std::net::SocketAddr::from(([10, 0, 0, 1], 1))).body(Body::empty()).unwrap()
}

/// Everything that a client can see of a response.
async fn answer(app: &Router, malformed: bool) -> (u16, String) {
    let (parts, body) = app.clone().oneshot(request(malformed)).await.unwrap().into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (parts.status.as_u16(), format!("{:?} {}", parts.headers, String::from_utf8_lossy(&body)))
}

#[tokio::test]
async fn a_run_with_secrets_leaves_none_behind() {
    set_global_subscriber();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let redis = RedisServer::start().unwrap();
    let mut monitor = Command::new("redis-cli")
        .args(["-p", &redis.port().to_string(), "MONITOR"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !redis.cli(&["CLIENT", "LIST"]).unwrap().contains("cmd=monitor") {
        assert!(Instant::now() < end, "the monitor does not start");
    }

    let secret = Secret::new("2026", &SECRET).unwrap();
    let limiter =
        Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).secret("2026", &SECRET).await.unwrap();
    let mut seen = format!("{limiter:?} {secret:?} {:?} {:?}", Header::named("x"), ClientIp::peer());
    for layer in layers(&limiter) {
        write!(seen, "{layer:?}").unwrap();
        let app = Router::new().route("/", get(|| async { "inner" })).layer(layer);
        let (first, second, malformed) =
            (answer(&app, false).await, answer(&app, false).await, answer(&app, true).await);
        assert_eq!((first.0, second.0), (200, 429), "{}", first.1);
        seen += &(first.1 + &second.1 + &malformed.1);
    }
    assert_eq!(redis.cli(&["PING"]).unwrap(), "PONG");
    let keys = redis.cli(&["KEYS", "*"]).unwrap();
    drop(limiter);
    drop(redis);
    let mut dump = String::new();
    monitor.stdout.take().unwrap().read_to_string(&mut dump).unwrap();
    monitor.wait().unwrap();

    // The searched texts are not empty.
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(keys.lines().count() >= 9 && keys.contains(":2026:"), "{keys}");
    assert!(dump.to_lowercase().contains("\"evalsha\"") && dump.contains("PING"), "{dump}");
    assert!(
        log.contains("malformed identity") && seen.contains("ApiKey") && seen.contains("retry-after"),
        "{log}{seen}"
    );

    let hex = format!("{:032x}", u128::from_be_bytes(SECRET));
    let words = ["5ecret", "203.0.113.77", "2001:db8:77", "the-s3cret-bytes", hex.as_str()];
    for (place, text) in
        [("MONITOR", &dump), ("KEYS", &keys), ("the log", &log), ("an answer or Debug", &seen)]
    {
        for word in words {
            assert!(!text.to_lowercase().contains(word), "{word} is in {place}: {text}");
        }
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
