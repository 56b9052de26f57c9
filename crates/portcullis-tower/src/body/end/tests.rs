use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Empty, Full};

use super::{BodyEnd, BodyObserver};
use crate::ResponseBody;

type Step = Result<Frame<Bytes>, &'static str>;

/// Returns what is left, each after one poll without a frame. `knows_its_end` is whether it reports that nothing is left.
struct Steps {
    left: VecDeque<&'static str>,
    knows_its_end: bool,
    is_pending: bool,
}

impl Body for Steps {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Step>> {
        self.is_pending = !self.is_pending;
        if self.is_pending { Poll::Pending } else { Poll::Ready(self.left.pop_front().map(step)) }
    }

    fn is_end_stream(&self) -> bool {
        self.knows_its_end && self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl BodyObserver for Log {
    fn trailers(&mut self, trailers: &HeaderMap) {
        self.0.lock().unwrap().push(format!("{} trailers", trailers.len()));
    }

    fn ended(self: Box<Self>, end: BodyEnd) {
        self.0.lock().unwrap().push(format!("{end:?}"));
    }
}

/// An error, trailers, or data.
fn step(text: &'static str) -> Step {
    let etag = (http::header::ETAG, http::HeaderValue::from_static("a"));
    match text {
        "error" => Err("broken"),
        "trailers" => Ok(Frame::trailers(HeaderMap::from_iter([etag]))),
        data => Ok(Frame::data(Bytes::from_static(data.as_bytes()))),
    }
}

/// Polls `body` for `frames` frames, drops it, and returns what was observed before and after that.
fn observed<B>(mut body: ResponseBody<B>, length: Option<u64>, frames: usize) -> (Vec<String>, Vec<String>)
where
    B: Body<Data = Bytes> + Unpin,
{
    let log = Log::default();
    body.observe(length, Box::new(log.clone()));
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..frames {
        while Pin::new(&mut body).poll_frame(&mut cx).is_pending() {}
    }
    let before = log.take();
    drop(body);
    (before, log.take())
}

fn steps<const N: usize>(knows_its_end: bool, left: [&'static str; N]) -> ResponseBody<Steps> {
    ResponseBody::inner(Steps { left: left.into(), knows_its_end, is_pending: false })
}

fn assert_ends((before, after): (Vec<String>, Vec<String>), polled: &[&str], dropped: &[&str]) {
    assert_eq!(before, polled);
    assert_eq!(after, dropped);
}

#[test]
fn a_body_is_complete_when_it_returns_none_once() {
    assert_ends(observed(steps(false, ["a", "b"]), None, 4), &["Complete"], &[]);
}

#[test]
fn trailers_complete_a_body() {
    assert_ends(observed(steps(false, ["a", "trailers"]), None, 2), &["1 trailers", "Complete"], &[]);
}

#[test]
fn a_skipped_last_poll_counts_as_complete() {
    assert_ends(observed(steps(true, ["a", "b"]), None, 2), &["Complete"], &[]);
    let full = ResponseBody::inner(Full::new(Bytes::from_static(b"a")));
    assert_ends(observed(full, None, 1), &["Complete"], &[]);
}

#[test]
fn the_stated_length_completes_a_body_that_is_dropped() {
    assert_ends(observed(steps(false, ["ab", "c"]), Some(3), 2), &[], &["Complete"]);
    assert_ends(observed(steps(false, ["ab", "c"]), Some(3), 1), &[], &["Dropped"]);
    let grpc = steps(false, ["abc", "trailers"]);
    assert_ends(observed(grpc, Some(3), 2), &["1 trailers", "Complete"], &[]);
}

#[test]
fn a_body_without_a_frame_is_complete_once_a_server_knows() {
    for body in [ResponseBody::inner(Empty::new()), ResponseBody::<Empty<Bytes>>::rejection(Full::default())]
    {
        let log = Log::default();
        let mut body = body;
        body.observe(None, Box::new(log.clone()));
        assert!(body.is_end_stream());
        drop(body);
        assert_eq!(log.take(), ["Complete"]);
    }
    let empty = |frames| observed(ResponseBody::inner(Empty::new()), None, frames);
    assert_ends(empty(1), &["Complete"], &[]);
    assert_ends(empty(0), &[], &["Dropped"]);
}

#[test]
fn an_error_ends_a_body_as_failed() {
    assert_ends(observed(steps(false, ["a", "error", "b"]), None, 4), &["Failed"], &[]);
}

#[test]
fn a_body_that_is_dropped_or_never_polled_is_dropped() {
    assert_ends(observed(steps(true, ["a", "b"]), None, 1), &[], &["Dropped"]);
    assert_ends(observed(steps(true, ["a"]), None, 0), &[], &["Dropped"]);
}

#[test]
fn an_observed_body_reports_size_and_end_of_the_inner_one() {
    let mut body = steps(true, ["a"]);
    body.observe(None, Box::<Log>::default());
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(1), false));
    let mut cx = Context::from_waker(Waker::noop());
    while Pin::new(&mut body).poll_frame(&mut cx).is_pending() {}
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));
}

#[test]
fn a_body_grows_by_one_pointer() {
    let plain = size_of::<ResponseBody<Steps>>() - size_of::<usize>();
    assert!(plain <= size_of::<Steps>().max(size_of::<Full<Bytes>>()) + size_of::<usize>());
}
