//! Reads one response as it passes.

use http::{HeaderMap, header};

use crate::events::EventScan;
use crate::gzip::GzipScan;
use crate::json::JsonScan;
use crate::reader::UsageReader;
use crate::scan::{Form, Scan, Unreadable};
use crate::tally::{Count, Tally};

/// Reads the usage of one response from the bytes of its body, wherever they are divided.
///
/// It keeps no byte of them, and takes time in proportion to them. It has less than 1 KiB, and about 100 KiB for a response in gzip.
/// Bytes of any kind are read without a panic. What is no JSON has no usage from there to the end of the event or body.
#[derive(Debug)]
pub struct UsageScan {
    input: Input,
}

#[derive(Debug)]
enum Input {
    Plain(Scan),
    Gzip(Box<GzipScan>),
    Ended(Unreadable, Tally),
}

impl UsageReader {
    /// Starts to read a response with these headers. The type of its content tells JSON from events.
    pub fn scan(&self, headers: &HeaderMap) -> UsageScan {
        UsageScan { input: Input::new(self, headers) }
    }
}

impl UsageScan {
    /// Reads the next bytes of the body. Returns what was found so far.
    pub fn push(&mut self, bytes: &[u8]) -> Option<Count> {
        let read = match &mut self.input {
            Input::Plain(scan) => scan.push(bytes),
            Input::Gzip(scan) => scan.push(bytes),
            Input::Ended(..) => Ok(()),
        };
        if let Err(unread) = read {
            self.input = Input::Ended(unread, self.tally().clone());
        }
        self.count()
    }

    /// Returns what was found so far. Where the rest is not read, it is the least.
    pub fn count(&self) -> Option<Count> {
        let count = self.tally().count()?;
        Some(match (count, &self.input) {
            (Count::Total(units), Input::Ended(..)) => Count::AtLeast(units),
            (count, _) => count,
        })
    }

    /// Returns why the rest is not read, if it is not.
    pub fn unreadable(&self) -> Option<Unreadable> {
        match self.input {
            Input::Ended(unread, _) => Some(unread),
            _ => None,
        }
    }

    fn tally(&self) -> &Tally {
        match &self.input {
            Input::Plain(scan) => &scan.tally,
            Input::Gzip(scan) => &scan.scan().tally,
            Input::Ended(_, tally) => tally,
        }
    }
}

impl Input {
    fn new(reader: &UsageReader, headers: &HeaderMap) -> Self {
        let (json, tally) = (JsonScan::new(reader.clone()), Tally::new(reader));
        let form = match media_type(headers) {
            Some(media) if media.eq_ignore_ascii_case("text/event-stream") => {
                Form::Events(EventScan::new(json))
            }
            Some(media) if is_json(media) => Form::Documents(json),
            _ => return Self::Ended(Unreadable::ContentType, tally),
        };
        let mut encodings =
            headers.get_all(header::CONTENT_ENCODING).iter().map(|value| value.as_bytes().trim_ascii());
        let encoding = encodings.next().unwrap_or(b"identity").to_ascii_lowercase();
        match (encoding.as_slice(), encodings.next()) {
            (b"identity", None) => Self::Plain(Scan::new(form, tally)),
            (b"gzip" | b"x-gzip", None) => Self::Gzip(Box::new(GzipScan::new(Scan::new(form, tally)))),
            _ => Self::Ended(Unreadable::Encoding, tally),
        }
    }
}

fn media_type(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::CONTENT_TYPE)?.to_str().ok()?.split(';').next().map(str::trim)
}

/// Whether it is one of JSON, or of several documents, such as `application/x-ndjson`.
fn is_json(media: &str) -> bool {
    media.to_ascii_lowercase().contains("json")
}
