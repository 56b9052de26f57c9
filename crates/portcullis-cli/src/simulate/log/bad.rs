//! Lines that cannot be read.

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
    #[error("no field for the {0}")]
    Missing(&'static str),
    /// No line before it says which columns it has.
    #[error("no line `#Fields: ..` before it names its columns")]
    NoColumns,
}

/// A line that is skipped, with what helps to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// The number of the line, from 1.
    pub line: u64,
    /// The byte of the line at which it cannot be read, from 1.
    pub column: usize,
    /// Why it is skipped.
    pub reason: BadLine,
    /// The text around the column. Control characters are escaped.
    pub excerpt: String,
    /// The number of characters of the excerpt in front of the column.
    pub indent: usize,
    /// What would read the line, if that is known.
    pub advice: Option<String>,
}

/// The reason, and the byte from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadAt(pub(super) BadLine, pub(super) usize);

impl BadLine {
    /// At a part of a text, which is a slice of it.
    pub(super) fn at(self, part: &[u8], text: &[u8]) -> BadAt {
        BadAt(self, offset(part, text))
    }
}

/// The position of a slice in the text that it is a part of.
pub(super) fn offset(part: &[u8], text: &[u8]) -> usize {
    part.as_ptr().addr().saturating_sub(text.as_ptr().addr()).min(text.len())
}

impl Skipped {
    pub(super) fn new(line: u64, text: &[u8], BadAt(reason, at): BadAt, advice: Option<String>) -> Self {
        let at = at.min(text.len());
        let start = at.saturating_sub(BEFORE);
        let shown = |part: &[u8]| {
            let part = String::from_utf8_lossy(part);
            part.chars()
                .flat_map(|c| if c.is_control() { c.escape_unicode().collect() } else { vec![c] })
                .collect::<String>()
        };
        let before = shown(&text[start..at]);
        let excerpt = before.clone() + &shown(&text[at..text.len().min(at + AFTER)]);
        Self { line, column: at + 1, reason, excerpt, indent: before.chars().count(), advice }
    }
}

/// In bytes.
const BEFORE: usize = 40;
const AFTER: usize = 60;
