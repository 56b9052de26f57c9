//! Keys by path.

use std::borrow::Cow;

use http::request::Parts;
use portcullis_core::{KeyWriter, or_panic};

use crate::matching::{
    PathPattern, PathText, PatternError, PatternSegment, ReadSegment, Undecided, said_alike, trimmed,
};
use crate::written_path::original_path;
use crate::{Identity, KeyError, KeyExtractor, KeyForms, NamedPart, TaggedPart};

/// The path of a request, or segments of it: a budget for each channel in `/channels/{channel}`.
///
/// The path is the one that was requested, without its query, also in a nested Axum router. It is read in one way: in lower case, with its
/// escapes decoded, without empty segments, parameters (`;v=1`), and blanks and dots at the end of a segment. So `/Channels/7/` and
/// `/channels/%37` have the budget of `/channels/7`.
///
/// A path in which servers may find different segments is an error of the client, because the inner service may find others than the layer:
/// `/a%3F/../b` is `/a` or `/b`. So are one of more than 4 096 bytes that can be read in several ways, and one with a control character, a
/// malformed escape or one that is left after two decodings. A path that does not match the pattern has no identity.
///
/// The client chooses the path, and gets a new budget with each new one: add a policy by [`ClientIp`](crate::ClientIp). All clients share the
/// budget of a path, unless the key names the client as well, with [`and`](KeyExtractor::and).
///
/// ```
/// use http::Request;
/// use portcullis::Secret;
/// use portcullis::key::{Identity, Key, KeyError, KeyExtractor, PathKey};
///
/// let key = PathKey::of("/channels/{channel}/messages/{*rest}").segment("channel");
/// let key_of = |path: &str| -> Result<Option<Key>, KeyError> {
///     let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
///     let mut hasher = Secret::published().hasher();
///     let identity = key.extract(&parts, &mut hasher.writer())?;
///     Ok(if identity == Identity::Found { Some(hasher.finish()?) } else { None })
/// };
/// let seven = key_of("/channels/7/messages/1")?;
/// assert!(seven.is_some() && key_of("/Channels/%37/messages//2")? == seven);
/// assert_ne!(key_of("/channels/8/messages/1")?, seven);
/// assert_eq!(key_of("/channels/7")?, None);
/// # Ok::<(), KeyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PathKey {
    pattern: Option<PathPattern>,
    /// The indices of the segments.
    segments: Box<[usize]>,
}

impl PathKey {
    /// Uses the whole path, of which the first 66 segments count.
    pub fn whole() -> Self {
        Self { pattern: None, segments: Box::default() }
    }

    /// Uses all named segments of a pattern together: `{name}` is a segment, or the part of it that differs, as in `{name}.json`, and
    /// `{*name}` the rest of the path. A pattern from configuration or input is parsed first.
    ///
    /// # Panics
    ///
    /// If a text is no pattern, or names no segment.
    #[track_caller]
    pub fn of(pattern: impl TryInto<PathPattern, Error: std::fmt::Display>) -> Self {
        let pattern = or_panic(pattern.try_into());
        let segments: Box<[_]> = pattern.parameters().map(|(at, _)| at).collect();
        assert!(!segments.is_empty(), "{pattern} names no segment: write `{{name}}` in place of one");
        Self { pattern: Some(pattern), segments }
    }

    /// Uses the segment of this name alone.
    ///
    /// # Panics
    ///
    /// If the pattern has no such segment.
    #[track_caller]
    #[must_use]
    pub fn segment(self, name: &str) -> Self {
        let named =
            |pattern: &PathPattern| pattern.parameters().find(|(_, one)| *one == name).map(|(at, _)| at);
        let found = self.pattern.as_ref().and_then(named);
        let at = found.unwrap_or_else(|| panic!("the path of the key has no segment `{name}`"));
        Self { segments: Box::new([at]), ..self }
    }

    /// What is charged for a path that begins with a slash. `None` if it does not match the pattern.
    pub(crate) fn said(&self, path: &str) -> Result<Option<PathText>, Undecided> {
        said_alike(path, |reading| self.say(reading))
    }

    /// What is charged, for one reading of the path. Several values have a zero between them, which no reading has.
    fn say(&self, reading: &[ReadSegment<'_>]) -> Option<PathText> {
        let mut said = PathText::new();
        let Some(pattern) = &self.pattern else {
            add_joined(&mut said, reading);
            return Some(said);
        };
        if !pattern.matches(reading.iter().copied()) {
            return None;
        }
        for at in &self.segments {
            match (pattern.segments().get(*at)?, reading.get(*at..)?) {
                (PatternSegment::Rest, rest) => add_joined(&mut said, rest),
                (segment, [first, ..]) => {
                    let start = said.len();
                    add(&mut said, segment.value(first.trimmed)?);
                    // Without the slash in front.
                    if said.len() > start {
                        said.remove(start);
                    }
                }
                _ => return None,
            }
            said.push(BETWEEN);
        }
        said.pop();
        Some(said)
    }
}

/// `/a/b`, or `/` where nothing is left.
fn add_joined(said: &mut PathText, segments: &[ReadSegment<'_>]) {
    let before = said.len();
    for segment in segments {
        add(said, segment.trimmed);
    }
    if said.len() == before {
        said.push(b'/');
    }
}

/// Adds what a segment is to all servers, with a slash in front. What is a slash or a backslash in it is a separator to some.
fn add(said: &mut PathText, segment: &[u8]) {
    let parts = without_end(segment).split(|byte| matches!(byte, b'/' | b'\\'));
    for part in parts.filter(|part| !part.is_empty()) {
        said.push(b'/');
        said.extend_from_slice(part);
    }
}

/// A segment without what only some servers take for its parameters, a query or a fragment.
fn without_end(segment: &[u8]) -> &[u8] {
    match segment.iter().position(|byte| matches!(byte, b';' | b'?' | b'#')) {
        Some(end) => trimmed(segment.get(..end).unwrap_or_default()),
        None => segment,
    }
}

const BETWEEN: u8 = 0;

impl KeyExtractor for PathKey {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let path = original_path(parts);
        // The form `*`, and that of `CONNECT`, which has no path.
        if !path.starts_with('/') {
            return Ok(Identity::Missing);
        }
        self.write_path(path, key)
    }

    fn is_chosen_by_client(&self) -> bool {
        true
    }

    /// `true`: it names what is requested, and not who requests it.
    fn is_shared(&self) -> bool {
        true
    }

    fn description(&self) -> Cow<'static, str> {
        let Some(pattern) = &self.pattern else { return Cow::Borrowed("path") };
        let mut all = pattern.parameters();
        let name = all.find(|(at, _)| *self.segments == [*at]).map(|(_, name)| name);
        Cow::Owned(match name.filter(|_| pattern.parameters().count() > 1) {
            Some(name) => format!("{{{name}}} of path {pattern}"),
            None => format!("path {pattern}"),
        })
    }

    fn forms(&self) -> KeyForms {
        KeyForms::of(self.clone())
    }
}

impl PathKey {
    fn write_path(&self, path: &str, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let said =
            self.said(path).map_err(|_| KeyError::client("the path can be read in more than one way"))?;
        let Some(said) = said else { return Ok(Identity::Missing) };
        let Some(pattern) = &self.pattern else {
            key.shared_part("path", &said);
            return Ok(Identity::Found);
        };
        for value in said.split(|byte| *byte == BETWEEN) {
            key.shared_part("path segment", value);
        }
        key.shared_part("path pattern", pattern.text().as_bytes());
        Ok(Identity::Found)
    }

    /// Whether a value is in the form in which it is charged.
    fn is_said(value: &[u8]) -> bool {
        let Ok(text) = str::from_utf8(value) else { return true };
        let path = if text.starts_with('/') { text.to_owned() } else { format!("/{text}") };
        let said = Self::whole().said(&path).ok().flatten();
        said.is_none_or(|said| *said == *path.as_bytes())
    }
}

impl NamedPart for PathKey {
    fn name(&self) -> Cow<'_, str> {
        self.description()
    }

    fn example(&self) -> Cow<'_, str> {
        self.pattern.as_ref().map_or("/search".into(), |pattern| pattern.text().into())
    }

    fn tags(&self) -> Vec<&str> {
        let segments = self.segments.iter().map(|_| "path segment");
        if self.pattern.is_some() { segments.chain(["path pattern"]).collect() } else { vec!["path"] }
    }

    /// A path, which is read like that of a request.
    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        let path = str::from_utf8(value).ok().filter(|path| path.starts_with('/'));
        match path.map(|path| self.write_path(path, key)).transpose()? {
            Some(Identity::Found) => Ok(()),
            _ => Err(KeyError::client("must be a path that begins with `/` and matches that of the key")),
        }
    }

    fn write_tagged(&self, given: &[TaggedPart<'_>], key: &mut KeyWriter<'_>) -> Option<usize> {
        let tags = self.tags();
        let given = given.get(..tags.len())?;
        if !given.iter().zip(&tags).all(|((tag, _), own)| tag == own) {
            return None;
        }
        let (values, pattern) = given.split_at(self.segments.len().max(usize::from(self.pattern.is_none())));
        let is_own = pattern
            .iter()
            .all(|(_, text)| self.pattern.as_ref().is_some_and(|own| own.text().as_bytes() == *text));
        if !is_own || !values.iter().all(|(_, value)| Self::is_said(value)) {
            return None;
        }
        for (tag, value) in given {
            key.shared_part(tag, value);
        }
        Some(given.len())
    }
}

impl TryFrom<&str> for PathPattern {
    type Error = PatternError;

    fn try_from(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests;
