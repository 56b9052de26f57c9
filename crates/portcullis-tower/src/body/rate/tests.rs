//! Bodies whose chunks a client sends at their times, in simulated time.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, advance, sleep};

use super::*;

/// A body of chunks that a task sends.
struct Sent(mpsc::UnboundedReceiver<usize>);

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|size| size.map(|size| Ok(Frame::data(vec![0; size].into()))))
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn request(method: Method, content_type: &'static str) -> (mpsc::UnboundedSender<usize>, RatedBody<Sent>) {
    request_at(BodyRate::default(), method, content_type)
}

fn request_at(
    rate: BodyRate,
    method: Method,
    content_type: &'static str,
) -> (mpsc::UnboundedSender<usize>, RatedBody<Sent>) {
    let (sender, sent) = mpsc::unbounded_channel();
    let request = Request::builder().method(method).header("content-type", content_type);
    let request = request.body(Sent(sent)).unwrap();
    (sender, rate.watch(request).into_body())
}

/// Sends chunks of a size at an interval and reads them at once. Returns after how many seconds the body is too slow, or `None` if it is not
/// within five minutes.
async fn slow_after(size: usize, every: u64) -> Option<u64> {
    let (sender, mut body) = request(Method::POST, "text/plain");
    let start = Instant::now();
    let client = tokio::spawn(async move {
        for _ in 0..300 / every {
            sleep(seconds(every)).await;
            let _ = sender.send(size);
        }
    });
    let error = loop {
        match body.frame().await {
            None => return None,
            Some(Ok(_)) => {}
            Some(Err(error)) => break error,
        }
    };
    let text = "the client sends the body of its request too slowly: less than 1920 bytes in 30s";
    assert_eq!(error.downcast::<SlowBody>().unwrap().to_string(), text);
    assert!(body.is_end_stream() && body.size_hint().exact() == Some(0) && body.frame().await.is_none());
    client.abort();
    Some(start.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn too_few_bytes_in_time_end_a_body() {
    assert_eq!(slow_after(0, 400).await, None, "the client has ended it");
    assert_eq!(slow_after(1, 1).await, Some(30));
    assert_eq!(slow_after(63, 1).await, Some(30));
    assert_eq!(slow_after(70, 1).await, None);
    assert_eq!(slow_after(1_919, 40).await, Some(30), "silent");
    assert_eq!(slow_after(1_920, 29).await, None);
}

#[tokio::test(start_paused = true)]
async fn silent_body_ends_after_30_s() {
    let (sender, mut body) = request(Method::POST, "");
    // A client that was fast has no more time than another one.
    sender.send(1 << 20).unwrap();
    assert!(body.frame().await.unwrap().is_ok());
    let start = Instant::now();
    assert!(body.frame().await.unwrap().is_err());
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn handler_that_does_not_read_is_not_counted() {
    let (sender, mut body) = request(Method::POST, "");
    let mut is_waiting = || pin!(body.frame()).poll(&mut Context::from_waker(Waker::noop())).is_pending();
    for _ in 0..5 {
        // Before it waits, and where it began to wait and went on with something else.
        advance(seconds(40)).await;
        assert!(is_waiting());
        sender.send(1).unwrap();
        advance(seconds(40)).await;
        assert!(!is_waiting());
    }
    assert!(is_waiting());
    advance(seconds(31)).await;
    assert!(body.frame().await.unwrap().is_err(), "nothing has arrived since");
}

#[tokio::test(start_paused = true)]
async fn only_proven_grpc_may_be_silent() {
    let (default, open) = (BodyRate::default(), BodyRate::default().allow_silent_grpc());
    let grpc = Some("application/grpc");
    for (rate, method, content_type, answer, may_be_silent) in [
        (default, Method::POST, "application/grpc", grpc, true),
        (default, Method::POST, "application/grpc-web", Some("application/grpc-web+proto"), true),
        (default, Method::POST, "application/grpc", None, false),
        (default, Method::POST, "application/grpc", Some("application/grpcish"), false),
        (default, Method::POST, "application/grpc+proto", Some("application/json"), false),
        (default, Method::POST, "application/json", grpc, false),
        (default, Method::GET, "application/grpc", grpc, false),
        (default, Method::CONNECT, "", None, false),
        (default, Method::PUT, "", None, false),
        (open, Method::POST, "application/grpc", None, true),
        (open, Method::POST, "application/json", None, false),
        (open, Method::CONNECT, "application/grpc", None, false),
    ] {
        let what = format!("{method} {content_type} {answer:?}");
        let (sender, mut body) = request_at(rate, method, content_type);
        let claim = body.grpc_claim();
        let mut frame = pin!(body.frame());
        // The response comes while the handler waits for the body.
        assert!(tokio::time::timeout(seconds(20), &mut frame).await.is_err());
        if let (Some(claim), Some(answer)) = (claim, answer) {
            claim.answered(&HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(answer))]));
        }
        let ended = tokio::time::timeout(seconds(3_600), &mut frame).await;
        assert_eq!(ended.is_err(), may_be_silent, "{what}");
        if may_be_silent {
            sender.send(1).unwrap();
            assert!(frame.await.unwrap().is_ok(), "{what}");
        }
    }
}

#[test]
fn body_outside_of_runtime_may_be_silent() {
    let (_sender, mut body) = request(Method::POST, "");
    assert!(pin!(body.frame()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[cfg(feature = "axum")]
#[tokio::test(start_paused = true)]
async fn erased_bodies_are_wrapped() {
    async fn is_watched<B>(body: impl FnOnce(RatedBody<Sent>) -> B) -> bool
    where
        B: Body + Unpin + 'static,
    {
        let (sender, sent) = mpsc::unbounded_channel();
        let (parts, ()) = Request::post("/").body(()).unwrap().into_parts();
        let (mut body, _) = rated(BodyRate::default(), &parts, body(RatedBody::new(Sent(sent), None)));
        let is_watched = tokio::time::timeout(seconds(60), body.frame()).await.is_ok();
        drop(sender);
        is_watched
    }
    assert!(is_watched(axum::body::Body::new).await);
    #[cfg(feature = "tonic")]
    assert!(is_watched(tonic::body::Body::new).await);
    assert!(is_watched(http_body_util::BodyExt::boxed_unsync).await);
    assert!(!is_watched(|body| body).await, "its type has no room for another one");
}
