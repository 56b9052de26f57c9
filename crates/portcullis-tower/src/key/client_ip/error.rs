//! Why the address of a client cannot be told.

use http::HeaderName;

use crate::KeyError;

/// Why the address of a client cannot be told. It never says what was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientIpError {
    /// An element on the way from the server to the client is no address, or the unspecified one, `0.0.0.0` or `::`.
    #[error("element {position} of {header}, counted from the right, is not an address")]
    NotAnAddress {
        /// The header.
        header: HeaderName,
        /// Which element, counted from the right over all lines; the right-most is 1.
        position: usize,
    },
    /// An element on the way from the server to the client does not tell its address: it is `unknown`, obfuscated, or
    /// there is no `for`.
    #[error("element {position} of {header}, counted from the right, does not tell its address")]
    Hidden {
        /// The header.
        header: HeaderName,
        /// Which element, counted from the right over all lines; the right-most is 1.
        position: usize,
    },
    /// The header cannot be divided into elements: what the client wrote might hide what a proxy wrote.
    #[error("{header} does not follow its grammar")]
    Grammar {
        /// The header.
        header: HeaderName,
    },
    /// A header that must come once did not come.
    #[error("{header} is missing")]
    Absent {
        /// The header.
        header: HeaderName,
    },
    /// A header that must come once came several times.
    #[error("{header} was sent more than once")]
    Repeated {
        /// The header.
        header: HeaderName,
    },
}

impl From<ClientIpError> for KeyError {
    fn from(error: ClientIpError) -> Self {
        Self::client(error.to_string())
    }
}
