//! Why rules cannot have a check endpoint.

use portcullis::LayerError;
use portcullis::rules::NoRules;

/// Why a [`CheckEndpoint`](super::CheckEndpoint) cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckEndpointError {
    /// The limiter has no rules.
    #[error(transparent)]
    NoRules(#[from] NoRules),
    /// The rules need more than the head of a request.
    #[error(transparent)]
    Rules(#[from] LayerError),
}
