//! `Retry-After`, and the headers that state the same in milliseconds.

use std::time::SystemTime;

use http::{HeaderMap, HeaderName, header};

use super::settings::ResetFormat;
use super::values::{MAX_VALUES, values};
use super::{Hint, Invalid, time};

/// Headers of refusals, with what a number in them is. `OpenAI` and Azure send the second, and Azure the third.
///
/// Source: RFC 9110, section 10.2.3. Fractions of seconds, durations and instants of RFC 3339, which some servers send, are accepted.
pub(super) static HEADERS: [(HeaderName, ResetFormat); 3] = [
    (header::RETRY_AFTER, ResetFormat::Seconds),
    (HeaderName::from_static("retry-after-ms"), ResetFormat::Milliseconds),
    (HeaderName::from_static("x-ms-retry-after-ms"), ResetFormat::Milliseconds),
];

/// Reads one of the headers. Of several values the longest counts, and all have to be valid.
pub(super) fn read(
    (name, format): &(HeaderName, ResetFormat),
    headers: &HeaderMap,
    now: &impl Fn() -> SystemTime,
) -> Hint {
    let mut longest = None;
    for (index, value) in values(headers, name).enumerate() {
        let length = time::read(value, *format, headers, now).filter(|_| index < MAX_VALUES);
        longest = longest.max(Some(length.ok_or_else(|| Invalid::of(name))?));
    }
    Ok(longest)
}
