//! Reservations that are settled to the usage that the response states.

use std::sync::Mutex;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use portcullis_core::PolicyName;
use portcullis_tower::{Event, EventKind, UsageLoss};
use portcullis_usage::UsageReader;

use super::*;
use crate::support::mistake;

/// A response that states its usage as a language model does.
#[derive(Clone)]
struct Stated {
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    /// The frames, of which an empty one is an error.
    frames: Vec<&'static str>,
    /// How many frames the client reads before it leaves, if it does.
    leaves_after: Option<usize>,
    is_head: bool,
}

const EVENTS: &[(&str, &str)] = &[("content-type", "text/event-stream")];
const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
const OPENAI: &[&str] =
    &["data: {\"choices\": [{}]}\n\ndata: {\"usa", "ge\": {\"total_tokens\": 30}}\n\n", "data: [DONE]\n\n"];
const ANTHROPIC: &[&str] = &[
    "data: {\"message\": {\"usage\": {\"input_tokens\": 5, \"output_tokens\": 1}}}\n\n",
    "data: {\"usage\": {\"output_tokens\": 15}}\n\n",
];
/// A prompt that is larger than the reservation.
const LARGE: &[&str] = &[
    "data: {\"message\": {\"usage\": {\"input_tokens\": 400, \"output_tokens\": 1}}}\n\n",
    "data: {\"usage\": {\"output_tokens\": 15}}\n\n",
];

impl Stated {
    fn ok(frames: &[&'static str]) -> Self {
        Self { status: 200, headers: EVENTS, frames: frames.to_vec(), leaves_after: None, is_head: false }
    }

    /// Sends a request, and reads its response. Returns what is charged, and the losses.
    async fn charged(self, limit: Limit) -> (u64, Vec<UsageLoss>) {
        let setup = Setup::new(Mode::Ready);
        let lost = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lost);
        setup.registry.observe(Arc::new(move |event: &Event<'_>| {
            if let EventKind::UsageLost { policy, cause } = event.kind {
                assert_eq!(*policy, PolicyName::new("tokens").unwrap());
                seen.lock().unwrap().push(cause);
            }
        }));
        let Self { status, headers, frames, .. } = self.clone();
        let service = setup.layer_of(limit).layer(service_fn(move |_: Request<String>| {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(*name, *value);
            }
            std::future::ready(response.body(Frames(frames.iter().copied().collect())))
        }));
        let method = if self.is_head { Method::HEAD } else { Method::POST };
        let request = Request::builder().method(method).body(String::new()).unwrap();
        let mut body = service.oneshot(request).await.unwrap().into_body();
        let (mut read, mut passed) = (0, String::new());
        while self.leaves_after.is_none_or(|frames| read < frames)
            && let Some(Ok(frame)) = body.frame().await
        {
            read += 1;
            passed.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
        }
        assert_eq!(passed, self.frames[..read].concat(), "the bytes pass as they are");
        drop(body);
        let lost = lost.lock().unwrap().clone();
        (setup.charged("tokens").await, lost)
    }
}

struct Frames(VecDeque<&'static str>);

impl Body for Frames {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        let frame = self.0.pop_front();
        Poll::Ready(frame.map(|text| {
            if text.is_empty() { Err("broken") } else { Ok(Frame::data(Bytes::from_static(text.as_bytes()))) }
        }))
    }
}

fn reading(reader: UsageReader) -> Limit {
    limit("tokens").reserve(100).read_usage(reader)
}

#[tokio::test]
async fn stated_usage_is_charged() {
    for (reader, headers, frames, charged) in [
        (UsageReader::OPENAI, EVENTS, OPENAI, 30),
        (UsageReader::OPENAI, JSON, &["{\"usage\": {\"total_tokens\": 250}}"][..], 250),
        (UsageReader::OPENAI, JSON, &["{\"usage\": {\"total_tokens\": 0}}"], 0),
        (UsageReader::ANTHROPIC, EVENTS, ANTHROPIC, 20),
        (UsageReader::ANTHROPIC, EVENTS, LARGE, 415),
        (UsageReader::GEMINI, JSON, &["[{\"usageMetadata\": {\"totalTokenCount\"", ": 7}}]"], 7),
        (UsageReader::pointer("/meta/tokens").unwrap(), JSON, &["{\"meta\": {\"tokens\": 9", "}}"], 9),
    ] {
        let stated = Stated { headers, ..Stated::ok(frames) };
        assert_eq!(stated.charged(reading(reader.clone())).await, (charged, vec![]), "{reader}");
    }
}

#[tokio::test]
async fn cut_response_is_charged_what_is_known() {
    use OnAbort::{Nothing, Reservation, Used};

    for (reader, frames, leaves_after, on_abort, charged) in [
        (UsageReader::OPENAI, OPENAI, Some(1), Used, 100),
        (UsageReader::OPENAI, OPENAI, Some(2), Used, 30),
        (UsageReader::OPENAI, OPENAI, Some(2), Reservation, 100),
        (UsageReader::OPENAI, OPENAI, Some(2), Nothing, 0),
        (UsageReader::OPENAI, &[OPENAI[0], ""], None, Used, 100),
        (UsageReader::OPENAI, &[OPENAI[0], OPENAI[1], ""], None, Used, 30),
        (UsageReader::ANTHROPIC, ANTHROPIC, Some(1), Used, 100),
        (UsageReader::ANTHROPIC, LARGE, Some(1), Used, 401),
    ] {
        let limit = limit("tokens").reserve_or(100, on_abort).read_usage(reader.clone());
        let stated = Stated { leaves_after, ..Stated::ok(frames) };
        let expected = (charged, vec![]);
        assert_eq!(
            stated.charged(limit).await,
            expected,
            "{reader} {frames:?} {leaves_after:?} {on_abort:?}"
        );
    }
}

#[tokio::test]
async fn unread_usage_keeps_the_reservation() {
    let zstd = &[("content-type", "text/event-stream"), ("content-encoding", "zstd")];
    let gzip = &[("content-type", "text/event-stream"), ("content-encoding", "gzip")];
    for (headers, frames, loss) in [
        (EVENTS, &["data: {\"usage\": null}\n\ndata: [DONE]\n\n"][..], UsageLoss::Missing),
        (EVENTS, &[], UsageLoss::Missing),
        (EVENTS, &[LARGE[0]], UsageLoss::Missing),
        (&[], OPENAI, UsageLoss::ContentType),
        (&[("content-type", "text/plain")], OPENAI, UsageLoss::ContentType),
        (zstd, OPENAI, UsageLoss::Encoding),
        (gzip, OPENAI, UsageLoss::Damaged),
    ] {
        let stated = Stated { headers, ..Stated::ok(frames) };
        let reads = stated.charged(reading(UsageReader::OPENAI)).await;
        assert_eq!(reads, (100, vec![loss]), "{headers:?} {frames:?}");
    }
    // What is known is more than is reserved.
    let (charged, lost) = Stated::ok(&LARGE[..1]).charged(reading(UsageReader::ANTHROPIC)).await;
    assert_eq!((charged, lost), (401, vec![UsageLoss::Missing]));
}

#[tokio::test]
async fn failed_response_is_charged_nothing() {
    let error = &["{\"error\": {\"message\": \"no such model\"}}"][..];
    for (status, charged, lost) in [
        (500, 0, vec![]),
        (429, 0, vec![]),
        (302, 0, vec![]),
        (400, 0, vec![]),
        // What is behind the gateway may have done its work.
        (504, 100, vec![UsageLoss::Missing]),
        (201, 100, vec![UsageLoss::Missing]),
    ] {
        let stated = Stated { status, headers: JSON, ..Stated::ok(error) };
        assert_eq!(stated.charged(reading(UsageReader::OPENAI)).await, (charged, lost), "{status}");
        let stated = Stated { status, headers: JSON, leaves_after: Some(0), ..Stated::ok(error) };
        assert_eq!(stated.charged(reading(UsageReader::OPENAI)).await, (charged, vec![]), "{status}, cut");
        let stated = Stated { status, headers: JSON, ..Stated::ok(&["{\"usage\": {\"total_tokens\": 8}}"]) };
        assert_eq!(stated.charged(reading(UsageReader::OPENAI)).await, (8, vec![]), "{status}, with a usage");
    }
}

#[tokio::test]
async fn response_without_body_keeps_the_reservation() {
    for stated in [
        Stated { is_head: true, headers: JSON, ..Stated::ok(&[]) },
        Stated { status: 204, headers: &[], ..Stated::ok(&[]) },
        Stated { status: 101, headers: &[], ..Stated::ok(&[]) },
    ] {
        let status = stated.status;
        assert_eq!(stated.charged(reading(UsageReader::OPENAI)).await, (100, vec![]), "{status}");
    }
}

#[tokio::test]
async fn uncharged_outcome_refunds_what_was_read() {
    let limit = reading(UsageReader::OPENAI).charge_when(|outcome| outcome.status() != 200);
    assert_eq!(Stated::ok(OPENAI).charged(limit).await, (0, vec![]));
}

#[tokio::test]
async fn policies_read_at_places_of_their_own() {
    let setup = Setup::new(Mode::Ready);
    let pointer = |text| UsageReader::pointer(text).unwrap();
    let one = |name, text| limit(name).reserve(100).read_usage(pointer(text));
    let layer = setup
        .layer_of(one("tokens", "/tokens"))
        .and(one("all-tokens", "/tokens"))
        .and(one("images", "/images"));
    let layer = layer.and(limit("rows").reserve(100)).and(limit("requests"));
    let service = layer.layer(service_fn(async |request: Request<String>| {
        let usage = request.extensions().get::<Usage>().unwrap();
        usage.for_policy("rows").unwrap().add(4);
        // What is read goes before it.
        usage.for_policy("images").unwrap().add(50);
        let body = http_body_util::Full::from("{\"images\": 2, \"tokens\": 30}");
        Response::builder().header("content-type", HeaderValue::from_static("application/json")).body(body)
    }));
    service.oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
    for (name, charged) in [("tokens", 30), ("all-tokens", 30), ("images", 2), ("rows", 4), ("requests", 1)] {
        assert_eq!(setup.charged(name).await, charged, "{name}");
    }
}

#[tokio::test]
async fn trailers_do_not_hide_the_usage() {
    let setup = Setup::new(Mode::Ready);
    let service =
        setup.layer_of(reading(UsageReader::OPENAI)).layer(service_fn(async |_: Request<String>| {
            let body = http_body_util::Full::<Bytes>::from("{\"usage\": {\"total_tokens\": 3}}");
            let trailers = HeaderMap::from_iter([("x-end".parse().unwrap(), HeaderValue::from_static("1"))]);
            let body = Box::pin(body.with_trailers(std::future::ready(Some(Ok(trailers)))));
            Response::builder().status(StatusCode::OK).header("content-type", "application/json").body(body)
        }));
    service.oneshot(request()).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(setup.charged("tokens").await, 3);
}

#[test]
fn reading_without_a_reservation_is_a_mistake() {
    let setup = Setup::new(Mode::Ready);
    let limit = limit("tokens").read_usage(UsageReader::OPENAI);
    let error = mistake(&setup.registry, [limit]);
    assert!(matches!(error, LayerError::ReadsWithoutReservation { .. }));
    let expected = "policy tokens reads the usage of responses and reserves no units: add `.reserve(..)`";
    assert_eq!(error.to_string(), expected);
}
