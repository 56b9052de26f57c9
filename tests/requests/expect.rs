//! Compares an answer with what a file expects.

use crate::doors::{Answer, DoorKind};
use crate::timeline::{Shown, Step};

/// The first difference between an answer and the expected one, if there is one.
///
/// A check never has the response of the service: what is admitted is 200 there. Envoy's service has only `OK` and `OVER_LIMIT`, which
/// stand for 200 and 429, and neither has a challenge or a type of content.
pub(crate) fn head(door: DoorKind, step: &Step, answer: &Answer) -> Option<String> {
    let expected = match door {
        DoorKind::Check | DoorKind::Serve if step.is_admitted() => 200,
        DoorKind::Serve if step.status < 500 => 429,
        DoorKind::Check if step.rejected => 429,
        _ => step.status,
    };
    let status = answer.status.as_u16();
    if status != expected {
        return Some(format!("status: {expected} expected, got {status}"));
    }
    // Neither answers in gRPC.
    let is_own = matches!(door, DoorKind::Code | DoorKind::Rules | DoorKind::Proxy);
    let is_compared =
        |name: &str| is_own || is_of_limits(name) || door == DoorKind::Check && name != "grpc-status";
    let shows = step.shows.iter().filter(|(name, _)| is_compared(name));
    shows.map(|(name, shown)| (name, shown, lines(answer, name))).find_map(|(name, shown, lines)| {
        let is_right = match shown {
            Shown::Is(value) => lines == [value.as_str()],
            Shown::There(is_there) => lines.is_empty() != *is_there,
        };
        let expected = match shown {
            Shown::Is(value) => format!("{value:?}"),
            Shown::There(true) => "any value".to_owned(),
            Shown::There(false) => "no such header".to_owned(),
        };
        (!is_right).then(|| format!("{name}: {expected} expected, got {lines:?}"))
    })
}

/// The difference between a body and the expected part, if there is one.
pub(crate) fn body(door: DoorKind, step: &Step, body: &str) -> Option<String> {
    let text = step.text.as_ref()?;
    // Neither passes on what the service answers, and Envoy gets no body of a rejection by default.
    let is_there = match door {
        DoorKind::Code | DoorKind::Rules | DoorKind::Proxy => true,
        DoorKind::Check | DoorKind::Serve => !step.is_admitted(),
    };
    (is_there && !body.contains(text)).then(|| format!("body: {text:?} expected, got {body:?}"))
}

fn is_of_limits(header: &str) -> bool {
    header.contains("ratelimit") || header == "retry-after"
}

fn lines<'a>(answer: &'a Answer, name: &str) -> Vec<&'a str> {
    answer.headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?")).collect()
}
