//! Reads what is decoded of a response.

use crate::events::EventScan;
use crate::json::JsonScan;
use crate::tally::Tally;

/// Reads what is decoded.
#[derive(Debug)]
pub(crate) struct Scan {
    form: Form,
    pub(crate) tally: Tally,
    /// The bytes of the event or document.
    size: usize,
}

#[derive(Debug)]
pub(crate) enum Form {
    Documents(JsonScan),
    Events(EventScan),
}

impl Scan {
    pub(crate) fn new(form: Form, tally: Tally) -> Self {
        Self { form, tally, size: 0 }
    }

    /// # Errors
    ///
    /// If nothing more is read.
    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), Unreadable> {
        let Self { form, tally, size } = self;
        while !bytes.is_empty() {
            let room = MOST_READ - *size;
            if room == 0 {
                return Err(Unreadable::TooLarge);
            }
            let piece = &bytes[..bytes.len().min(room)];
            let found = |place, number| tally.add(place, number);
            let ended = match form {
                Form::Documents(json) => json.push(piece, found),
                Form::Events(events) => events.push(piece, found),
            };
            *size = if ended.is_some() { 0 } else { *size + piece.len() };
            bytes = &bytes[ended.unwrap_or(piece.len())..];
        }
        Ok(())
    }
}

/// Why a response is not read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unreadable {
    /// Its `Content-Type` is neither one of JSON nor `text/event-stream`.
    ContentType,
    /// Its `Content-Encoding` is not gzip.
    Encoding,
    /// An event or document has more than [`MOST_READ`] bytes, decoded.
    TooLarge,
    /// More than [`MOST_RATIO`] bytes were decoded for each compressed one.
    TooDense,
    /// It is no gzip.
    Damaged,
}

/// The most bytes of an event or of a document of JSON that are read.
pub const MOST_READ: usize = 16 * 1_024 * 1_024;
/// The most decoded bytes for each compressed one.
pub const MOST_RATIO: u64 = 100;
