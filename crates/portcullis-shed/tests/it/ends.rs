//! When a request is not in flight any more.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Full};
use portcullis_shed::{ShedLayer, ShedPermit};
use portcullis_tower::matching::RequestPath;
use tokio::sync::mpsc;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::{Held, get, of_ten, start};
use crate::support::{Probe, registry};

/// A body of rows that the test sends.
struct Rows(mpsc::Receiver<Bytes>);

impl Body for Rows {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|row| row.map(|row| Ok(Frame::data(row))))
    }
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_body_has_ended() {
    let layer = of_ten(&registry());
    let (chunks, streamed) = mpsc::channel(2);
    let streamed = Arc::new(Mutex::new(Some(streamed)));
    let service = layer.layer(service_fn(move |_: Request<String>| {
        let rows = Rows(streamed.lock().unwrap().take().unwrap());
        async { Ok::<_, Infallible>(Response::new(rows)) }
    }));
    let mut body = service.oneshot(get("/")).await.unwrap().into_body();
    chunks.send(Bytes::from("row")).await.unwrap();
    assert!(body.frame().await.is_some() && layer.in_flight() == 1);
    drop(chunks);
    assert!(body.frame().await.is_none() && layer.in_flight() == 0, "although the body still exists");
}

#[tokio::test]
async fn the_last_frame_of_a_body_ends_the_request() {
    let layer = of_ten(&registry());
    let mut body = layer.layer(Probe::default()).oneshot(get("/")).await.unwrap().into_body();
    assert!(!body.is_end_stream() && layer.in_flight() == 1);
    assert!(body.frame().await.is_some());
    assert!(body.is_end_stream() && layer.in_flight() == 0);
}

#[tokio::test]
async fn excepted_requests_pass_uncounted() {
    let layer = ShedLayer::new(&registry(), 1..=1).except(RequestPath::exact("/health"));
    let (held, probed) = (Held::new(), layer.layer(Probe::default()));
    let _slow = start(&layer.layer(held.clone()), get("/pay")).await;
    let status = async |path| probed.clone().oneshot(get(path)).await.unwrap().status();
    assert_eq!((status("/pay").await.as_u16(), status("/health").await.as_u16()), (503, 200));
    // What cannot be compared is not excepted.
    assert_eq!(status("/x/../health").await, 503);
    assert_eq!(layer.in_flight(), 1);
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_request() {
    let (held, layer) = (Held::new(), of_ten(&registry()));
    let service = layer.layer(held.clone());
    let started = start(&service, get("/")).await;
    assert_eq!(layer.in_flight(), 1);
    started.abort();
    assert!(started.await.unwrap_err().is_cancelled());
    assert_eq!(layer.in_flight(), 0, "before the head");

    let answered = layer.layer(Probe::default()).oneshot(get("/")).await.unwrap();
    assert_eq!(layer.in_flight(), 1);
    drop(answered);
    assert_eq!(layer.in_flight(), 0, "during the body");
}

#[tokio::test]
async fn release_at_headers_ends_a_request_at_its_head() {
    let layer = of_ten(&registry()).release_at_headers();
    let answer = layer.layer(Probe::default()).oneshot(get("/")).await.unwrap();
    assert_eq!(layer.in_flight(), 0);
    drop(answer);
}

#[tokio::test]
async fn a_handler_keeps_the_permit_of_an_upgrade() {
    let layer = of_ten(&registry()).leave_permit();
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    let service = layer.layer(service_fn(move |mut request: Request<String>| {
        keep.lock().unwrap().push(request.extensions_mut().remove::<ShedPermit>().unwrap());
        async { Ok::<_, Infallible>(Response::builder().status(101).body(Full::<Bytes>::default()).unwrap()) }
    }));
    drop(service.oneshot(get("/")).await.unwrap());
    assert_eq!(layer.in_flight(), 1, "after the response");
    kept.lock().unwrap().clear();
    assert_eq!(layer.in_flight(), 0);
}

#[tokio::test]
async fn a_permit_is_that_of_all_layers() {
    let (outer, inner) = (of_ten(&registry()).leave_permit(), of_ten(&registry()).leave_permit());
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let service = outer.layer(inner.layer(service_fn(move |mut request: Request<String>| {
        *keep.lock().unwrap() = request.extensions_mut().remove::<ShedPermit>();
        async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::default())) }
    })));
    drop(service.oneshot(get("/")).await.unwrap());
    assert_eq!((outer.in_flight(), inner.in_flight()), (1, 1), "after the response");
    *kept.lock().unwrap() = None;
    assert_eq!((outer.in_flight(), inner.in_flight()), (0, 0));
}

#[tokio::test]
async fn a_permit_that_is_not_kept_changes_nothing() {
    let (held, layer) = (Held::new(), of_ten(&registry()).leave_permit());
    let service = layer.layer(held.clone());
    let started = start(&service, get("/")).await;
    assert_eq!(layer.in_flight(), 1);
    held.finish(1);
    let answered = started.await.unwrap();
    assert_eq!(layer.in_flight(), 1, "until the end of the body");
    drop(answered);
    assert_eq!(layer.in_flight(), 0);
    let left = start(&service, get("/")).await;
    left.abort();
    assert!(left.await.unwrap_err().is_cancelled());
    assert_eq!(layer.in_flight(), 0);
}

#[tokio::test]
async fn errors_and_panics_end_the_request() {
    let layer = of_ten(&registry());
    let failing = layer.layer(service_fn(async |_: Request<String>| Err::<Response<Full<Bytes>>, _>("no")));
    assert_eq!(failing.oneshot(get("/")).await.unwrap_err(), "no");
    assert_eq!(layer.in_flight(), 0);

    let in_future =
        layer.layer(service_fn(async |_: Request<String>| -> Result<Response<Full<Bytes>>, Infallible> {
            tokio::task::yield_now().await;
            panic!("in the future")
        }));
    assert!(tokio::spawn(in_future.oneshot(get("/"))).await.unwrap_err().is_panic());
    assert_eq!(layer.in_flight(), 0);

    let at_once = layer.layer(service_fn(
        |_: Request<String>| -> std::future::Ready<Result<Response<Full<Bytes>>, Infallible>> {
            panic!("in the call")
        },
    ));
    assert!(tokio::spawn(at_once.oneshot(get("/"))).await.unwrap_err().is_panic());
    assert_eq!(layer.in_flight(), 0);
}
