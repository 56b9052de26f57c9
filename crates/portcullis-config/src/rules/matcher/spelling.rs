//! The ways in which routers and proxies may read a path.

mod readings;

use std::cell::OnceCell;

use super::path::PathPattern;
use readings::Readings;

/// The path of a request, with its other readings.
///
/// A path that has only one, as nearly all have, is looked at once. The others are parts of its text, so that they allocate nothing
/// unless they are long.
pub(crate) struct Spellings<'p> {
    /// Without the slash in front.
    text: &'p str,
    /// Whether the path counts as it is written, and not only by its other readings.
    is_written: bool,
    is_plain: bool,
    others: OnceCell<Readings>,
}

/// A segment of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'p> {
    text: &'p [u8],
    /// Whether escapes stand for what they encode.
    is_decoded: bool,
}

impl<'p> Segment<'p> {
    const fn written(text: &'p str) -> Self {
        Self { text: text.as_bytes(), is_decoded: false }
    }

    pub(super) const fn is_empty(self) -> bool {
        self.text.is_empty()
    }

    /// Whether the segment means this text.
    pub(super) fn is(self, literal: &str) -> bool {
        if self.is_decoded { decoded(self.text).eq(literal.bytes()) } else { self.text == literal.as_bytes() }
    }
}

impl<'p> Spellings<'p> {
    pub(crate) fn of(path: &'p str) -> Self {
        let text = path.strip_prefix('/').unwrap_or(path);
        Self { text, is_written: true, is_plain: is_plain(text), others: OnceCell::new() }
    }

    /// Whether a reading of the path is one of the pattern.
    pub(crate) fn match_pattern(&self, pattern: &PathPattern) -> bool {
        if self.is_written && pattern.matches(self.text.split('/').map(Segment::written)) {
            return true;
        }
        !self.is_plain && self.others().iter(self.text).any(|reading| pattern.matches(reading))
    }

    /// Each reading alone.
    pub(crate) fn each(&self) -> impl Iterator<Item = Self> {
        let Self { text, .. } = *self;
        let written =
            self.is_written.then(|| Self { text, is_written: true, is_plain: true, others: OnceCell::new() });
        let others = if self.is_plain { None } else { Some(self.others()) };
        let others = others.into_iter().flat_map(Readings::each).map(move |reading| Self {
            text,
            is_written: false,
            is_plain: false,
            others: OnceCell::from(reading),
        });
        written.into_iter().chain(others)
    }

    fn others(&self) -> &Readings {
        self.others.get_or_init(|| Readings::of(self.text))
    }
}

/// Whether the path has one reading: no escapes, parameters and backslashes, no empty segments, `.` and `..`.
fn is_plain(path: &str) -> bool {
    path.is_empty()
        || !path.bytes().any(|byte| matches!(byte, b'%' | b';' | b'\\'))
            && path.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

/// The bytes of a text whose escapes are decoded once. What is no escape stays.
fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (byte, length) = first(rest)?;
        rest = rest.get(length..).unwrap_or_default();
        Some(byte)
    })
}

/// The first byte of a text, decoded, and the number of bytes that it is written with.
fn first(text: &[u8]) -> Option<(u8, usize)> {
    match text {
        [b'%', high, low, ..] => {
            let byte = hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low);
            Some(byte.map_or((b'%', 1), |byte| (byte, 3)))
        }
        [byte, ..] => Some((*byte, 1)),
        [] => None,
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
