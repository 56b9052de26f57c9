//! A format for a line that has none that is known.

use super::pattern::Pattern;
use crate::simulate::log::{Line, address, status, time};

/// The text of a format that reads a line, as `log_format` would write it.
pub(in crate::simulate::log) fn guess(line: &[u8]) -> Option<String> {
    let text =
        std::str::from_utf8(line).ok().filter(|text| text.len() <= MAX_LENGTH && !text.contains('\''))?;
    let (mut format, mut known) = (String::new(), Known::default());
    let mut rest = text;
    while !rest.is_empty() && !known.is_complete() {
        let (open, close) = match rest.as_bytes()[0] {
            b'"' => ("\"", "\""),
            b'[' => ("[", "]"),
            b' ' | b'\t' | b'|' | b';' | b',' => {
                format.push(char::from(rest.as_bytes()[0]));
                rest = &rest[1..];
                continue;
            }
            _ => ("", ""),
        };
        let inner = &rest[open.len()..];
        let end = match close {
            "" => inner.find([' ', '\t', '|', ';', ',']).unwrap_or(inner.len()),
            close => inner.find(close)?,
        };
        format.push_str(open);
        format.push_str(known.variable(&inner[..end]));
        format.push_str(close);
        rest = &inner[end + close.len()..];
    }
    let pattern: Pattern = format.parse().ok()?;
    pattern.read(line, &mut Line::default()).ok()?;
    Some(format)
}

/// The variables that the format has.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a variable")]
struct Known {
    client: bool,
    time: bool,
    request: bool,
    method: bool,
    status: bool,
}

impl Known {
    fn is_complete(&self) -> bool {
        self.client && self.time && self.request && self.status
    }

    fn variable(&mut self, value: &str) -> &'static str {
        let bytes = value.as_bytes();
        let is_new = |known: &mut bool| !std::mem::replace(known, true);
        let is_method = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_uppercase());
        let starts_request = value.split_once(' ').is_some_and(|(method, target)| {
            method.bytes().all(|byte| byte.is_ascii_uppercase()) && target.starts_with(['/', 'h', '*'])
        });
        // An address is no time, and a status is no time of day.
        if address(bytes).is_ok() && is_new(&mut self.client) {
            "$remote_addr"
        } else if starts_request && is_new(&mut self.request) {
            "$request"
        } else if value.starts_with('/') && is_new(&mut self.request) {
            "$request_uri"
        } else if is_method && METHODS.contains(&value) && is_new(&mut self.method) {
            "$request_method"
        } else if value.len() == 3 && self.request && status(bytes).is_ok() && is_new(&mut self.status) {
            "$status"
        } else if value.len() >= 10 && time::any(bytes).is_some() && is_new(&mut self.time) {
            "$time_local"
        } else {
            "$skipped"
        }
    }
}

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];
/// In bytes.
const MAX_LENGTH: usize = 4_096;
