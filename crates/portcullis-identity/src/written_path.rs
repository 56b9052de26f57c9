//! The path of a request as the client wrote it.

use http::request::Parts;

/// Returns the path of a request as the client sent it, also inside of a nested router of Axum, which removes a prefix.
///
/// ```
/// use http::Request;
/// use portcullis_identity::matching::original_path;
///
/// let (parts, ()) = Request::get("/%73earch/?q=1").body(()).unwrap().into_parts();
/// assert_eq!(original_path(&parts), "/%73earch/");
/// ```
pub fn original_path(parts: &Parts) -> &str {
    #[cfg(feature = "axum")]
    if let Some(uri) = parts.extensions.get::<axum::extract::OriginalUri>() {
        return uri.0.path();
    }
    parts.uri.path()
}

/// How many ways there are to read a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// All servers read it alike, with or without regard to case.
    Plain,
    /// All servers that regard case read it alike.
    UpperCase,
    Several,
}

impl Form {
    pub(crate) fn of(path: &str) -> Self {
        let Some((b'/', rest)) = path.as_bytes().split_first() else { return Self::Several };
        let (mut previous, mut form) = (b'/', Self::Plain);
        for byte in rest {
            match byte {
                b'/' if matches!(previous, b'/' | b'.') => return Self::Several,
                b'A'..=b'Z' => form = Self::UpperCase,
                b'%' | b';' | b'\\' | b'?' | b'#' => return Self::Several,
                b'!'..=b'~' => {}
                _ => return Self::Several,
            }
            previous = *byte;
        }
        if matches!(previous, b'/' | b'.') && !rest.is_empty() { Self::Several } else { form }
    }
}

/// Whether the path has no more than one reading, apart from its case.
pub(crate) fn is_plain(path: &str) -> bool {
    Form::of(path) != Form::Several
}
