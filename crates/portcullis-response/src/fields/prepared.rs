//! The headers of the most frequent rejection, made ahead: a denial that shows `X-RateLimit`.
//!
//! To copy a header map costs less than to insert its lines, whose names would be hashed for each rejection.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::values;
use crate::headers::{X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET};

/// The headers of denials under one policy. The type of the body and the figures are missing.
#[derive(Clone)]
pub(super) struct PreparedDenial {
    /// The type of the body is the first line.
    headers: HeaderMap,
    /// Where the map has the values of the [`Figures`].
    positions: [usize; 3],
}

/// What a denial shows besides the limit.
pub(super) struct Figures {
    pub(super) remaining: u64,
    /// Seconds.
    pub(super) reset: u64,
    /// Seconds.
    pub(super) retry_after: u64,
}

impl PreparedDenial {
    pub(super) fn new(limit: &HeaderValue) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(""));
        headers.insert(header::CACHE_CONTROL, super::NO_STORE.clone());
        headers.insert(&X_RATELIMIT_LIMIT, limit.clone());
        let figures = [&X_RATELIMIT_REMAINING, &X_RATELIMIT_RESET, &header::RETRY_AFTER];
        for name in figures.into_iter().chain([&ROOM]) {
            headers.insert(name, HeaderValue::from_static(""));
        }
        let position =
            |name: &HeaderName| headers.keys().position(|key| key == name).expect("it was inserted");
        let positions = figures.map(position);
        Self { headers, positions }
    }

    /// The headers of a denial.
    pub(super) fn with(&self, content_type: HeaderValue, figures: &Figures) -> HeaderMap {
        let Figures { remaining, reset, retry_after } = *figures;
        let figures = [remaining, reset, retry_after];
        let mut headers = self.headers.clone();
        let mut values = headers.values_mut().enumerate();
        if let Some((_, first)) = values.next() {
            *first = content_type;
        }
        for (index, value) in values {
            if let Some(figure) = self.positions.iter().position(|position| *position == index) {
                // A large one has memory of its own: to share it would take more time than to allocate it.
                *value = values::number(figures[figure]);
            }
        }
        headers.remove(&ROOM);
        headers
    }
}

/// A line that is removed from every copy, which then has room for the one that a server adds. A copy has no other room.
static ROOM: HeaderName = header::CONTENT_LENGTH;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_its_own_figures() {
        let prepared = PreparedDenial::new(&HeaderValue::from_static("10"));
        for number in [7, 1_000_000] {
            let figures = Figures { remaining: 0, reset: number, retry_after: number + 1 };
            let headers = prepared.with(HeaderValue::from_static("text/html"), &figures);
            let lines: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
            let expected = [
                ("content-type", HeaderValue::from_static("text/html")),
                ("cache-control", HeaderValue::from_static("no-store")),
                ("x-ratelimit-limit", HeaderValue::from_static("10")),
                ("x-ratelimit-remaining", HeaderValue::from_static("0")),
                ("x-ratelimit-reset", number.into()),
                ("retry-after", (number + 1).into()),
            ];
            assert_eq!(lines, expected);
        }
    }
}
