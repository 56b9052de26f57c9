//! One policy of a layer.

use std::sync::Arc;

use http::request::Parts;
use portcullis_core::{Key, Policy, Secret};

use super::KeySource;
use super::resolved_key::ResolvedKey;
use crate::KeyError;

/// What becomes of a request that has no identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnMissing {
    /// It is refused: 400, or `INVALID_ARGUMENT` in gRPC; 401 and `UNAUTHENTICATED` where a credential was asked for
    /// ([`KeyExtractor::challenge`](crate::KeyExtractor::challenge)).
    #[default]
    Reject,
    /// It is charged to one budget that all requests without an identity share.
    Shared,
    /// This policy does not count it. Whoever leaves the identity out is not limited: fit where something in front has
    /// seen to it that only those leave it out who may.
    Exempt,
}

/// A policy, and how to apply it to a request.
#[derive(Clone)]
pub(crate) struct LayerPolicy {
    pub(crate) policy: Policy,
    pub(crate) key: KeySource,
    pub(crate) on_missing: OnMissing,
    pub(crate) cost: Option<Arc<Cost>>,
    /// Whether it decides and reports only.
    pub(crate) is_shadow: bool,
    /// Whether the layer says that the charges of requests stay that are rejected for their identity.
    pub(crate) counts_rejections: bool,
}

type Cost = dyn Fn(&Parts) -> u32 + Send + Sync;

impl LayerPolicy {
    pub(crate) fn new(policy: Policy, key: KeySource) -> Self {
        let on_missing = OnMissing::default();
        Self { policy, key, on_missing, cost: None, is_shadow: false, counts_rejections: false }
    }

    /// Whether a request that is charged to `key` and rejected for its identity stays charged. By the word of the
    /// extractor alone no key is that callers share, such as that of all who have none.
    pub(super) fn counts_rejection(&self, key: Key) -> bool {
        let KeySource::Sync(extractor) = &self.key else { return false };
        self.counts_rejections || (!key.is_shared() && extractor.counts_rejections())
    }

    /// The units that a request costs.
    pub(super) fn cost_of(&self, parts: &Parts) -> u32 {
        self.cost.as_ref().map_or(1, |cost| cost(parts))
    }

    /// Whom to charge, if anybody.
    pub(super) fn key_to_charge(
        &self,
        caller: ResolvedKey,
        secret: &Secret,
    ) -> Result<Option<Key>, KeyError> {
        match (caller, self.on_missing) {
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

const MISSING_IDENTITY: &str = "the request does not say who is calling";
