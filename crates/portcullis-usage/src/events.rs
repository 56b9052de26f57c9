//! The lines of server-sent events that arrive in pieces.
//!
//! Source: HTML Standard, section 9.2.6.

use crate::json::JsonScan;

/// Gives the data of each event to a scan, as one document.
#[derive(Debug)]
pub(crate) struct EventScan {
    json: JsonScan,
    line: Line,
    /// Whether the line before has ended with a carriage return, of which a line feed may be a part.
    is_after_return: bool,
}

/// What was read of a line.
#[derive(Debug)]
enum Line {
    /// So many bytes of a byte order mark, in front of the first line.
    Mark(usize),
    /// So many bytes of the name of the field with the data.
    Name(usize),
    /// The colon behind that name: one space does not count.
    Colon,
    Data,
    /// A comment, or another field.
    Other,
}

impl EventScan {
    pub(crate) fn new(json: JsonScan) -> Self {
        Self { json, line: Line::Mark(0), is_after_return: false }
    }

    /// Reads until an event has ended, and returns behind how many bytes. Each number at a place is given to `found`.
    pub(crate) fn push(&mut self, bytes: &[u8], mut found: impl FnMut(usize, u64)) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let is_rest = std::mem::take(&mut self.is_after_return) && byte == b'\n';
            match (&mut self.line, byte) {
                _ if is_rest => {}
                (Line::Mark(read), _) if byte == BYTE_ORDER_MARK[*read] => {
                    *read += 1;
                    if *read == BYTE_ORDER_MARK.len() {
                        self.line = Line::Name(0);
                    }
                }
                (Line::Mark(read), _) => {
                    self.line = if *read == 0 { Line::Name(0) } else { Line::Other };
                    continue;
                }
                (line, b'\r' | b'\n') => {
                    let is_event = matches!(line, Line::Name(0));
                    let is_data = matches!(line, Line::Data | Line::Colon);
                    *line = Line::Name(0);
                    self.is_after_return = byte == b'\r';
                    if is_event {
                        self.json.restart();
                        return Some(at + 1);
                    }
                    if is_data {
                        self.data(b"\n", &mut found);
                    }
                }
                (Line::Name(read), _) => {
                    self.line = match NAME.get(*read) {
                        Some(expected) if *expected == byte => Line::Name(*read + 1),
                        None if byte == b':' => Line::Colon,
                        _ => Line::Other,
                    };
                }
                (Line::Colon, _) => {
                    self.line = Line::Data;
                    if byte != b' ' {
                        continue;
                    }
                }
                (Line::Data | Line::Other, _) => {
                    let rest = &bytes[at..];
                    let length =
                        rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(rest.len());
                    if matches!(self.line, Line::Data) {
                        self.data(&rest[..length], &mut found);
                    }
                    at += length;
                    continue;
                }
            }
            at += 1;
        }
        None
    }

    /// Reads data. What follows a document in an event is one more.
    fn data(&mut self, mut data: &[u8], found: &mut impl FnMut(usize, u64)) {
        while let Some(length) = self.json.push(data, &mut *found) {
            data = &data[length..];
        }
    }
}

const NAME: &[u8] = b"data";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
