//! Why a call has no answer.

use portcullis::PolicyName;
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
    /// A descriptor has hits beside the amount of a reservation or a commit.
    #[error("descriptor {descriptor} has hits: leave them out, the amount takes their place")]
    HitsBesideAmount {
        /// The position of the descriptor, from 0.
        descriptor: usize,
    },
    /// A reservation has more units than a limit ever admits.
    #[error(
        "the amount {amount} is more than the limit {limit} of {policy}: no such reservation is ever admitted"
    )]
    AmountTooLarge {
        /// The units of the reservation.
        amount: u64,
        /// The name of the policy.
        policy: PolicyName,
        /// Its limit.
        limit: u64,
    },
    /// A reservation has no ttl, or one beyond the bounds.
    #[error("a reservation needs a ttl from 1 s to 1 h")]
    Ttl,
    /// A commit has more units than the reservation and the debts of its policies.
    #[error("the actual amount {actual} is more than what is reserved and what may be owed, together {most}")]
    ActualTooLarge {
        /// The units of the commit.
        actual: u64,
        /// The most units.
        most: u64,
    },
    /// There is no such reservation: it was never made, it has ended, or it is of another domain.
    #[error("there is no such reservation: it has ended, or it is of another domain")]
    UnknownReservation,
    /// A commit of the reservation is in progress, or its instance was lost in the last minute.
    #[error("the reservation is being committed: repeat the commit later")]
    BeingCommitted,
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
        !matches!(
            self,
            Self::StoreFailed
                | Self::Overloaded
                | Self::Undecided { .. }
                | Self::UnknownReservation
                | Self::BeingCommitted
        )
    }
}

impl From<Rejected> for CallError {
    /// Why limits have not decided.
    fn from(rejected: Rejected) -> Self {
        if let Rejected::StoreFailed = rejected { Self::StoreFailed } else { Self::Overloaded }
    }
}

impl From<CallError> for Status {
    /// `INVALID_ARGUMENT` for a call that is at fault, `NOT_FOUND` for a reservation that is unknown, else `UNAVAILABLE`.
    fn from(error: CallError) -> Self {
        let code = match error {
            CallError::UnknownReservation => Code::NotFound,
            _ if error.is_invalid_argument() => Code::InvalidArgument,
            _ => Code::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}
