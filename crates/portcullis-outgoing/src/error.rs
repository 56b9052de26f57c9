//! Why an outgoing request has no answer.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use portcullis_core::PolicyName;
use portcullis_identity::KeyError;
use portcullis_tower::Limited;

/// Why an outgoing request has no answer: it was not sent, or the inner service has failed.
///
/// An answer of the server with 429 is an answer, and no error.
#[derive(Debug)]
#[non_exhaustive]
pub enum OutgoingError<E> {
    /// It was not sent: its slot, or the instant until which its key is closed, is further away than the request may wait.
    Limited(Paced),
    /// It was not sent: the limiter could not decide, because the store fails and the policy is closed then, because too many requests
    /// wait, or because the policy is refused. [`Limited::reason`] tells which.
    Undecided(Limited),
    /// It was not sent: the request has no key, such as a host.
    Key(KeyError),
    /// The inner service has failed. Whether the request was sent is for its error to tell.
    Inner(E),
}

impl<E> OutgoingError<E> {
    /// How long to wait before another attempt, if the request was not sent and the time is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Limited(paced) => paced.retry_after(),
            _ => None,
        }
    }

    /// The error of the inner service.
    pub fn into_inner(self) -> Option<E> {
        match self {
            Self::Inner(error) => Some(error),
            _ => None,
        }
    }
}

impl<E: fmt::Display> fmt::Display for OutgoingError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limited(paced) => paced.fmt(f),
            Self::Undecided(limited) => write!(f, "the request was not sent: {limited}"),
            Self::Key(error) => write!(f, "the request was not sent: {error}"),
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for OutgoingError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            #[cfg(feature = "tonic")]
            Self::Limited(paced) => Some(&paced.status),
            #[cfg(not(feature = "tonic"))]
            Self::Limited(_) => None,
            Self::Undecided(limited) => Some(limited),
            Self::Key(error) => Some(error),
            // Displayed by this error itself.
            Self::Inner(error) => error.source(),
        }
    }
}

/// A request that was not sent, because it would have had to wait for too long.
///
/// With the feature `tonic`, [`OutgoingError`] has a `tonic::Status` as its source, so that a Tonic client returns
/// `RESOURCE_EXHAUSTED`.
#[derive(Debug)]
pub struct Paced {
    policy: PolicyName,
    retry_after: Option<Duration>,
    is_closed: bool,
    #[cfg(feature = "tonic")]
    status: tonic::Status,
}

impl Paced {
    pub(crate) fn new(policy: PolicyName, retry_after: Option<Duration>, is_closed: bool) -> Self {
        Self {
            #[cfg(feature = "tonic")]
            status: tonic::Status::resource_exhausted(message(&policy, retry_after, is_closed)),
            policy,
            retry_after,
            is_closed,
        }
    }

    /// The name of the policy.
    pub fn policy(&self) -> &PolicyName {
        &self.policy
    }

    /// How long to wait before another attempt: until the wait is short enough, or until the key is open. `None` if it is
    /// unknown, or the request never fits.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Whether an answer of the server, or an operator, has closed the key, rather than that its budget is used up.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }
}

impl fmt::Display for Paced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&message(&self.policy, self.retry_after, self.is_closed))
    }
}

impl Error for Paced {}

fn message(policy: &PolicyName, retry_after: Option<Duration>, is_closed: bool) -> String {
    let cause = if is_closed { "the server wants no requests now" } else { "the budget is used up" };
    let text = format!("the request was not sent: {cause} (policy {policy})");
    match retry_after {
        Some(wait) => format!("{text}: retry after {wait:?}"),
        None => text,
    }
}
