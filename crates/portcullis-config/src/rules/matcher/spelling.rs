//! The ways in which routers and proxies may read a path.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::path::{MAX_SEGMENTS, PathPattern};

/// The path of a request, with its other readings. A path that has only one, as nearly all have, allocates nothing.
pub(crate) struct Spellings<'p> {
    /// As it is written. `None` for one of the other readings alone.
    path: Option<&'p str>,
    is_plain: bool,
    others: OnceCell<Vec<Segments>>,
}

/// Those that a pattern may look at: the first [`KEPT`].
type Segments = Vec<Vec<u8>>;

/// A pattern looks at two segments behind its own.
const KEPT: usize = MAX_SEGMENTS + 2;

impl<'p> Spellings<'p> {
    pub(crate) fn of(path: &'p str) -> Self {
        let path = path.strip_prefix('/').unwrap_or(path);
        Self { path: Some(path), is_plain: is_plain(path), others: OnceCell::new() }
    }

    /// Whether a reading of the path is one of the pattern.
    pub(crate) fn match_pattern(&self, pattern: &PathPattern) -> bool {
        if self.path.is_some_and(|path| pattern.matches(path.split('/').map(str::as_bytes))) {
            return true;
        }
        !self.is_plain
            && self.others().iter().any(|reading| pattern.matches(reading.iter().map(Vec::as_slice)))
    }

    /// Each reading alone.
    pub(crate) fn each(&self) -> impl Iterator<Item = Self> {
        let raw = self.path.map(|path| Self { path: Some(path), is_plain: true, others: OnceCell::new() });
        let others = if self.is_plain { &[][..] } else { self.others() };
        let others = others.iter().map(|reading| Self {
            path: None,
            is_plain: false,
            others: OnceCell::from(vec![reading.clone()]),
        });
        raw.into_iter().chain(others)
    }

    fn others(&self) -> &[Segments] {
        self.others.get_or_init(|| self.path.map(readings).unwrap_or_default())
    }
}

/// Whether the path has one reading: no escapes, parameters and backslashes, no empty segments, `.` and `..`.
fn is_plain(path: &str) -> bool {
    path.is_empty()
        || !path.bytes().any(|byte| matches!(byte, b'%' | b';' | b'\\'))
            && path.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

/// At most 20 readings: five ways to decode and split, each with or without its empty segments, and with `.` and `..` resolved or
/// not. Escapes are decoded once. However long the path is, they keep a bounded number of segments.
fn readings(path: &str) -> Vec<Segments> {
    let raw = || path.split('/').map(str::as_bytes);
    let decoded = decode(path.as_bytes());
    let end = decoded.iter().position(|byte| matches!(byte, b'?' | b'#' | 0)).unwrap_or(decoded.len());
    let lenient = || decoded.get(..end).unwrap_or_default().split(|byte| matches!(byte, b'/' | b'\\'));
    let mut readings = Vec::new();
    add_each(&mut readings, || raw().map(Cow::Borrowed));
    add_each(&mut readings, || raw().map(decode));
    add_each(&mut readings, || decoded.split(|byte| *byte == b'/').map(Cow::Borrowed));
    add_each(&mut readings, || raw().map(|segment| decode(without_parameters(segment))));
    add_each(&mut readings, || lenient().map(without_parameters).map(Cow::Borrowed));
    readings
}

/// Adds the readings of one way to decode and split, unless they are there.
fn add_each<'s, I: Iterator<Item = Cow<'s, [u8]>>>(readings: &mut Vec<Segments>, way: impl Fn() -> I) {
    for keeps_empty in [true, false] {
        let kept = || way().filter(move |segment| keeps_empty || !segment.is_empty());
        for reading in [kept().take(KEPT).collect(), resolved(kept())] {
            let reading: Segments = reading.into_iter().map(Cow::into_owned).collect();
            if !readings.contains(&reading) {
                readings.push(reading);
            }
        }
    }
}

fn resolved<'s>(segments: impl Iterator<Item = Cow<'s, [u8]>>) -> Vec<Cow<'s, [u8]>> {
    let mut resolved = Vec::new();
    // The number of those that follow, and that no pattern looks at.
    let mut beyond = 0_usize;
    for segment in segments {
        match (&*segment, beyond) {
            (b".", _) => {}
            (b"..", 0) => drop::<Option<Cow<'_, [u8]>>>(resolved.pop()),
            (b"..", _) => beyond -= 1,
            (_, 0) if resolved.len() < KEPT => resolved.push(segment),
            _ => beyond += 1,
        }
    }
    resolved
}

fn without_parameters(segment: &[u8]) -> &[u8] {
    segment.split(|byte| *byte == b';').next().unwrap_or_default()
}

/// Decodes escapes once. What is no escape stays.
fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'%') {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut text = text;
    while let [byte, rest @ ..] = text {
        let escape = match rest {
            [high, low, after @ ..] if *byte == b'%' => hex(*high).zip(hex(*low)).zip(Some(after)),
            _ => None,
        };
        let (next, after) = match escape {
            Some(((high, low), after)) => (high << 4 | low, after),
            None => (*byte, rest),
        };
        decoded.push(next);
        text = after;
    }
    Cow::Owned(decoded)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
