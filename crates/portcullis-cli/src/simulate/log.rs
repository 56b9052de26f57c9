//! Access logs: lines, formats, and the order of time.

mod clf;
mod fields;
mod json;
mod order;
mod time;

use std::io::{self, BufRead, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use super::line::Line;
use clf::LastTime;
use order::Order;

pub use fields::{Fields, FieldsError};

/// The format of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The common log format, or the combined one, which adds two headers.
    Common,
    /// An object of JSON per line.
    Json,
}

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
/// assert_eq!(reader.notes().examples[0].0, 2);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct LogReader<R> {
    input: R,
    format: Option<Format>,
    fields: Fields,
    last_time: LastTime,
    order: Order,
    buffer: Vec<u8>,
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
    physical: u64,
    /// The lines that were skipped.
    pub bad: u64,
    /// The number of the line and the reason, for the first skipped lines.
    pub examples: Vec<(u64, BadLine)>,
    /// The lines that were too late to be sorted, and count at the time of the line before them.
    pub late: u64,
}

/// Why a line is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadLine {
    /// It is longer than 64 KiB.
    #[error("longer than 64 KiB")]
    TooLong,
    /// It does not have the format of the log.
    #[error("not in the format of the log")]
    Shape,
    /// The time cannot be read.
    #[error("the time cannot be read")]
    Time,
    /// The client is no IP address.
    #[error("the client is no IP address")]
    Client,
    /// The request line has no method and target, as if the client did not speak HTTP.
    #[error("no HTTP request")]
    Request,
    /// The status is no number from 100 to 999.
    #[error("the status is no number from 100 to 999")]
    Status,
    /// A field is missing.
    #[error("no field for the {0}: name it with --fields")]
    Missing(&'static str),
}

impl<R: BufRead> LogReader<R> {
    /// Reads from `input`. The first line that can be read states the format.
    pub fn new(input: R) -> Self {
        Self {
            input,
            format: None,
            fields: Fields::default(),
            last_time: LastTime::default(),
            order: Order::new(u64::try_from(WINDOW.as_micros()).unwrap_or(u64::MAX)),
            buffer: Vec::new(),
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
    pub fn fields(self, fields: Fields) -> Self {
        Self { fields, ..self }
    }

    /// The next line by its time; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the input cannot be read.
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
            return Ok(());
        }
        self.notes.bytes += length;
        self.notes.physical += 1;
        let text = self.buffer.trim_ascii();
        if text.is_empty() && is_whole {
            return Ok(());
        }
        self.notes.lines += 1;
        self.line.clear();
        let format =
            self.format.unwrap_or(if text.starts_with(b"{") { Format::Json } else { Format::Common });
        let parsed = match format {
            _ if !is_whole => Err(BadLine::TooLong),
            Format::Common => clf::read(text, &mut self.line, &mut self.last_time),
            Format::Json => json::read(text, &self.fields, &mut self.line),
        };
        match parsed {
            Ok(()) => {
                self.format = Some(format);
                self.order.insert(&mut self.line);
            }
            Err(error) => {
                self.notes.bad += 1;
                if self.notes.examples.len() < MAX_EXAMPLES {
                    self.notes.examples.push((self.notes.physical, error));
                }
            }
        }
        Ok(())
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

/// Reads an address, with a port if there is one.
fn address(text: &[u8]) -> Result<IpAddr, BadLine> {
    let text = std::str::from_utf8(text).map_err(|_| BadLine::Client)?.trim();
    let address = text.parse().or_else(|_| text.parse::<SocketAddr>().map(|address| address.ip()));
    address.map_err(|_| BadLine::Client)
}

fn status(text: &[u8]) -> Result<u16, BadLine> {
    // A server that has not answered writes a dash, 0 or 000.
    if matches!(text, b"-" | b"0" | b"000") {
        return Ok(200);
    }
    let status = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    status.filter(|status| (100..1_000).contains(status)).ok_or(BadLine::Status)
}

/// Reads `GET /search HTTP/1.1`.
fn set_request(line: &mut Line, request: &[u8]) -> Result<(), BadLine> {
    let mut words = request.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    match (words.next(), words.next()) {
        (Some(method), Some(target)) => {
            line.set_method(method);
            line.set_target(target);
            Ok(())
        }
        _ => Err(BadLine::Request),
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "common" | "combined" => Ok(Self::Common),
            "json" => Ok(Self::Json),
            _ => Err("a format is `common`, `combined` or `json`".to_owned()),
        }
    }
}

/// In bytes, without the line break.
const MAX_LINE: u64 = 64 * 1_024;
const MAX_EXAMPLES: usize = 5;

/// How late a line may be to be sorted.
const WINDOW: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
