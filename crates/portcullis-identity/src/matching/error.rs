//! Errors of matchers: in their construction, and about a request.

use crate::KeyError;

/// Why a request cannot be compared: the address cannot be determined, or the path or the method can be read in more than one way.
///
/// Such a request is never exempt: it is rejected where a list denies, and limited where a list limits or exempts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Undecided {
    /// The request can be read in more than one way: its path has escapes, dot segments or empty segments, or it has no
    /// matched route.
    #[error("the request can be read in more than one way")]
    Ambiguous,
    /// The identity that has to be compared cannot be determined. Where it is denied by, the request gets the response to this
    /// error.
    #[error(transparent)]
    Identity(#[from] KeyError),
}

/// Why a text does not name requests.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MatcherError {
    /// A path does not begin with a slash.
    #[error("path {path:?} does not begin with a slash: write \"/{path}\"")]
    NotAbsolute {
        /// The path.
        path: String,
    },
    /// A path has an empty segment, such as one after a slash at the end, or one that ends with a dot, such as `..`.
    #[error("path {path:?} has a segment that is empty or ends with a dot: write it without")]
    Segment {
        /// The path.
        path: String,
    },
    /// A path contains a character that a plain path does not have.
    #[error(
        "path {path:?} contains {character:?}: write plain ASCII without escapes, or a pattern of a route \
         as a `route`, or the beginning of paths as a `prefix`"
    )]
    Character {
        /// The path.
        path: String,
        /// The character.
        character: char,
    },
    /// A path has too many segments.
    #[error("path {path:?} has more than 64 segments: name a path above it as a `prefix`")]
    TooLong {
        /// The path.
        path: String,
    },
    /// A text is not the name of a gRPC method or service.
    #[error("{name:?} does not have the form {form}")]
    GrpcName {
        /// The text.
        name: String,
        /// The form, as in an example.
        form: &'static str,
    },
}
