//! Errors of [`ClientIp`](super::ClientIp).

use http::HeaderName;

use crate::KeyError;

/// Why the address of a client cannot be determined. It never contains the value that was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientIpError {
    /// An element between the server and the client is not an address, or is the unspecified one, `0.0.0.0` or `::`.
    #[error("element {position} of {header}, counted from the right, is not an address")]
    NotAnAddress {
        /// The header.
        header: HeaderName,
        /// Which element, counted from the right over all lines; the right-most is 1.
        position: usize,
    },
    /// An element between the server and the client does not contain its address: it is `unknown`, obfuscated, or has no
    /// `for`.
    #[error("element {position} of {header}, counted from the right, does not tell its address")]
    Hidden {
        /// The header.
        header: HeaderName,
        /// Which element, counted from the right over all lines; the right-most is 1.
        position: usize,
    },
    /// The header cannot be split into elements: a part written by the client could hide elements of a proxy.
    #[error("{header} does not follow its grammar")]
    Grammar {
        /// The header.
        header: HeaderName,
    },
    /// A header that must occur once is missing.
    #[error("{header} is missing")]
    Absent {
        /// The header.
        header: HeaderName,
    },
    /// A header that must occur once occurs several times.
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
