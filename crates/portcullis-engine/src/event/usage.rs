//! Why the usage of a response is not known.

use std::fmt;

/// Why the usage of a response is not known, or only a part of it. See [`EventKind::UsageLost`](crate::EventKind::UsageLost).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UsageLoss {
    /// The response was read to its end, and states none.
    Missing,
    /// Its `Content-Type` is neither one of JSON nor `text/event-stream`.
    ContentType,
    /// Its `Content-Encoding` is not gzip.
    Encoding,
    /// An event or document is too large.
    TooLarge,
    /// Too many bytes were decoded for each compressed one.
    TooDense,
    /// Its content is not in the encoding that it states.
    Damaged,
}

impl fmt::Display for UsageLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the response states none",
            Self::ContentType => "the content type is neither one of JSON nor text/event-stream",
            Self::Encoding => "the content encoding is not gzip",
            Self::TooLarge => "an event or document has more than 16 MiB",
            Self::TooDense => "more than 100 bytes were decoded for each compressed one",
            Self::Damaged => "the content is no gzip",
        })
    }
}
