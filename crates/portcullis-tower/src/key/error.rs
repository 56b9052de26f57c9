//! Why no key could be made.

use std::borrow::Cow;

use http::HeaderValue;
use portcullis_core::KeyWriteError;

/// Why a caller cannot be charged: by the client's fault or the server's.
///
/// Its message must not contain the identity: the client's goes into the answer, the server's into the log.
///
/// ```
/// use portcullis_tower::KeyError;
///
/// let error = KeyError::client("the token has no subject");
/// assert!(error.is_client_fault());
/// assert_eq!(error.to_string(), "the token has no subject");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KeyError {
    fault: Fault,
    message: Cow<'static, str>,
    challenge: Option<HeaderValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Client,
    Server,
}

impl KeyError {
    /// The request is at fault: it is answered with 400, in gRPC with `INVALID_ARGUMENT`, and the message.
    pub fn client(message: impl Into<Cow<'static, str>>) -> Self {
        Self { fault: Fault::Client, message: message.into(), challenge: None }
    }

    /// The request lacks a credential, or has one that cannot be one: it is answered with 401, the challenge in
    /// `WWW-Authenticate` and the message, in gRPC with `UNAUTHENTICATED`.
    pub fn unauthenticated(message: impl Into<Cow<'static, str>>, challenge: HeaderValue) -> Self {
        Self { challenge: Some(challenge), ..Self::client(message) }
    }

    /// The server is at fault: the request is answered with 500, in gRPC with `INTERNAL`. The layer logs
    /// such a message at most once an hour, with a count, and no client sees any.
    pub fn server(message: impl Into<Cow<'static, str>>) -> Self {
        Self { fault: Fault::Server, message: message.into(), challenge: None }
    }

    /// Whether the client has to mend its request, rather than somebody the server.
    pub fn is_client_fault(&self) -> bool {
        self.fault == Fault::Client
    }

    /// What the client is asked for, if it is to authenticate.
    pub fn challenge(&self) -> Option<&HeaderValue> {
        self.challenge.as_ref()
    }

    /// The same, answered with a challenge if it is the client's and has none.
    pub(super) fn or_challenge(mut self, challenge: &HeaderValue) -> Self {
        if self.is_client_fault() {
            self.challenge.get_or_insert_with(|| challenge.clone());
        }
        self
    }
}

impl From<KeyWriteError> for KeyError {
    /// Too long an identity is the client's fault, an extractor that finds one and writes nothing the server's.
    fn from(error: KeyWriteError) -> Self {
        let message = error.to_string();
        match error {
            KeyWriteError::TooLong { .. } => Self::client(message),
            _ => Self::server(message),
        }
    }
}
