//! The header lines of one response, whose values share one allocation.

use std::ops::Range;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;

use super::values::{self, ItemBuf};

/// Header lines to insert. All values that are rendered for the response share one buffer.
#[derive(Default)]
pub(super) struct Lines {
    text: ItemBuf,
    lines: SmallVec<[(&'static HeaderName, Value); 9]>,
}

enum Value {
    Ready(HeaderValue),
    /// A range of the text.
    Rendered(Range<usize>),
}

impl Lines {
    /// Adds a line with a value that exists already.
    pub(super) fn push(&mut self, name: &'static HeaderName, value: HeaderValue) {
        self.lines.push((name, Value::Ready(value)));
    }

    /// Adds a line with a number.
    pub(super) fn push_number(&mut self, name: &'static HeaderName, number: u64) {
        match values::small_number(number) {
            Some(value) => self.push(name, value),
            None => self.render(name, |text| values::push_number(text, number)),
        }
    }

    /// Adds a line with the value that `render` appends to the text.
    pub(super) fn render(&mut self, name: &'static HeaderName, render: impl FnOnce(&mut ItemBuf)) {
        let start = self.text.len();
        render(&mut self.text);
        self.lines.push((name, Value::Rendered(start..self.text.len())));
    }

    /// Inserts the lines in their order, over existing lines of the same names.
    pub(super) fn insert_into(self, headers: &mut HeaderMap) {
        // As an owner the buffer is shared by one allocation; a vector would need another one for its reference count.
        let text = if self.text.is_empty() { Bytes::new() } else { Bytes::from_owner(self.text) };
        for (name, value) in self.lines {
            let value = match value {
                Value::Ready(value) => value,
                Value::Rendered(range) => values::shared(text.slice(range)),
            };
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::{RATELIMIT, RATELIMIT_LIMIT, RATELIMIT_REMAINING, RATELIMIT_RESET};

    #[test]
    fn lines_are_inserted_over_existing_ones_in_order() {
        let mut lines = Lines::default();
        lines.push_number(&RATELIMIT_LIMIT, 999_999_999_999_999);
        lines.push_number(&RATELIMIT_REMAINING, 3);
        lines.push(&RATELIMIT, HeaderValue::from_static("ready"));
        lines.render(&RATELIMIT_RESET, |text| text.extend_from_slice(b"rendered"));
        let mut headers = HeaderMap::new();
        headers.insert(&RATELIMIT_LIMIT, HeaderValue::from_static("before"));
        lines.insert_into(&mut headers);
        let written: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let expected: [(&str, &[u8]); 4] = [
            ("ratelimit-limit", b"999999999999999"),
            ("ratelimit-remaining", b"3"),
            ("ratelimit", b"ready"),
            ("ratelimit-reset", b"rendered"),
        ];
        assert_eq!(written, expected);
    }
}
