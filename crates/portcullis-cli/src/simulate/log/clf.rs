//! The common log format, and the combined one, which has two more headers.

use http::header::{REFERER, USER_AGENT};

use super::time;
use super::{BadLine, Line};

/// Reads `client ident user [time] "request" status bytes`, in the combined format followed by `"referer" "user agent"`. What
/// follows is ignored.
pub(super) fn read(text: &[u8], line: &mut Line, last_time: &mut LastTime) -> Result<(), BadLine> {
    let (client, rest) = word(text).ok_or(BadLine::Shape)?;
    let bracket = position(rest, b'[').ok_or(BadLine::Shape)?;
    let rest = &rest[bracket + 1..];
    let end = position(rest, b']').ok_or(BadLine::Shape)?;
    let (time, rest) = (&rest[..end], &rest[end + 1..]);
    line.micros = last_time.read(time).ok_or(BadLine::Time)?;
    line.peer = super::address(client)?;
    let (request, rest) = quoted(rest).ok_or(BadLine::Shape)?;
    super::set_request(line, request)?;
    let Some((status, rest)) = word(rest) else { return Ok(()) };
    line.status = super::status(status)?;
    let Some((_bytes, rest)) = word(rest) else { return Ok(()) };
    let Some((referer, rest)) = quoted(rest) else { return Ok(()) };
    line.add_header(REFERER, referer);
    if let Some((agent, _)) = quoted(rest) {
        line.add_header(USER_AGENT, agent);
    }
    Ok(())
}

/// The time of the line before, which most lines share.
#[derive(Debug, Default)]
pub(super) struct LastTime {
    text: Vec<u8>,
    micros: u64,
}

impl LastTime {
    fn read(&mut self, text: &[u8]) -> Option<u64> {
        if self.text != text {
            self.micros = time::common(text)?;
            self.text.clear();
            self.text.extend_from_slice(text);
        }
        Some(self.micros)
    }
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let end = position(text, b' ').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// A quote within a quoted text has a backslash in front.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start().strip_prefix(b"\"")?;
    let mut end = position(text, b'"')?;
    while text[..end].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1 {
        end += 1 + position(&text[end + 1..], b'"')?;
    }
    Some((&text[..end], &text[end + 1..]))
}

fn position(text: &[u8], byte: u8) -> Option<usize> {
    text.iter().position(|other| *other == byte)
}
