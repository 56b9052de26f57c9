//! A time in any of the forms in which servers state it.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

use super::settings::ResetFormat;
use super::{date, duration, number};

/// Reads a time, from now on. A number is what `format` says; a duration with units, an HTTP date and an instant of RFC 3339 state
/// what they are. `None` for anything else.
pub(super) fn read(
    value: &[u8],
    format: ResetFormat,
    headers: &HeaderMap,
    now: &impl Fn() -> SystemTime,
) -> Option<Duration> {
    let unit = match format {
        ResetFormat::Seconds | ResetFormat::UnixSeconds => number::SECOND,
        ResetFormat::Milliseconds | ResetFormat::UnixMilliseconds => number::MILLISECOND,
    };
    match (number::parse(value, unit), format) {
        (Some(length), ResetFormat::Seconds | ResetFormat::Milliseconds) => Some(length),
        (Some(time), ResetFormat::UnixSeconds | ResetFormat::UnixMilliseconds) => {
            let at = SystemTime::UNIX_EPOCH.checked_add(time);
            Some(at.map_or(Duration::MAX, |at| date::until(at, headers, now)))
        }
        (None, _) => duration::parse(value).or_else(|| Some(date::until(date::parse(value)?, headers, now))),
    }
}
