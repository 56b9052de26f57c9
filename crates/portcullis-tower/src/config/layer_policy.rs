//! One policy of a layer.

use std::sync::Arc;

use http::request::Parts;
use portcullis_core::{Key, Policy, Secret};

use super::KeySource;
use super::resolved_key::ResolvedKey;
use crate::{Cost, KeyError};

/// How a policy treats a request that has no identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// The request is rejected: 400, or `INVALID_ARGUMENT` in gRPC; 401 and `UNAUTHENTICATED` where the key is a credential
    /// ([`KeyExtractor::challenge`](crate::KeyExtractor::challenge)).
    #[default]
    Reject,
    /// The request is charged to one budget that all requests without an identity share.
    Shared,
    /// The policy does not count the request, so clients that omit the identity are not limited. Suitable only if a layer in
    /// front ensures that an identity is missing only where that is allowed.
    Exempt,
}

/// A policy, and how to apply it to a request.
#[derive(Clone)]
pub(crate) struct LayerPolicy {
    pub(crate) policy: Policy,
    pub(crate) key: KeySource,
    pub(crate) on_missing: OnMissing,
    pub(crate) cost: Option<Arc<dyn Cost>>,
    /// Whether the policy only decides and reports.
    pub(crate) is_shadow: bool,
    /// Whether the headers of the budget leave the policy out.
    pub(crate) is_unlisted: bool,
    /// Whether charges of requests that are rejected for their identity stay, set on the layer.
    pub(crate) counts_rejections: bool,
}

impl LayerPolicy {
    pub(crate) fn new(policy: Policy, key: KeySource) -> Self {
        let on_missing = OnMissing::default();
        Self {
            policy,
            key,
            on_missing,
            cost: None,
            is_shadow: false,
            is_unlisted: false,
            counts_rejections: false,
        }
    }

    /// Whether a request that is charged to `key` and rejected for its identity stays charged. The extractor's setting does not
    /// apply to keys that clients share, such as the key of all requests without an identity.
    pub(super) fn counts_rejection(&self, key: Key) -> bool {
        let KeySource::Sync(extractor) = &self.key else { return false };
        self.counts_rejections || (!key.is_shared() && extractor.counts_rejections())
    }

    /// The units that a request costs.
    pub(super) fn cost_of(&self, parts: &Parts) -> u64 {
        self.cost.as_ref().map_or(1, |cost| cost(parts))
    }

    /// The key to charge, unless the request is exempt.
    pub(super) fn key_to_charge(
        &self,
        resolved: ResolvedKey,
        secret: &Secret,
    ) -> Result<Option<Key>, KeyError> {
        match (resolved, self.on_missing) {
            (ResolvedKey::Known(key), _) => Ok(Some(key)),
            (ResolvedKey::Exempt, _) | (ResolvedKey::Missing, OnMissing::Exempt) => Ok(None),
            (ResolvedKey::Missing, OnMissing::Shared) => {
                let mut hasher = secret.hasher();
                hasher.writer().shared_part("portcullis.missing", b"");
                Ok(Some(hasher.finish()?))
            }
            (ResolvedKey::Missing, OnMissing::Reject) => Err(match self.key.challenge() {
                Some(challenge) => KeyError::unauthenticated(MISSING_IDENTITY, challenge),
                None => KeyError::client(MISSING_IDENTITY),
            }),
        }
    }
}

const MISSING_IDENTITY: &str = "the request has no identity";
