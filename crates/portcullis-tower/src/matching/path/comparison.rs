//! Compares the path of a request with a plain path.

use std::mem;

use crate::matching::Undecided;

/// Compares a path with a plain one: equal, or with `is_prefix` also below it.
pub(super) fn compare(path: &str, plain: &str, is_prefix: bool) -> Result<bool, Undecided> {
    if !(has_plain_segments(path) && path.bytes().all(is_plain)) {
        return if may_match(path, plain, is_prefix) { Err(Undecided::Ambiguous) } else { Ok(false) };
    }
    let Some((start, rest)) = path.as_bytes().split_at_checked(plain.len()) else { return Ok(false) };
    if !(rest.is_empty() || is_prefix && rest[0] == b'/') || !start.eq_ignore_ascii_case(plain.as_bytes()) {
        return Ok(false);
    }
    if start == plain.as_bytes() { Ok(true) } else { Err(Undecided::Ambiguous) }
}

/// Whether a path is a slash, or segments that are neither empty nor dots, each after a slash.
pub(super) fn has_plain_segments(path: &str) -> bool {
    path == "/"
        || path
            .strip_prefix('/')
            .is_some_and(|path| path.split('/').all(|segment| !matches!(segment, "" | "." | "..")))
}

/// Whether all servers read a byte in a path alike.
pub(super) fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'%' | b';' | b'\\' | b'?' | b'#')
}

/// Whether a server could read a path as one that matches: it decodes escapes once, joins slashes, takes a backslash for a
/// slash, ignores parameters, and does not regard case. What servers read in too many ways may match.
fn may_match(path: &str, plain: &str, is_prefix: bool) -> bool {
    // The form `*`, and that of `CONNECT`, which has no path.
    let Some(path) = path.strip_prefix('/') else { return true };
    let mut reading = Reading::new(plain, is_prefix);
    for byte in (Decoder { rest: path.as_bytes(), previous: 0 }) {
        match byte {
            None => return true,
            Some(b'/' | b'\\') => {
                if reading.end_segment().is_none() {
                    return true;
                }
            }
            Some(b';') => reading.segment.in_parameters = true,
            // A server that decodes first takes it for the end of the path.
            Some(b'?' | b'#') if reading.may_end() => return true,
            Some(byte) => reading.push(byte),
        }
    }
    reading.may_end()
}

/// The comparison up to a byte of a path.
#[derive(Clone, Copy)]
struct Reading<'p> {
    /// The segments that are still to come, separated by slashes.
    expected: &'p [u8],
    is_prefix: bool,
    /// Whether a segment before the current one differs.
    differs: bool,
    segment: Segment,
}

/// The current segment.
#[derive(Clone, Copy, Default)]
struct Segment {
    length: usize,
    dots: usize,
    differs: bool,
    /// Whether a `;` has ended its name.
    in_parameters: bool,
}

impl<'p> Reading<'p> {
    fn new(plain: &'p str, is_prefix: bool) -> Self {
        let expected = plain.strip_prefix('/').unwrap_or(plain).as_bytes();
        Self { expected, is_prefix, differs: false, segment: Segment::default() }
    }

    fn expected_segment(&self) -> &'p [u8] {
        self.expected.split(|byte| *byte == b'/').next().unwrap_or_default()
    }

    fn push(&mut self, byte: u8) {
        let expected = self.expected_segment().get(self.segment.length);
        let segment = &mut self.segment;
        if !segment.in_parameters {
            segment.differs |= !expected.is_some_and(|expected| expected.eq_ignore_ascii_case(&byte));
            segment.length += 1;
            segment.dots += usize::from(byte == b'.');
        }
    }

    /// Returns `None` at the end of a dot segment.
    fn end_segment(&mut self) -> Option<()> {
        let Segment { length, dots, differs, .. } = mem::take(&mut self.segment);
        if length > 0 {
            if length == dots && length <= 2 {
                return None;
            }
            let expected = self.expected_segment();
            if self.expected.is_empty() {
                self.differs |= !self.is_prefix;
            } else {
                self.differs |= differs || length != expected.len();
                self.expected = self.expected.get(expected.len() + 1..).unwrap_or_default();
            }
        }
        Some(())
    }

    /// Whether the path may match if it ends here.
    fn may_end(mut self) -> bool {
        self.end_segment().is_none() || !self.differs && self.expected.is_empty()
    }
}

/// The decoded bytes of a path; `None` for what servers read differently: a malformed escape, one that decodes to another
/// escape, control characters, and overlong forms of UTF-8.
struct Decoder<'p> {
    rest: &'p [u8],
    previous: u8,
}

impl Iterator for Decoder<'_> {
    type Item = Option<u8>;

    fn next(&mut self) -> Option<Option<u8>> {
        let (byte, rest) = match *self.rest {
            [] => return None,
            [b'%', high, low, ref rest @ ..] => {
                (hex(high).zip(hex(low)).map(|(high, low)| high << 4 | low), rest)
            }
            [b'%', ..] => (None, &[][..]),
            [byte, ref rest @ ..] => (Some(byte), rest),
        };
        let previous = self.previous;
        let is_overlong = |byte: u8| match byte {
            0xc0 | 0xc1 | 0xf5.. => true,
            0x80..0xa0 => previous == 0xe0 || previous == 0xf0 && byte < 0x90,
            _ => false,
        };
        let byte = byte.filter(|byte| *byte != b'%' && !byte.is_ascii_control() && !is_overlong(*byte));
        (self.rest, self.previous) = (rest, byte.unwrap_or_default());
        Some(byte)
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests;
