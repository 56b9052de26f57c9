//! The limits on single requests, around the routers.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use http_body_util::Limited;
use tonic::Status;

use super::bodies::Bodies;
use super::{Limits, Place};

/// Bounds the bodies and the times of all requests of a router.
pub(super) fn guarded(router: Router, place: Place, limits: &Limits) -> Router {
    let (bytes, timeout) = (limits.body_bytes(), limits.per_request());
    let is_grpc = place == Place::Grpc;
    let bodies = Bodies::new(bytes);
    router.layer(from_fn(move |request: Request, next: Next| {
        let held = bodies.hold();
        async move {
            let request = request.map(|body| held.body(body));
            let request = if is_grpc {
                // Its services bound each message, and a stream of them has no end.
                request
            } else if declared(request.headers()).is_some_and(|length| length > bytes) {
                return (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n").into_response();
            } else {
                request.map(|body| Body::new(Limited::new(body, bytes)))
            };
            let answer = tokio::time::timeout(timeout, next.run(request)).await;
            let is_refused = held.answered();
            match answer {
                _ if is_refused && is_grpc => Status::resource_exhausted(NO_ROOM).into_http(),
                _ if is_refused => (StatusCode::SERVICE_UNAVAILABLE, format!("{NO_ROOM}\n")).into_response(),
                Ok(response) => response,
                Err(_) if is_grpc => Status::deadline_exceeded(TOO_LONG).into_http(),
                Err(_) => (StatusCode::SERVICE_UNAVAILABLE, format!("{TOO_LONG}\n")).into_response(),
            }
        }
    }))
}

const NO_ROOM: &str = "the bodies of other requests take all room";
const TOO_LONG: &str = "the request takes too long";

/// The length that a request declares.
fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll};

    use axum::body::Bytes;
    use axum::extract::DefaultBodyLimit;
    use axum::routing::post;
    use http_body::Frame;
    use tower::ServiceExt as _;

    use super::*;

    /// A body that does not end.
    struct Endless(Option<Bytes>);

    impl http_body::Body for Endless {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
        }
    }

    #[tokio::test]
    async fn bodies_of_all_requests_have_one_bound() {
        let limits = Limits::default().max_body_bytes(64 << 20);
        for (place, status, code) in [(Place::Http, 503, None), (Place::Grpc, 200, Some("8"))] {
            let reads = Router::new().route("/", post(async |_: Bytes| ()));
            let router = guarded(reads.layer(DefaultBodyLimit::disable()), place, &limits);
            let ask = |body| router.clone().oneshot(Request::post("/").body(body).unwrap());
            let bytes = |mebibytes: usize| Bytes::from(vec![0; mebibytes << 20]);
            {
                let mut first = pin!(ask(Body::new(Endless(Some(bytes(48))))));
                let is_waiting = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx).is_pending())).await;
                assert!(is_waiting);
                let refused = ask(bytes(17).into()).await.unwrap();
                assert_eq!(refused.status(), status);
                assert_eq!(refused.headers().get("grpc-status").map(|code| code.to_str().unwrap()), code);
                assert_eq!(ask(bytes(16).into()).await.unwrap().status(), 200, "there is room for it");
            }
            assert_eq!(ask(bytes(17).into()).await.unwrap().status(), 200, "the first one has ended");
        }
    }
}
