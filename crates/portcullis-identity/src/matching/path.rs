//! Requests by path or by route.

mod fold;
mod pattern;
mod readings;

use std::str::FromStr;

use http::request::Parts;
use portcullis_core::or_panic;

use super::{MatcherError, RequestMatcher, Undecided};
use crate::written_path::is_plain;

pub(crate) use fold::trimmed;
pub(crate) use pattern::ReadSegment;
pub use pattern::{PathPattern, PatternError, PatternSegment};
pub use readings::{PathReading, PathReadings};
pub(crate) use readings::{PathText, said_alike};

/// Matches requests by their path: one path, all paths below one, or a route of Axum.
///
/// The path is the one that was requested: in a nested Axum router, which strips its prefix, the original one, with the prefix.
/// Paths are compared by whole segments, so that `/health` is not `/healthy`, and as an exact path not `/health/live`. The query does
/// not count.
///
/// # Readings
///
/// A path matches only if there is a single way to read it, and if it is written as the matcher is, in upper and lower case as well: it has
/// no escapes (`%2f`), no dot segments (`/..`), no empty segments (`//`, or a slash at its end), no dot at the end of a segment, no `;`,
/// no `\`, and only ASCII. Otherwise all its readings are compared:
///
/// - without regard to case;
/// - with escapes decoded up to twice, before the path is split into segments or after that, and with or without those that not all servers
///   know, `%u0061` and overlong forms of UTF-8;
/// - with or without its empty segments, and with its dot segments resolved or not, as they are written or when all is decoded;
/// - without its first segment, where it begins with two slashes: `//host/path`;
/// - without parameters (`;v=1`), split at backslashes, and cut off at an escaped `?`, `#` or zero;
/// - without blanks and dots at the end of a segment.
///
/// If one of them matches, or if the path has what servers read in too many ways, such as a dot segment or a malformed escape, the request
/// is [undecided](super::Undecided); otherwise it does not match. A request without a path, `OPTIONS *` or `CONNECT` with an
/// authority, is undecided. A path has at most 7 040 readings; of more than 4 096 bytes it is undecided if it has several.
///
/// Where Axum has matched a route without parameters, the router has decided: only this path counts, as it is written.
///
/// The path determines the handler only if nothing rewrites it between this layer and the handler, and if no other part of the
/// request, such as the host, chooses between handlers. Put the layer inside of what does.
///
/// ```
/// use http::Request;
/// use portcullis::layer::{RequestMatcher, RequestPath, Undecided};
///
/// let compare = |path: &str| {
///     let (parts, ()) = Request::get(path).body(()).unwrap().into_parts();
///     RequestPath::prefix("/admin").matches(&parts)
/// };
/// assert_eq!(compare("/admin/users?id=1"), Ok(true));
/// assert_eq!(compare("/administration"), Ok(false));
/// assert_eq!(compare("/caf%C3%A9"), Ok(false));
/// for path in ["/Admin", "/%61dmin", "/%2561dmin", "//admin", "/admin.", "/public/..;/admin", "/public/%2e%2e/admin"] {
///     assert_eq!(compare(path), Err(Undecided::Ambiguous));
/// }
/// ```
#[derive(Clone, Debug)]
pub struct RequestPath {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Path(PathPattern),
    #[cfg(feature = "axum")]
    Route(Box<str>),
}

impl RequestPath {
    /// Matches this path. One from configuration or input is parsed to a [`PlainPath`] first.
    ///
    /// # Panics
    ///
    /// If a text is no [`PlainPath`].
    #[track_caller]
    pub fn exact(path: &(impl AsRef<str> + ?Sized)) -> Self {
        Self { kind: Kind::Path(or_panic(pattern(path.as_ref()))) }
    }

    /// Matches this path and all paths below it. `/` matches every path. One from configuration or input is parsed to a [`PlainPath`]
    /// first.
    ///
    /// # Panics
    ///
    /// If a text is no [`PlainPath`].
    #[track_caller]
    pub fn prefix(path: &(impl AsRef<str> + ?Sized)) -> Self {
        Self { kind: Kind::Path(or_panic(pattern(path.as_ref())).with_paths_below()) }
    }

    /// Matches the Axum route with this pattern, as it was defined, with the prefixes of routers around it: `/users/{id}`.
    ///
    /// However a client writes its path, Axum has decided which route that is. Where no route has matched, the request is
    /// [undecided](super::Undecided): in the fallback, around a whole `Router`, and inside of services of `nest_service`.
    /// So a layer that denies a route belongs inside of the router; there it rejects requests for
    /// unknown paths as well.
    ///
    /// # Panics
    ///
    /// If the pattern does not begin with a slash.
    #[cfg(feature = "axum")]
    #[track_caller]
    pub fn route(pattern: &str) -> Self {
        let error = || MatcherError::NotAbsolute { path: pattern.to_owned() };
        assert!(pattern.starts_with('/'), "{}", error());
        Self { kind: Kind::Route(pattern.into()) }
    }
}

/// A path of at most 64 segments that can be read in one way: it begins with a slash, has no empty segment and none that ends with a dot,
/// and only the characters of plain ASCII paths.
///
/// ```
/// use portcullis::layer::{PlainPath, RequestPath};
///
/// let _ = RequestPath::prefix(&"/admin".parse::<PlainPath>()?);
/// assert!(["/caf%C3%A9", "/admin/..", "admin"].iter().all(|text| text.parse::<PlainPath>().is_err()));
/// # Ok::<(), portcullis::layer::MatcherError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainPath(PathPattern);

impl FromStr for PlainPath {
    type Err = MatcherError;

    fn from_str(path: &str) -> Result<Self, MatcherError> {
        pattern(path).map(Self)
    }
}

impl AsRef<str> for PlainPath {
    fn as_ref(&self) -> &str {
        self.0.text()
    }
}

impl RequestMatcher for RequestPath {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        self.matches_with(&PathReadings::of(parts))
    }

    fn matches_with(&self, request: &PathReadings<'_>) -> Result<bool, Undecided> {
        match &self.kind {
            Kind::Path(pattern) => request.compare(pattern),
            #[cfg(feature = "axum")]
            Kind::Route(route) => match request.route() {
                Some(matched) => Ok(matched == &**route),
                None => Err(Undecided::Ambiguous),
            },
        }
    }
}

/// Returns the pattern of the route of Axum that the request takes, such as `/users/{id}`. `None` outside of a router, for a layer
/// that wraps a whole router, and without the feature `axum`.
///
/// ```
/// use http::Request;
/// use portcullis_identity::matching::matched_path;
///
/// let (parts, ()) = Request::get("/users/7").body(()).unwrap().into_parts();
/// assert_eq!(matched_path(&parts), None);
/// ```
pub fn matched_path(parts: &Parts) -> Option<&str> {
    #[cfg(feature = "axum")]
    if let Some(matched) = parts.extensions.get::<axum::extract::MatchedPath>() {
        return Some(matched.as_str());
    }
    let _ = parts;
    None
}

/// The pattern of one path that can be read in one way.
fn pattern(path: &str) -> Result<PathPattern, MatcherError> {
    let owned = || path.to_owned();
    if !path.starts_with('/') {
        return Err(MatcherError::NotAbsolute { path: owned() });
    }
    // With the characters of patterns, which would match nothing.
    let is_usual = |character: &char| {
        character.is_ascii_graphic() && !matches!(character, '%' | ';' | '\\' | '?' | '#' | '{' | '}' | '*')
    };
    if let Some(character) = path.chars().find(|character| !is_usual(character)) {
        return Err(MatcherError::Character { path: owned(), character });
    }
    if !is_plain(path) {
        return Err(MatcherError::Segment { path: owned() });
    }
    PathPattern::literal(path).ok_or_else(|| MatcherError::TooLong { path: owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_path_is_named_in_the_error() {
        for (path, message) in [
            ("", r#"path "" does not begin with a slash: write "/""#),
            ("health", r#"path "health" does not begin with a slash: write "/health""#),
            ("/api/", r#"path "/api/" has a segment that is empty or ends with a dot: write it without"#),
            ("//", r#"path "//" has a segment that is empty or ends with a dot: write it without"#),
            ("/a.", r#"path "/a." has a segment that is empty or ends with a dot: write it without"#),
            ("/a/../b", r#"path "/a/../b" has a segment that is empty or ends with a dot: write it without"#),
        ] {
            assert_eq!(path.parse::<PlainPath>().unwrap_err().to_string(), message);
        }
        for (path, character) in [
            ("/%61", '%'),
            ("/a?b", '?'),
            ("/a#b", '#'),
            ("/a;b", ';'),
            ("/a\\b", '\\'),
            ("/a b", ' '),
            ("/caf\u{e9}", '\u{e9}'),
            ("/{id}", '{'),
            ("/static/*", '*'),
            ("/a\n", '\n'),
        ] {
            let error = MatcherError::Character { path: path.to_owned(), character };
            assert_eq!(path.parse::<PlainPath>(), Err(error));
        }
    }

    #[test]
    #[should_panic(expected = "path \"health\" does not begin with a slash")]
    fn invalid_literal_panics() {
        let _ = RequestPath::prefix("health");
    }

    #[cfg(feature = "axum")]
    #[test]
    #[should_panic(expected = "path \"users/{id}\" does not begin with a slash")]
    fn relative_route_panics() {
        let _ = RequestPath::route("users/{id}");
    }

    #[cfg(feature = "axum")]
    #[test]
    fn a_route_is_the_pattern_that_matched() {
        let (parts, ()) = http::Request::get("/users/{id}").body(()).unwrap().into_parts();
        assert_eq!(RequestPath::route("/users/{id}").matches(&parts), Err(Undecided::Ambiguous));
    }
}
