//! Why a call has no answer.

use portcullis_engine::Rejected;
use tonic::{Code, Status};

use super::{MAX_DESCRIPTORS, MAX_DOMAIN_BYTES, MAX_ENTRIES};

/// Why a call of the rate limit service has no answer. Nothing is charged, except where the store leaves that open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The call has no domain.
    #[error("rate limit domain must not be empty")]
    NoDomain,
    /// The domain is longer than [`MAX_DOMAIN_BYTES`].
    #[error("the domain has {bytes} bytes, more than {MAX_DOMAIN_BYTES}")]
    DomainTooLong {
        /// The number of bytes.
        bytes: usize,
    },
    /// The call has no descriptor.
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    /// The call has more than [`MAX_DESCRIPTORS`] descriptors.
    #[error("the call has {descriptors} descriptors, more than {MAX_DESCRIPTORS}")]
    TooManyDescriptors {
        /// The number of descriptors.
        descriptors: usize,
    },
    /// A descriptor has more than [`MAX_ENTRIES`] entries.
    #[error("descriptor {descriptor} has {entries} entries, more than {MAX_ENTRIES}")]
    TooManyEntries {
        /// The position of the descriptor, from 0.
        descriptor: usize,
        /// The number of entries.
        entries: usize,
    },
    /// The limit override of a descriptor has no unit of time that is known.
    #[error("the limit of descriptor {descriptor} has the unknown unit {unit}")]
    UnknownUnit {
        /// The position of the descriptor, from 0.
        descriptor: usize,
        /// The number of the unit in the call.
        unit: i32,
    },
    /// A descriptor needs what native rules do not have, or has an entry that cannot be a part of a request.
    #[error("descriptor {descriptor} and native rules: {problem}")]
    NotNative {
        /// The position of the descriptor, from 0.
        descriptor: usize,
        /// What is wrong.
        problem: &'static str,
    },
    /// The store cannot answer, and the [failure mode](super::RateLimitService::on_store_failure) does not decide without it.
    #[error("the store cannot answer")]
    StoreFailed,
    /// The store is overloaded, or too many calls wait.
    #[error("the service is overloaded")]
    Overloaded,
    /// A layer of native rules has not decided, for example because its store cannot answer.
    #[error("the rules have not decided: {status}")]
    Undecided {
        /// The status of the response that the rules gave.
        status: u16,
    },
}

impl CallError {
    /// Whether the call itself is at fault, and fails whenever it is repeated.
    #[must_use]
    pub const fn is_invalid_argument(&self) -> bool {
        !matches!(self, Self::StoreFailed | Self::Overloaded | Self::Undecided { .. })
    }
}

impl From<Rejected> for CallError {
    /// Why limits have not decided.
    fn from(rejected: Rejected) -> Self {
        if let Rejected::StoreFailed = rejected { Self::StoreFailed } else { Self::Overloaded }
    }
}

impl From<CallError> for Status {
    /// `INVALID_ARGUMENT` for a call that is at fault, else `UNAVAILABLE`.
    fn from(error: CallError) -> Self {
        let code = if error.is_invalid_argument() { Code::InvalidArgument } else { Code::Unavailable };
        Self::new(code, error.to_string())
    }
}
