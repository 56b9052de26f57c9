//! The ways in which routers, proxies and services may read a path.

mod build;
mod decode;
mod dots;
mod forwarded;

use std::cell::OnceCell;

use http::request::Parts;
use smallvec::SmallVec;

use super::matched_path;
use super::pattern::{PathPattern, ReadSegment, fixed};
use crate::matching::Undecided;
use crate::written_path::{Form, original_path};
use build::{KEPT, Readings};

/// The path of a request, with all its readings.
///
/// A restriction applies if one reading [meets](Self::meet) its pattern, and a relief only if the path has one reading and is
/// [written](Self::are_certain) as the pattern is. A path in lower case that has one reading, as nearly all have, is looked at once. The
/// other readings are parts of a text on the stack, so that they allocate nothing unless the path is long.
#[derive(Debug)]
pub struct PathReadings<'p> {
    parts: &'p Parts,
    written: OnceCell<(&'p str, Form)>,
    route: OnceCell<Option<&'p str>>,
    others: OnceCell<Readings>,
}

/// One reading of a path.
#[derive(Clone, Copy, Debug)]
pub struct PathReading<'r, 'p> {
    all: &'r PathReadings<'p>,
    /// `None` for a plain path.
    index: Option<usize>,
}

impl<'p> PathReadings<'p> {
    /// The readings of the path that was requested. Nothing is read before it is needed.
    pub fn of(parts: &'p Parts) -> Self {
        Self { parts, written: OnceCell::new(), route: OnceCell::new(), others: OnceCell::new() }
    }

    /// The request.
    pub fn parts(&self) -> &'p Parts {
        self.parts
    }

    /// The path as it is written.
    pub fn path(&self) -> &'p str {
        self.written().0
    }

    fn written(&self) -> (&'p str, Form) {
        *self.written.get_or_init(|| {
            let path = original_path(self.parts);
            (path, Form::of(path))
        })
    }

    /// Whether a reading of the path is one of the pattern, or its route is the pattern.
    pub fn meet(&self, pattern: &PathPattern) -> bool {
        self.meet_by(pattern, |path| match path {
            None => pattern.matches(self.plain()),
            Some(others) => others.iter().any(|reading| pattern.matches(reading)),
        })
    }

    /// Whether the path has one reading, and is written as the pattern is, or its route is the pattern.
    pub fn are_certain(&self, pattern: &PathPattern) -> bool {
        let (path, form) = self.written();
        form != Form::Several && pattern.is_written_as(path) || self.route() == Some(pattern.text())
    }

    /// Compares them strictly: only a certain match is one, and what is no certain match and may be one is undecided.
    pub(super) fn compare(&self, pattern: &PathPattern) -> Result<bool, Undecided> {
        let (path, form) = self.written();
        if form != Form::Several && pattern.is_written_as(path) {
            return Ok(true);
        }
        if form == Form::Plain && pattern.is_plain() {
            return Ok(false);
        }
        let is_undecided = self.meet(pattern)
            || self.is_too_long()
            || form == Form::Several && self.decided_route().is_none() && self.others().is_illegible();
        if is_undecided { Err(Undecided::Ambiguous) } else { Ok(false) }
    }

    /// Each reading alone.
    pub fn each(&self) -> impl Iterator<Item = PathReading<'_, 'p>> {
        let is_plain = self.written().1 == Form::Plain;
        let others = if is_plain || self.is_too_long() { 0 } else { self.others().len() };
        let plain = is_plain.then_some(None);
        plain.into_iter().chain((0..others).map(Some)).map(move |index| PathReading { all: self, index })
    }

    /// `reads` is called with the readings, or with `None` for the path as it is written.
    fn meet_by(&self, pattern: &PathPattern, reads: impl Fn(Option<&Readings>) -> bool) -> bool {
        let (path, form) = self.written();
        if form == Form::Plain && pattern.is_plain() && pattern.is_written_as(path) {
            return true;
        }
        match self.route() {
            Some(route) if route == pattern.text() => true,
            // A router has decided already: in its case, and a route without parameters for one path. That may end with a slash, a
            // pattern cannot.
            Some(route) if is_in_other_case(route, pattern.text()) => false,
            Some(_) if self.decided_route().is_some() => {
                pattern.is_written_as(path) || pattern.is_written_as(without_slash(path))
            }
            _ if form == Form::Plain => !pattern.is_plain() && reads(None),
            _ if self.is_too_long() => true,
            _ => reads(Some(self.others())),
        }
    }

    /// Whether it takes too long to read it in all ways: then it may be one of any pattern.
    fn is_too_long(&self) -> bool {
        let (path, form) = self.written();
        form == Form::Several && path.len() > LONGEST
    }

    /// The pattern of the route that a router has matched.
    pub(super) fn route(&self) -> Option<&'p str> {
        *self.route.get_or_init(|| matched_path(self.parts))
    }

    /// The route if it is one path.
    fn decided_route(&self) -> Option<&'p str> {
        self.route().filter(|route| *route == self.path() && !route.contains('{'))
    }

    fn plain(&self) -> impl Iterator<Item = ReadSegment<'p>> {
        let path = self.path();
        let segments = path.strip_prefix('/').unwrap_or(path).split('/');
        segments.map(|segment| ReadSegment { trimmed: segment.as_bytes(), is_empty: segment.is_empty() })
    }

    fn others(&self) -> &Readings {
        self.others.get_or_init(|| Readings::of(self.path()))
    }
}

impl PathReading<'_, '_> {
    /// Whether it is one of the pattern, or the route is the pattern.
    pub fn meets(&self, pattern: &PathPattern) -> bool {
        self.all.meet_by(pattern, |others| match (others, self.index) {
            (Some(others), Some(index)) => others.get(index).is_some_and(|reading| pattern.matches(reading)),
            _ => pattern.matches(self.all.plain()),
        })
    }
}

/// What a path says, folded and decoded: `say` gets the segments of each of its readings.
///
/// A spelling therefore changes nothing, and a path in which servers may find different things says none of them.
///
/// # Errors
///
/// If two readings say different things, or servers may read it in further ways.
pub(crate) fn said_alike(
    path: &str,
    say: impl Fn(&[ReadSegment<'_>]) -> Option<PathText>,
) -> Result<Option<PathText>, Undecided> {
    if Form::of(path) != Form::Several {
        let folded: PathText = path.bytes().skip(1).map(|byte| byte.to_ascii_lowercase()).collect();
        let segments = folded.split(|byte| *byte == b'/').take(KEPT);
        let segments = segments.map(|segment| ReadSegment { trimmed: segment, is_empty: segment.is_empty() });
        return Ok(say(&segments.collect::<Segments<'_>>()));
    }
    let readings = Some(path).filter(|path| path.len() <= LONGEST).and_then(Readings::decoded);
    let readings = readings.ok_or(Undecided::Ambiguous)?;
    let mut said = None;
    for reading in readings.iter() {
        let Some(text) = say(&reading.collect::<Segments<'_>>()) else { continue };
        if said.as_ref().is_some_and(|said| *said != text) {
            return Err(Undecided::Ambiguous);
        }
        said = Some(text);
    }
    Ok(said)
}

/// On the stack where it is short.
pub(crate) type PathText = SmallVec<[u8; 256]>;
type Segments<'s> = SmallVec<[ReadSegment<'s>; 16]>;

/// Whether a route differs from a pattern in the case of its literals, and in nothing but case and a slash at its end.
fn is_in_other_case(route: &str, pattern: &str) -> bool {
    let route = without_slash(route);
    let mut segments = route.split('/').zip(pattern.split('/'));
    route.eq_ignore_ascii_case(pattern) && segments.any(|(one, other)| fixed(one) != fixed(other))
}

fn without_slash(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

/// In bytes.
const LONGEST: usize = 4_096;

#[cfg(test)]
mod tests;
