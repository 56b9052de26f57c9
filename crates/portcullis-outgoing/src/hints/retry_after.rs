//! `Retry-After`.

use std::time::SystemTime;

use http::{HeaderMap, header};

use super::{Hint, Invalid, date, number};

/// Reads the seconds or the date. Of several lines the longest counts, and all have to be valid.
///
/// Source: RFC 9110, section 10.2.3. Fractions of seconds, which some servers send, are accepted.
pub(super) fn read(headers: &HeaderMap, now: &impl Fn() -> SystemTime) -> Hint {
    let mut longest = None;
    for (index, value) in headers.get_all(header::RETRY_AFTER).iter().enumerate() {
        if index >= MAX_LINES {
            return Err(Invalid);
        }
        let length = match number::parse(value.as_bytes(), number::SECOND) {
            Some(length) => length,
            None => date::until(date::parse(value).ok_or(Invalid)?, headers, now),
        };
        longest = longest.max(Some(length));
    }
    Ok(longest)
}

const MAX_LINES: usize = 4;
