//! All readings of one path.

use std::ops::Range;

use smallvec::SmallVec;

use super::super::path::MAX_SEGMENTS;
use super::{Segment, first};

/// The readings of a path, each as parts of its text, and without duplicates.
///
/// At most 20: five ways to decode and split, each with or without its empty segments, and with `.` and `..` resolved or not.
/// However long the path is, each keeps a bounded number of segments.
#[derive(Clone, Debug, Default)]
pub(super) struct Readings {
    /// Of one reading after the other.
    segments: SmallVec<[Part; INLINE]>,
    ends: SmallVec<[End; MOST]>,
}

/// A part of the text.
type Part = Range<u16>;

/// Where the segments of a reading end, and whether they are decoded.
#[derive(Clone, Copy, Debug)]
struct End {
    at: u16,
    is_decoded: bool,
}

/// Paths with a few segments are on the stack.
const INLINE: usize = 96;
const MOST: usize = 20;
/// A pattern looks at two segments behind its own.
const KEPT: usize = MAX_SEGMENTS + 2;

/// How a path is decoded and split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Not decoded.
    Written,
    /// Split, then decoded.
    Split,
    /// Decoded, then split.
    Decoded,
    /// Split, then without parameters, then decoded.
    Parameters,
    /// Decoded, cut off at a query, a fragment or a zero, split also at backslashes, then without parameters.
    Lenient,
}

impl Readings {
    pub(super) fn of(path: &str) -> Self {
        let mut readings = Self::default();
        for way in [Way::Written, Way::Split, Way::Decoded, Way::Parameters, Way::Lenient] {
            for keeps_empty in [true, false] {
                let kept = || Parts::of(path, way).filter(|part| keeps_empty || !part.is_empty());
                let begin = readings.segments.len();
                readings.segments.extend(kept().take(KEPT));
                readings.end(begin, path, way);
                let begin = readings.segments.len();
                readings.add_resolved(begin, path, way, kept());
                readings.end(begin, path, way);
            }
        }
        readings
    }

    /// Adds the parts, of which `.` is left out, and `..` takes the one before it away.
    fn add_resolved(&mut self, begin: usize, path: &str, way: Way, parts: impl Iterator<Item = Part>) {
        // The number of those that follow, and that no pattern looks at.
        let mut beyond = 0_usize;
        for part in parts {
            let segment = way.segment(path, &part);
            if segment.is(".") {
                continue;
            }
            if segment.is("..") {
                if beyond > 0 {
                    beyond -= 1;
                } else if self.segments.len() > begin {
                    self.segments.pop();
                }
            } else if beyond == 0 && self.segments.len() < begin + KEPT {
                self.segments.push(part);
            } else {
                beyond += 1;
            }
        }
    }

    /// Ends a reading, unless there is one that is the same.
    fn end(&mut self, begin: usize, path: &str, way: Way) {
        let is_decoded = way != Way::Written && path.contains('%');
        let added = self.segments.get(begin..).unwrap_or_default();
        let is_known = self.ranges().any(|(known, decoded)| {
            decoded == is_decoded && self.segments.get(known).unwrap_or_default() == added
        });
        if is_known {
            self.segments.truncate(begin);
        } else {
            // At most 20 times 66.
            let at = u16::try_from(self.segments.len()).unwrap_or(u16::MAX);
            self.ends.push(End { at, is_decoded });
        }
    }

    fn ranges(&self) -> impl Iterator<Item = (Range<usize>, bool)> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let range = begin..usize::from(end.at);
            begin = range.end;
            (range, end.is_decoded)
        })
    }

    /// The segments of each reading of this path.
    pub(super) fn iter<'p>(&self, path: &'p str) -> impl Iterator<Item = impl Iterator<Item = Segment<'p>>> {
        self.ranges().map(move |(range, is_decoded)| {
            let parts = self.segments.get(range).unwrap_or_default();
            parts.iter().map(move |part| Segment { text: text(path, part), is_decoded })
        })
    }

    /// Each reading alone.
    pub(super) fn each(&self) -> impl Iterator<Item = Self> {
        self.ranges().map(|(range, is_decoded)| {
            let segments: SmallVec<_> = self.segments.get(range).unwrap_or_default().into();
            let at = u16::try_from(segments.len()).unwrap_or(u16::MAX);
            Self { segments, ends: SmallVec::from_iter([End { at, is_decoded }]) }
        })
    }
}

fn text<'p>(path: &'p str, part: &Part) -> &'p [u8] {
    path.as_bytes().get(part.start.into()..part.end.into()).unwrap_or_default()
}

impl Way {
    fn segment<'p>(self, path: &'p str, part: &Part) -> Segment<'p> {
        Segment { text: text(path, part), is_decoded: self != Self::Written }
    }

    /// The byte at the beginning of a text, and the number of bytes that it is written with.
    fn first(self, text: &[u8]) -> Option<(u8, usize)> {
        match self {
            Self::Decoded | Self::Lenient => first(text),
            Self::Written | Self::Split | Self::Parameters => text.first().map(|byte| (*byte, 1)),
        }
    }

    fn ends_at(self, byte: u8) -> bool {
        self == Self::Lenient && matches!(byte, b'?' | b'#' | 0)
    }

    fn splits_at(self, byte: u8) -> bool {
        byte == b'/' || self == Self::Lenient && byte == b'\\'
    }

    fn has_parameters(self) -> bool {
        matches!(self, Self::Parameters | Self::Lenient)
    }
}

/// The parts between separators.
struct Parts<'p> {
    path: &'p [u8],
    way: Way,
    /// Where the next one begins.
    next: Option<usize>,
}

impl<'p> Parts<'p> {
    const fn of(path: &'p str, way: Way) -> Self {
        Self { path: path.as_bytes(), way, next: Some(0) }
    }
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let start = self.next.take()?;
        let (mut at, mut parameters) = (start, None);
        while let Some((byte, length)) = self.way.first(self.path.get(at..).unwrap_or_default()) {
            if self.way.ends_at(byte) {
                break;
            }
            if self.way.splits_at(byte) {
                self.next = Some(at + length);
                break;
            }
            if byte == b';' && self.way.has_parameters() {
                parameters.get_or_insert(at);
            }
            at += length;
        }
        // A URI has less than 64 KiB.
        let offset = |at: usize| u16::try_from(at).unwrap_or(u16::MAX);
        Some(offset(start)..offset(parameters.unwrap_or(at)))
    }
}
