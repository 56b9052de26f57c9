//! Errors of extractors.

use std::borrow::Cow;

use http::HeaderValue;
use portcullis_core::KeyWriteError;

/// Why the key of a request cannot be determined: an error of the client or of the server.
///
/// The message must not contain the identity: for an error of the client it is in the response, for one of the server in the
/// log.
///
/// ```
/// use portcullis::key::KeyError;
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
    /// The fault of the server, with one message for all requests, which names the missing setup.
    Setup,
}

impl KeyError {
    /// An error of the client: the response is 400, in gRPC `INVALID_ARGUMENT`, with the message.
    pub fn client(message: impl Into<Cow<'static, str>>) -> Self {
        Self { fault: Fault::Client, message: message.into(), challenge: None }
    }

    /// A missing or malformed credential: the response is 401 with the challenge in `WWW-Authenticate` and the message, in gRPC
    /// `UNAUTHENTICATED`.
    pub fn unauthenticated(message: impl Into<Cow<'static, str>>, challenge: HeaderValue) -> Self {
        Self { challenge: Some(challenge), ..Self::client(message) }
    }

    /// An error of the server: the response is 500, in gRPC `INTERNAL`, without the message. The layer logs such messages at most
    /// once an hour, with a count.
    pub fn server(message: impl Into<Cow<'static, str>>) -> Self {
        Self { fault: Fault::Server, message: message.into(), challenge: None }
    }

    /// An error of the server whose message says how to set it up.
    pub(super) fn setup(message: &'static str) -> Self {
        Self { fault: Fault::Setup, ..Self::server(message) }
    }

    /// Whether the server leaves out what the key is made of, such as the address of the peer.
    pub fn is_setup_fault(&self) -> bool {
        self.fault == Fault::Setup
    }

    /// How to set the server up. `None` in builds without debug assertions, because clients see it.
    pub fn setup_hint(&self) -> Option<&str> {
        (cfg!(debug_assertions) && self.fault == Fault::Setup).then_some(&*self.message)
    }

    /// Returns whether the error is in the request, rather than in the server.
    pub fn is_client_fault(&self) -> bool {
        self.fault == Fault::Client
    }

    /// Returns the challenge, if the client has to authenticate.
    pub fn challenge(&self) -> Option<&HeaderValue> {
        self.challenge.as_ref()
    }

    /// Adds a challenge to an error of the client that has none.
    pub(super) fn or_challenge(mut self, challenge: &HeaderValue) -> Self {
        if self.is_client_fault() {
            self.challenge.get_or_insert_with(|| challenge.clone());
        }
        self
    }
}

impl From<KeyWriteError> for KeyError {
    /// An identity that is too long is an error of the client; an extractor that finds one and writes nothing, of the server.
    fn from(error: KeyWriteError) -> Self {
        let message = error.to_string();
        match error {
            KeyWriteError::TooLong { .. } => Self::client(message),
            _ => Self::server(message),
        }
    }
}
