//! Why the admission of a request has no decisions.

use std::fmt;

use http::Extensions;

/// Why no enforced policy has decided about a request that is admitted.
#[derive(Clone, Copy, Default)]
pub(crate) enum Uncounted<'a> {
    /// A policy has decided, or the event is another one.
    #[default]
    None,
    /// The limiter is off.
    Off,
    /// None counts the request. Its extensions have what shadow policies have decided. They are not searched unless an observer needs it.
    Request(&'a Extensions),
}

impl fmt::Debug for Uncounted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Off => "Off",
            Self::Request(_) => "Request",
        })
    }
}
