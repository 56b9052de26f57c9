//! Instants on the clock of another server.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, header};

/// Reads an HTTP date.
pub(super) fn parse(value: &HeaderValue) -> Option<SystemTime> {
    let value = value.to_str().ok()?.trim();
    (value.len() <= MAX_LENGTH).then(|| httpdate::parse_http_date(value).ok())?
}

/// The time until an instant that the server states. Both are compared on its own clock, by the `Date` of the answer, so that it does
/// not matter how far its clock is from ours; without a valid `Date`, on ours. Zero if the instant has passed.
pub(super) fn until(at: SystemTime, headers: &HeaderMap, now: &impl Fn() -> SystemTime) -> Duration {
    let theirs = headers.get(header::DATE).and_then(parse);
    at.duration_since(theirs.unwrap_or_else(now)).unwrap_or_default()
}

/// The longest of the three formats has 33 characters.
const MAX_LENGTH: usize = 40;
