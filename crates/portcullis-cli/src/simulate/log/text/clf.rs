//! The common log format, and what servers add to it.

use http::HeaderName;
use http::header::{HOST, REFERER, USER_AGENT};

use crate::simulate::log::bad::{BadAt, offset};
use crate::simulate::log::{BadLine, Line, address, set_request, status, time};

/// Reads `client ident user [time] "request" status bytes`, in the combined format followed by `"referer" "user agent"`, and in the one
/// that nginx names `main` by `"X-Forwarded-For"`. In Apache's `vhost_combined` the host is in front. What follows is ignored.
pub(in crate::simulate::log) fn read(
    text: &[u8],
    line: &mut Line,
    last_time: &mut LastTime,
) -> Result<(), BadAt> {
    let (client, behind) = word(text).ok_or(BadAt(BadLine::Shape, 0))?;
    let rest = set_time(text, line, last_time)?;
    match address(client) {
        Ok(peer) => line.peer = peer,
        Err(error) => {
            let second = word(behind).and_then(|(second, _)| address(second).ok());
            line.peer = second.ok_or(BadAt(error, offset(client, text)))?;
            let end = client.iter().rposition(|byte| *byte == b':').unwrap_or(client.len());
            line.add_header(HOST, &client[..end]);
        }
    }
    let (request, rest) = quoted(rest).ok_or(BadLine::Shape.at(rest, text))?;
    set_request(line, request).map_err(|error| error.at(request, text))?;
    let Some((code, rest)) = bare(rest) else { return Ok(()) };
    line.status = status(code).map_err(|error| error.at(code, text))?;
    let Some((_bytes, rest)) = bare(rest) else { return Ok(()) };
    let Some((referer, rest)) = quoted(rest) else { return Ok(()) };
    line.add_header(REFERER, referer);
    let Some((agent, rest)) = quoted(rest) else { return Ok(()) };
    line.add_header(USER_AGENT, agent);
    if let Some((forwarded, _)) = quoted(rest)
        && forwarded.split(|byte| *byte == b',').any(|one| address(one).is_ok())
    {
        line.add_header(HeaderName::from_static("x-forwarded-for"), forwarded);
    }
    Ok(())
}

/// Reads the time, and returns what follows its bracket. It is the first in brackets with a quote behind it: the name of a user may have
/// brackets, and servers escape the quotes in it.
fn set_time<'a>(text: &'a [u8], line: &mut Line, last_time: &mut LastTime) -> Result<&'a [u8], BadAt> {
    let mut error = BadAt(BadLine::Shape, text.len());
    let mut from = 0;
    let mut left = MAX_BRACKETS;
    while let Some(start) = position(&text[from..], b'[').map(|at| from + at + 1)
        && left > 0
    {
        left -= 1;
        let inner = &text[start..];
        let Some(end) = position(inner, b']') else { break };
        if inner[end + 1..].trim_ascii_start().first() == Some(&b'"') {
            if let Some(micros) = last_time.read(&inner[..end]) {
                line.micros = micros;
                return Ok(&inner[end + 1..]);
            }
            error = BadAt(BadLine::Time, start);
        } else if error.0 == BadLine::Shape {
            error.1 = start - 1;
        }
        from = start;
    }
    Err(error)
}

/// The time of the line before, which most lines share.
#[derive(Debug, Default)]
pub(in crate::simulate::log) struct LastTime {
    text: Vec<u8>,
    micros: u64,
}

impl LastTime {
    fn read(&mut self, text: &[u8]) -> Option<u64> {
        if self.text != text {
            self.micros = time::any(text)?;
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

/// A word, which is empty if its variable has no value and a quoted text follows.
fn bare(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.trim_ascii_start().starts_with(b"\"") { Some(text.split_at(0)) } else { word(text) }
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
    memchr::memchr(byte, text)
}

/// The brackets that are tried: a name of a user may have as many as its client likes.
const MAX_BRACKETS: usize = 64;
