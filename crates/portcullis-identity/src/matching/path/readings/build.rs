//! All readings of one path.

use std::ops::Range;

use smallvec::SmallVec;

use super::super::fold;
use super::super::pattern::{MAX_SEGMENTS, ReadSegment};
use super::decode::Decoded;
use super::dots::Dots;
use super::forwarded::forwarded;

/// The readings of a path, each as parts of a folded text.
///
/// At most 7 040: escapes are decoded up to twice, and the path is split before it is decoded, between or behind, which are six pairs; each
/// with or without parameters, split at backslashes or not, and cut off at a query, at a fragment, at a zero or not; each with or without
/// its empty segments, with `.` and `..` resolved or not, and with its first segment as a host or not; and all of it for what a proxy
/// [makes of the path](forwarded) as well, in up to four ways. What is decoded is read once more without the escapes
/// that only some servers know, which are text to the others. However long the path is, each keeps a bounded number of segments.
#[derive(Debug, Default)]
pub(super) struct Readings {
    /// Of one number of times that escapes are decoded after the other.
    text: SmallVec<[u8; 512]>,
    /// Of one reading after the other.
    segments: SmallVec<[Part; 256]>,
    ends: SmallVec<[u32; 64]>,
    has_dots: bool,
    is_illegible: bool,
}

/// A part of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    start: u32,
    /// Without blanks and dots.
    trimmed: u32,
    is_empty: bool,
}

/// A pattern looks at two segments behind its own.
pub(super) const KEPT: usize = MAX_SEGMENTS + 2;

/// How a path is split.
#[derive(Clone, Copy)]
struct Way {
    /// Separators count if they were decoded at most this often.
    times: u8,
    features: Features,
}

bitflags::bitflags! {
    /// What counts besides slashes.
    #[derive(Clone, Copy, Default)]
    struct Features: u8 {
        /// A `;` begins parameters, which are left out.
        const PARAMETERS = 1;
        /// A backslash is a slash.
        const BACKSLASHES = 2;
        /// A query ends the path.
        const QUERY = 4;
        /// A fragment ends it.
        const FRAGMENT = 8;
        /// A zero ends it.
        const ZERO = 16;
    }
}

impl Readings {
    pub(super) fn of(path: &str) -> Self {
        // The form `*`, and that of `CONNECT`, which has no path.
        let mut readings = Self { is_illegible: !path.starts_with('/'), ..Self::default() };
        let path = path.strip_prefix('/').unwrap_or(path).as_bytes();
        readings.add_written(path);
        for text in forwarded(path) {
            readings.add_written(&text);
        }
        readings
    }

    /// The readings of a path in which everything is decoded. `None` if servers read something of it in too many ways.
    pub(super) fn decoded(path: &str) -> Option<Self> {
        let mut readings = Self::default();
        let path = path.strip_prefix('/')?.as_bytes();
        readings.add_last(path)?;
        forwarded(path).iter().try_for_each(|text| readings.add_last(text))?;
        Some(readings)
    }

    fn add_last(&mut self, path: &[u8]) -> Option<()> {
        let (mut decoded, mut last) = (Decoded::written(path), 0);
        for times in 1..=TIMES {
            let Some(next) = decoded.decode(times, true) else { break };
            (decoded, last) = (next, times);
        }
        let is_legible = !decoded.is_illegible && !decoded.has_escapes();
        is_legible.then(|| self.add_decoded(&decoded, last))
    }

    fn add_written(&mut self, path: &[u8]) {
        let written = Decoded::written(path);
        self.add_decoded(&written, 0);
        if self.add_times(&written, true) {
            self.add_times(&written, false);
        }
    }

    /// Adds what is decoded, with or without odd escapes. Returns whether there are such.
    fn add_times(&mut self, written: &Decoded, decodes_odd: bool) -> bool {
        let mut decoded = None;
        for times in 1..=TIMES {
            let last = decoded.as_ref().unwrap_or(written);
            let Some(next) = last.decode(times, decodes_odd) else { break };
            self.add_decoded(&next, times);
            decoded = Some(next);
        }
        let last = decoded.as_ref().unwrap_or(written);
        self.is_illegible |= last.is_illegible || last.has_escapes();
        last.has_odd
    }

    fn add_decoded(&mut self, decoded: &Decoded, times: u8) {
        let (begin, first) = (self.text.len(), self.ends.len());
        let mut births: SmallVec<[u8; 256]> = SmallVec::new();
        decoded.fold(|byte, birth| {
            self.text.push(byte);
            births.push(birth);
        });
        // What nothing in the path tells apart is one way.
        let mut found = Features::default();
        for split in 0..=times {
            let mut is_other = split == 0;
            for (byte, birth) in self.text.get(begin..).unwrap_or_default().iter().zip(&births) {
                if let Some(feature) = Features::of(*byte).filter(|_| *birth == split) {
                    found |= feature;
                    is_other = true;
                }
            }
            for features in (0..=found.bits()).filter(|_| is_other).map(Features::from_bits_truncate) {
                if found.contains(features) && features.has_one_end() {
                    self.add(begin, &births, Way { times: split, features }, first);
                }
            }
        }
    }

    /// Adds the readings of a way, of which those behind `first` may be the same.
    fn add(&mut self, begin: usize, births: &[u8], way: Way, first: usize) {
        let text = self.text.get(begin..).unwrap_or_default();
        let begins_with_two = matches!(way.part(text, births, 0), (_, Some(1)));
        for is_host_next in [false, true].into_iter().take(1 + usize::from(begins_with_two)) {
            self.add_split(begin, births, way, first, is_host_next);
        }
    }

    fn add_split(&mut self, begin: usize, births: &[u8], way: Way, first: usize, is_host_next: bool) {
        let mut kept =
            [(true, false), (true, true), (false, false), (false, true)].map(|(keeps_empty, resolves)| {
                Kept { is_host_next, keeps_empty, resolves, parts: SmallVec::new(), beyond: 0 }
            });
        let text = self.text.get(begin..).unwrap_or_default();
        let mut next = Some(0);
        while let Some(start) = next {
            let (range, after) = way.part(text, births, start);
            next = after;
            let segment = text.get(range.clone()).unwrap_or_default();
            let dots = Dots::of(trimmed(segment, fold::is_blank));
            self.has_dots |= dots.is_some();
            // What leads above is no end that may be ignored.
            let is_above = matches!(dots, Some(Dots::Above));
            let length = if is_above { segment.len() } else { trimmed(segment, fold::is_trimmed_byte).len() };
            let at = |at: usize| u32::try_from(begin + at).unwrap_or(u32::MAX);
            let part = Part {
                start: at(range.start),
                trimmed: at(range.start + length),
                is_empty: segment.is_empty(),
            };
            for kept in &mut kept {
                kept.add(part, dots);
            }
        }
        for kept in kept {
            let is_known = |range: Range<usize>| self.segments.get(range).unwrap_or_default() == &*kept.parts;
            if !(first..self.ends.len()).any(|index| is_known(self.range(index))) {
                self.segments.extend_from_slice(&kept.parts);
                self.ends.push(u32::try_from(self.segments.len()).unwrap_or(u32::MAX));
            }
        }
    }

    /// Whether servers read it in too many ways: besides those that it has, it may have others.
    pub(super) fn is_illegible(&self) -> bool {
        self.is_illegible || self.has_dots
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = ReadSegment<'_>>> {
        (0..self.len()).map(|index| self.read(index))
    }

    pub(super) fn get(&self, index: usize) -> Option<impl Iterator<Item = ReadSegment<'_>>> {
        (index < self.len()).then(|| self.read(index))
    }

    fn read(&self, index: usize) -> impl Iterator<Item = ReadSegment<'_>> {
        self.segments.get(self.range(index)).unwrap_or_default().iter().map(|part| {
            let trimmed = self.text.get(part.start as usize..part.trimmed as usize).unwrap_or_default();
            ReadSegment { trimmed, is_empty: part.is_empty }
        })
    }

    fn range(&self, index: usize) -> Range<usize> {
        let end = |index: usize| self.ends.get(index).map_or(0, |end| *end as usize);
        index.checked_sub(1).map_or(0, end)..end(index)
    }
}

impl Features {
    /// With several ends, the first of them would count, which is one end as well.
    fn has_one_end(self) -> bool {
        self.intersection(Self::QUERY | Self::FRAGMENT | Self::ZERO).bits().count_ones() <= 1
    }

    /// What a byte needs to count. `None` for a byte that is part of a segment in any case.
    fn of(byte: u8) -> Option<Self> {
        match byte {
            b'/' => Some(Self::empty()),
            b';' => Some(Self::PARAMETERS),
            b'\\' => Some(Self::BACKSLASHES),
            b'?' => Some(Self::QUERY),
            b'#' => Some(Self::FRAGMENT),
            0 => Some(Self::ZERO),
            _ => None,
        }
    }
}

impl Way {
    /// The part that begins here, and where the next one begins.
    fn part(self, text: &[u8], births: &[u8], start: usize) -> (Range<usize>, Option<usize>) {
        let mut parameters = None;
        for (at, byte) in text.iter().enumerate().skip(start) {
            let counts = Features::of(*byte).is_some_and(|feature| self.features.contains(feature))
                && births.get(at).is_some_and(|birth| *birth <= self.times);
            match byte {
                _ if !counts => {}
                b';' => _ = parameters.get_or_insert(at),
                b'/' | b'\\' => return (start..parameters.unwrap_or(at), Some(at + 1)),
                _ => return (start..parameters.unwrap_or(at), None),
            }
        }
        (start..parameters.unwrap_or(text.len()), None)
    }
}

/// The segments of a reading.
struct Kept {
    /// Whether the next segment is a host, as in `//host/path`, and no part of the path.
    is_host_next: bool,
    keeps_empty: bool,
    resolves: bool,
    parts: SmallVec<[Part; 96]>,
    /// The number of those that follow, and that no pattern looks at.
    beyond: usize,
}

impl Kept {
    /// Adds a segment. Where dots are resolved, `.` is left out, and `..` takes the segment before it away.
    fn add(&mut self, part: Part, dots: Option<Dots>) {
        if self.is_host_next {
            self.is_host_next = part.is_empty;
            return;
        }
        match dots.filter(|_| self.resolves) {
            Some(Dots::Here) => {}
            Some(Dots::Above) if self.beyond > 0 => self.beyond -= 1,
            Some(Dots::Above) => drop(self.parts.pop()),
            None if part.is_empty && !self.keeps_empty => {}
            None if self.beyond == 0 && self.parts.len() < KEPT => self.parts.push(part),
            None => self.beyond += 1,
        }
    }
}

fn trimmed(segment: &[u8], is_trimmed: impl Fn(u8) -> bool) -> &[u8] {
    let end = segment.iter().rposition(|byte| !is_trimmed(*byte)).map_or(0, |last| last + 1);
    segment.get(..end).unwrap_or_default()
}

/// How often escapes are decoded.
const TIMES: u8 = 2;
