//! A server that lies about when it takes requests again.

use axum::extract::Path;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use portcullis::key::{Identity, KeyError, KeyWriter};
use portcullis::outgoing::{RemainingHeaders, ResetFormat};

use super::*;

/// What the server answers, by the number in the path: a status, and headers.
fn lies() -> Vec<(u16, Vec<(&'static str, String)>)> {
    let header = |name, value: &str| vec![(name, value.to_owned())];
    let reset = |remaining: &str, reset: &str| {
        vec![("x-ratelimit-remaining", remaining.to_owned()), ("x-ratelimit-reset", reset.to_owned())]
    };
    vec![
        (429, header("retry-after", "99999999999999999999999")),
        (429, header("retry-after", "31536000")),
        (429, header("retry-after", "-1")),
        (429, header("retry-after", "tomorrow")),
        (429, header("retry-after", "")),
        (429, header("retry-after", "0")),
        (429, header("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")),
        (429, header("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")),
        (429, header("retry-after", "Fri, 30 Feb 2024 25:61:61 GMT")),
        (429, header("retry-after", &"9".repeat(60_000))),
        (429, header("ratelimit", &format!(r#""a";r=0;t={}"#, "9".repeat(15)))),
        (429, header("ratelimit", &r#""a";r=0;t=1, "#.repeat(2_000))),
        (429, (0..90).map(|number| ("retry-after", number.to_string())).collect()),
        (503, header("retry-after", "31536000")),
        (503, header("retry-after", "garbage")),
        (200, reset("0", "99999999999999")),
        (200, reset("-7", "5")),
        (200, reset("1000000", "5")),
        (200, reset("0", "\u{e4}")),
        (200, header("grpc-status", "8")),
        (200, vec![("grpc-status", "8".to_owned()), ("grpc-status-details-bin", "%%%".to_owned())]),
        (200, vec![("grpc-status", "8".to_owned()), ("grpc-retry-pushback-ms", "99999999999".to_owned())]),
    ]
}

async fn answer(Path(number): Path<usize>) -> (StatusCode, HeaderMap) {
    let (status, headers) = lies().swap_remove(number);
    let headers = headers.into_iter().map(|(name, value)| {
        (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    });
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name, value);
    }
    (StatusCode::from_u16(status).unwrap(), map)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_lie_keeps_a_key_closed_beyond_the_cap() {
    let url = serve(Router::new().route("/{number}", get(answer))).await;
    let cap = Duration::from_millis(1_500);
    let limiter = Limiter::memory();
    let policy = Policy::gcra("peer", Quota::per_second(1_000).burst(1_000));
    // Each lie has a key of its own.
    let path = |parts: &Parts, key: &mut KeyWriter<'_>| {
        key.part("path", parts.uri.path().as_bytes());
        Ok::<_, KeyError>(Identity::Found)
    };
    let layer = limiter
        .outgoing(policy.clone())
        .by(path)
        .closed_at_most(cap)
        .close_at_zero()
        .remaining_headers(RemainingHeaders::x_ratelimit(ResetFormat::UnixSeconds));
    let worker = Worker::new(&layer);
    for (number, (status, headers)) in lies().iter().enumerate() {
        let url = format!("{url}/{number}");
        assert_eq!(worker.get(&url).await.unwrap().as_u16(), *status, "answers are passed on: {headers:?}");
        // In this process, and in the store.
        if let Err(error) = worker.get(&url).await {
            assert!(error.retry_after().unwrap() <= cap, "{headers:?}");
        }
        let key = limiter.key(|key| key.part("path", format!("/{number}").as_bytes())).unwrap();
        let known = limiter.peek(&policy.clone().allow_overrides(), key).await.unwrap();
        assert!(!known.is_blocked() || known.reset_after() <= cap, "{headers:?}");
    }
}

/// The server refuses everything, and states that it takes the next request at once. Each request waits for a second, and none is
/// repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_always_refuses_gets_no_repetition() {
    let arrived = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&arrived);
    let app = Router::new().fallback(move || {
        count.fetch_add(1, Relaxed);
        std::future::ready((StatusCode::TOO_MANY_REQUESTS, [("retry-after", "0")]))
    });
    let url = serve(app).await;
    let policy = Policy::gcra("peer", Quota::per_second(1_000).burst(1_000));
    let layer = Limiter::memory().outgoing(policy).at_most(Duration::from_secs(20));
    let worker = Worker::new(&layer.closed_without_hint(Duration::from_millis(200)));
    for _ in 0..3 {
        assert_eq!(worker.get(&url).await.unwrap(), 429);
    }
    assert_eq!(arrived.load(Relaxed), 3);
}
