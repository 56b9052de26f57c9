//! The header lines of one response. Values that are made for it share one allocation.

use std::mem;
use std::ops::Range;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use smallvec::SmallVec;

use super::names::Name;
use super::values::{self, ItemBuf};

/// Inserts header lines in the order in which they are added, over existing lines of the same names.
///
/// A line whose value exists already is inserted at once, because most lines are of this kind and need no buffer. Lines from the
/// first rendered one on are inserted by [`finish`](Self::finish): all values that are rendered for the response share one buffer.
pub(super) struct Lines<'h> {
    headers: &'h mut HeaderMap,
    text: ItemBuf,
    waiting: SmallVec<[(Name, Value); 9]>,
}

enum Value {
    Ready(HeaderValue),
    /// A range of the text.
    Rendered(Range<usize>),
}

impl<'h> Lines<'h> {
    #[inline]
    pub(super) fn new(headers: &'h mut HeaderMap) -> Self {
        Self { headers, text: ItemBuf::new(), waiting: SmallVec::new() }
    }

    /// Adds a line with a value that exists already.
    #[inline]
    pub(super) fn push(&mut self, name: Name, value: HeaderValue) {
        if self.waiting.is_empty() {
            self.headers.insert(name(), value);
        } else {
            self.waiting.push((name, Value::Ready(value)));
        }
    }

    /// Adds a line with a number.
    #[inline]
    pub(super) fn push_number(&mut self, name: Name, number: u64) {
        match values::small_number(number) {
            Some(value) => self.push(name, value),
            None => self.render(name, |text| values::push_number(text, number)),
        }
    }

    /// Adds a line with the value that `render` appends to the text.
    pub(super) fn render(&mut self, name: Name, render: impl FnOnce(&mut ItemBuf)) {
        let start = self.text.len();
        render(&mut self.text);
        self.waiting.push((name, Value::Rendered(start..self.text.len())));
    }

    /// Inserts the lines that are not inserted yet.
    // A reference, because what has room for all lines would be copied.
    #[inline]
    pub(super) fn finish(&mut self) {
        if !self.waiting.is_empty() {
            self.insert_rendered();
        }
    }

    #[inline(never)]
    fn insert_rendered(&mut self) {
        // As an owner the buffer is shared by one allocation; a vector would need another one for its reference count.
        let text = Bytes::from_owner(mem::take(&mut self.text));
        for (name, value) in self.waiting.drain(..) {
            let value = match value {
                Value::Ready(value) => value,
                Value::Rendered(range) => values::shared(text.slice(range)),
            };
            self.headers.insert(name(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::*;
    use crate::headers::{RATELIMIT_LIMIT, RATELIMIT_REMAINING};

    #[test]
    fn lines_are_inserted_over_existing_ones_in_order() {
        let mut headers = HeaderMap::new();
        headers.insert(&RATELIMIT_LIMIT, HeaderValue::from_static("before"));
        let mut lines = Lines::new(&mut headers);
        lines.push_number(names::ratelimit_limit, 999_999_999_999_999);
        lines.push_number(names::ratelimit_remaining, 3);
        lines.push(names::ratelimit, HeaderValue::from_static("ready"));
        lines.render(names::ratelimit_reset, |text| text.extend_from_slice(b"rendered"));
        lines.finish();
        let written: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let expected: [(&str, &[u8]); 4] = [
            ("ratelimit-limit", b"999999999999999"),
            ("ratelimit-remaining", b"3"),
            ("ratelimit", b"ready"),
            ("ratelimit-reset", b"rendered"),
        ];
        assert_eq!(written, expected);
    }

    #[test]
    fn ready_lines_are_inserted_before_rendered_ones() {
        let mut headers = HeaderMap::new();
        headers.insert(&RATELIMIT_REMAINING, HeaderValue::from_static("before"));
        let mut lines = Lines::new(&mut headers);
        lines.push_number(names::ratelimit_limit, 7);
        lines.push_number(names::ratelimit_remaining, 1_000_000);
        lines.push_number(names::ratelimit_reset, 60);
        lines.finish();
        let written: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let expected: [(&str, &[u8]); 3] =
            [("ratelimit-remaining", b"1000000"), ("ratelimit-limit", b"7"), ("ratelimit-reset", b"60")];
        assert_eq!(written, expected);
    }
}
