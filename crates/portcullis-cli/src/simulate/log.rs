//! Access logs: lines, formats, and the order of time.

mod bad;
mod compressed;
mod json;
mod meaning;
mod order;
mod parser;
mod text;
mod time;
mod unwrap;
mod w3c;

use std::borrow::Cow;
use std::io::{self, BufRead, Read as _};
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::line::Line;
use bad::BadAt;
use order::Order;
use parser::Parser;

pub use bad::{BadLine, Skipped};
pub use compressed::Plain;
pub use json::{Fields, FieldsError};
pub use parser::Format;
pub use text::pattern::Pattern;

/// Reads an access log, line by line in the order of time.
///
/// Lines of several seconds are kept until the order of their times is certain. A line that comes later than that counts at the time
/// of the line before it. A line that cannot be read is counted and skipped.
///
/// ```
/// use portcullis_cli::simulate::LogReader;
///
/// let log = "192.0.2.1 - - [10/Oct/2000:13:55:37 -0700] \"GET /b HTTP/1.1\" 200 17\n\
///            no line of a log\n\
///            192.0.2.2 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 17\n";
/// let mut reader = LogReader::new(log.as_bytes());
/// let mut targets = Vec::new();
/// while let Some(line) = reader.next()? {
///     targets.push(String::from_utf8_lossy(line.target()).into_owned());
/// }
/// assert_eq!(targets, ["/a", "/b"]);
/// assert_eq!(reader.notes().bad, 1);
/// assert_eq!((reader.notes().examples[0].line, reader.notes().examples[0].column), (2, 17));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct LogReader<R> {
    input: R,
    format: Option<Format>,
    parser: Parser,
    order: Order,
    buffer: Vec<u8>,
    /// The parts of a line that a container runtime has cut.
    parts: Vec<u8>,
    /// The line that is being read.
    line: Line,
    is_end: bool,
    notes: Notes,
}

/// What a reader has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The lines, without empty ones.
    pub lines: u64,
    /// The bytes.
    pub bytes: u64,
    /// The lines, with empty ones.
    pub physical: u64,
    /// The lines that were skipped.
    pub bad: u64,
    /// The first skipped lines.
    pub examples: Vec<Skipped>,
    /// The lines that were too late to be sorted, and count at the time of the line before them.
    pub late: u64,
}

impl<R: BufRead> LogReader<R> {
    /// Reads from `input`. The first line that can be read states the format.
    pub fn new(input: R) -> Self {
        Self {
            input,
            format: None,
            parser: Parser::default(),
            order: Order::new(u64::try_from(WINDOW.as_micros()).unwrap_or(u64::MAX)),
            buffer: Vec::new(),
            parts: Vec::new(),
            line: Line::default(),
            is_end: false,
            notes: Notes::default(),
        }
    }

    /// Sets the format.
    #[must_use]
    pub fn format(self, format: Option<Format>) -> Self {
        Self { format, ..self }
    }

    /// Sets what the fields of JSON lines mean.
    #[must_use]
    pub fn fields(mut self, fields: Fields) -> Self {
        self.parser.fields = fields;
        self
    }

    /// The next line by its time; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the input cannot be read, or is text in UTF-16.
    #[expect(clippy::should_implement_trait, reason = "the line is borrowed")]
    pub fn next(&mut self) -> io::Result<Option<&Line>> {
        while !self.is_end && !self.order.has_next() {
            self.read_line()?;
        }
        self.notes.late = self.order.late;
        Ok(self.order.next(self.is_end))
    }

    /// What was seen until now.
    pub fn notes(&self) -> &Notes {
        &self.notes
    }

    fn read_line(&mut self) -> io::Result<()> {
        self.buffer.clear();
        let (length, is_whole) = read_bounded(&mut self.input, &mut self.buffer)?;
        if length == 0 {
            self.is_end = true;
            // The end of a log that is still written may be a part of a line.
            let parts = mem::take(&mut self.parts);
            if !parts.is_empty() {
                self.parse(parts.trim_ascii(), true);
            }
            return Ok(());
        }
        self.notes.bytes += length;
        self.notes.physical += 1;
        if self.notes.physical == 1 && matches!(*self.buffer, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
            let advice = "it is UTF-16: convert it, as by `iconv -f UTF-16 -t UTF-8`";
            return Err(io::Error::new(io::ErrorKind::InvalidData, advice));
        }
        let buffer = mem::take(&mut self.buffer);
        let text = buffer.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&buffer).trim_ascii();
        if !text.is_empty() || !is_whole {
            self.read_text(text, is_whole);
        }
        self.buffer = buffer;
        Ok(())
    }

    fn read_text(&mut self, text: &[u8], is_whole: bool) {
        if text.starts_with(b"#")
            && matches!(self.format, None | Some(Format::W3c))
            && self.parser.columns.read_directive(text)
        {
            return;
        }
        if let Some(text) = self.without_container(text) {
            self.parse(&text, is_whole);
        }
    }

    fn parse(&mut self, text: &[u8], is_whole: bool) {
        self.notes.lines += 1;
        let is_whole = is_whole && text.len() as u64 <= MAX_LINE;
        let parsed = if is_whole {
            self.parser.read(self.format.as_ref(), text, &mut self.line)
        } else {
            Err(BadAt(BadLine::TooLong, 0))
        };
        match parsed {
            Ok(format) => {
                if let Cow::Owned(detected) = format {
                    self.format = Some(detected);
                }
                self.order.insert(&mut self.line);
            }
            Err(error) => {
                self.notes.bad += 1;
                if self.notes.examples.len() < MAX_EXAMPLES {
                    let advice = self.parser.advice(self.format.as_ref(), text, error.0);
                    self.notes.examples.push(Skipped::new(self.notes.physical, text, error, advice));
                }
            }
        }
    }

    /// The line that a container has written, without what its runtime has put around it. `None` if it goes on in the next line, or is
    /// empty.
    fn without_container<'t>(&mut self, text: &'t [u8]) -> Option<Cow<'t, [u8]>> {
        let (part, is_last) = if text.starts_with(b"{\"log\":")
            && let Some(log) = json::docker_line(text)
        {
            let is_last = log.ends_with('\n');
            match log {
                Cow::Borrowed(log) => (Cow::Borrowed(log.as_bytes()), is_last),
                Cow::Owned(log) => (Cow::Owned(log.into_bytes()), is_last),
            }
        } else if let Some(part) = unwrap::cri(text) {
            (Cow::Borrowed(part.text), part.is_last)
        } else {
            return Some(Cow::Borrowed(text));
        };
        if is_last && self.parts.is_empty() {
            let part = match part {
                Cow::Borrowed(part) => Cow::Borrowed(part.trim_ascii()),
                Cow::Owned(part) => Cow::Owned(part.trim_ascii().to_owned()),
            };
            return (!part.is_empty()).then_some(part);
        }
        // One byte more than the longest line is enough to know that it is too long.
        let room = usize::try_from(MAX_LINE).unwrap_or(usize::MAX).saturating_add(1) - self.parts.len();
        self.parts.extend_from_slice(&part[..part.len().min(room)]);
        is_last.then(|| Cow::Owned(mem::take(&mut self.parts).trim_ascii().to_owned()))
    }
}

/// Reads a line of at most [`MAX_LINE`] bytes, and skips the rest of a longer one. Returns the bytes that were consumed, and
/// whether the line is whole.
fn read_bounded(input: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<(u64, bool)> {
    let length = input.by_ref().take(MAX_LINE + 1).read_until(b'\n', buffer)? as u64;
    if length <= MAX_LINE || buffer.ends_with(b"\n") {
        return Ok((length, true));
    }
    Ok((length + input.skip_until(b'\n')? as u64, false))
}

/// Reads an address, with a port, brackets or a zone if it has them. An IPv4 address that is mapped to IPv6 is itself.
fn address(text: &[u8]) -> Result<IpAddr, BadLine> {
    let text = std::str::from_utf8(text).map_err(|_| BadLine::Client)?.trim();
    let address = text.parse::<IpAddr>().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    let address = address.or_else(|_| {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        inner.split('%').next().unwrap_or(inner).parse::<IpAddr>()
    });
    address.map(|address| address.to_canonical()).map_err(|_| BadLine::Client)
}

fn status(text: &[u8]) -> Result<u16, BadLine> {
    // A server that has not answered writes a dash, 0 or 000.
    if matches!(text, b"" | b"-" | b"0" | b"000") {
        return Ok(200);
    }
    let status = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    status.filter(|status| (100..1_000).contains(status)).ok_or(BadLine::Status)
}

/// Reads `GET /search HTTP/1.1`.
fn set_request(line: &mut Line, request: &[u8]) -> Result<(), BadLine> {
    let mut words = request.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    match (words.next(), words.next()) {
        (Some(method), Some(target)) if method != b"-" => {
            line.set_method(method);
            line.set_target(target);
            Ok(())
        }
        _ => Err(BadLine::Request),
    }
}

/// In bytes, without the line break.
const MAX_LINE: u64 = 64 * 1_024;
const MAX_EXAMPLES: usize = 5;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How late a line may be to be sorted.
const WINDOW: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
