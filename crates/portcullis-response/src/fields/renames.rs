//! Names of an operator's own for the headers that show a budget.

use std::error::Error;
use std::fmt;
use std::mem;

use http::{HeaderMap, HeaderName, header};

use super::groups::is_figure;

/// The headers that have other names, each with its own.
#[derive(Clone, Debug, Default)]
pub struct HeaderRenames {
    names: Vec<(HeaderName, HeaderName)>,
    /// Whether they are those of the limiter, which the first own name of a layer replaces.
    are_inherited: bool,
}

/// Why a header cannot have another name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderRenameError {
    /// It is none of the headers that show a budget.
    NoFigure(HeaderName),
    /// The new name has a meaning of its own in responses.
    Reserved(HeaderName),
    /// Two headers would have one name, or one has two.
    Twice(HeaderName),
}

impl fmt::Display for HeaderRenameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFigure(name) => write!(
                f,
                "{name} shows no budget: only headers such as x-ratelimit-limit have other names, and Retry-After keeps its own"
            ),
            Self::Reserved(name) => {
                write!(f, "{name} has another meaning in a response: use a name such as x-rate-limit-limit")
            }
            Self::Twice(name) => write!(f, "{name} is the name of two headers: use a name for each"),
        }
    }
}

impl Error for HeaderRenameError {}

impl HeaderRenames {
    /// The names for a layer, which may have its own in place of them.
    pub(crate) fn inherit(&mut self) {
        self.are_inherited = true;
    }

    /// Adds another name.
    ///
    /// # Errors
    ///
    /// If `from` shows no budget, or `to` is the name of another header.
    pub fn add(&mut self, from: HeaderName, to: HeaderName) -> Result<(), HeaderRenameError> {
        if !is_figure(&from) {
            return Err(HeaderRenameError::NoFigure(from));
        }
        if is_figure(&to) || RESERVED.contains(&to) {
            return Err(HeaderRenameError::Reserved(to));
        }
        if mem::take(&mut self.are_inherited) {
            self.names.clear();
        }
        if let Some((twice, _)) = self.names.iter().find(|(one, _)| *one == from) {
            return Err(HeaderRenameError::Twice(twice.clone()));
        }
        if self.names.iter().any(|(_, other)| *other == to) {
            return Err(HeaderRenameError::Twice(to));
        }
        self.names.push((from, to));
        Ok(())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name that a header has.
    pub(crate) fn name_of<'a>(&'a self, name: &'a HeaderName) -> &'a HeaderName {
        self.names.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to)
    }

    /// Renames what a layer has written.
    #[cold]
    pub(crate) fn apply(&self, headers: &mut HeaderMap) {
        for (from, to) in &self.names {
            if let Some(value) = headers.remove(from) {
                headers.insert(to, value);
            }
        }
    }
}

/// What responses have besides.
const RESERVED: [HeaderName; 19] = [
    header::ALLOW,
    header::CACHE_CONTROL,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::DATE,
    header::ETAG,
    header::EXPIRES,
    header::LOCATION,
    header::PROXY_AUTHENTICATE,
    header::RETRY_AFTER,
    header::SERVER,
    header::SET_COOKIE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::VARY,
    header::WWW_AUTHENTICATE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::{X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING};

    #[test]
    fn names_of_other_headers_are_errors() {
        let mut renames = HeaderRenames::default();
        let own = HeaderName::from_static("x-rate-limit-limit");
        renames.add(X_RATELIMIT_LIMIT.clone(), own.clone()).unwrap();
        let twice = HeaderRenameError::Twice(own.clone());
        assert_eq!(renames.add(X_RATELIMIT_REMAINING.clone(), own.clone()), Err(twice));
        let twice = HeaderRenameError::Twice(X_RATELIMIT_LIMIT.clone());
        assert_eq!(renames.add(X_RATELIMIT_LIMIT.clone(), HeaderName::from_static("x-limit")), Err(twice));
        for to in [header::RETRY_AFTER, header::CONTENT_TYPE, X_RATELIMIT_LIMIT.clone()] {
            let reserved = HeaderRenameError::Reserved(to.clone());
            assert_eq!(renames.add(X_RATELIMIT_REMAINING.clone(), to), Err(reserved));
        }
        let none = HeaderRenameError::NoFigure(header::RETRY_AFTER);
        assert_eq!(renames.add(header::RETRY_AFTER, HeaderName::from_static("x-retry")), Err(none));
        assert_eq!(renames.name_of(&X_RATELIMIT_LIMIT), own);
    }

    #[test]
    fn own_name_replaces_all_that_are_inherited() {
        let [limit, remaining, other] = ["a-limit", "a-remaining", "b-limit"].map(HeaderName::from_static);
        let mut renames = HeaderRenames::default();
        renames.add(X_RATELIMIT_LIMIT.clone(), limit.clone()).unwrap();
        renames.add(X_RATELIMIT_REMAINING.clone(), remaining.clone()).unwrap();
        renames.inherit();
        assert_eq!(renames.name_of(&X_RATELIMIT_LIMIT), limit);
        renames.add(header::RETRY_AFTER, other.clone()).unwrap_err();
        assert_eq!(renames.name_of(&X_RATELIMIT_REMAINING), remaining, "a mistake changes nothing");
        renames.add(X_RATELIMIT_LIMIT.clone(), other.clone()).unwrap();
        // A name of the limiter is free again.
        renames.add(X_RATELIMIT_REMAINING.clone(), limit.clone()).unwrap();
        assert_eq!(renames.name_of(&X_RATELIMIT_LIMIT), other);
        assert_eq!(renames.name_of(&X_RATELIMIT_REMAINING), limit);
    }
}
