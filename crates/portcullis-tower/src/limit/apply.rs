//! Applies a limit to requests, with its policy as it is registered now.

use http::request::Parts;
use portcullis_core::{Key, Secret};

use super::key::SharedKey;
use super::{KeySource, Limit, QuotaSource, ResolvedKey};
use crate::{KeyError, LookupCounts, Mode, NamedPart as _, OnMissing, Percent};
use portcullis_engine as engine;
use portcullis_engine::is_in_flight;
use portcullis_engine::policies::{Member, Registered};

impl Limit {
    /// Whether the policy only decides and reports, except for the keys in its share.
    pub(crate) fn is_shadow(&self) -> bool {
        self.mode.share() < Percent::ALL
    }

    /// Whether the policy is off for a request without a key, which is in no share.
    pub(crate) fn is_off_without_key(&self) -> bool {
        self.mode.checked_share() < Percent::ALL
    }

    /// The policy as it is registered now; `None` if it is off.
    ///
    /// A share that was set before the layer was built does not apply if clients choose the key there: the layer keeps its own
    /// mode.
    pub(crate) fn as_registered(&self, registered: Registered) -> Option<Self> {
        let mode = registered.mode.filter(|_| !self.ignores(registered.mode)).unwrap_or(self.mode);
        (mode != Mode::Off).then(|| self.with_policy(registered).mode(mode))
    }

    /// The policy as it is registered now, in its own mode.
    pub(crate) fn with_policy(&self, registered: Registered) -> Self {
        Self { policy: registered.policy, shared_lock_out: registered.lock_out, ..self.clone() }
    }

    /// Like [`as_registered`](Self::as_registered), but a policy that is off keeps its place, in [`Mode::Off`].
    pub(crate) fn as_registered_or_off(&self, registered: Registered) -> Self {
        let policy = registered.policy.clone();
        self.as_registered(registered).unwrap_or_else(|| Self { policy, ..self.switched_off() })
    }

    /// Returns this policy in [`Mode::Off`], where its place has to be kept.
    pub(crate) fn switched_off(&self) -> Self {
        self.clone().mode(Mode::Off)
    }

    /// Whether a mode that was set for all layers does not apply here.
    pub(crate) fn ignores(&self, mode: Option<Mode>) -> bool {
        matches!(mode, Some(Mode::Percent(_))) && self.key.is_chosen_by_client()
    }

    /// What the engine decides by.
    pub(crate) fn to_limit(&self) -> engine::Limit {
        let outcome = self.outcome.as_deref();
        engine::Limit {
            mode: self.mode,
            charges_later: outcome.is_some_and(|rule| rule.charges_after),
            max_unsettled: outcome.and_then(|rule| rule.max_unsettled),
            corrects: outcome.is_some(),
            held_until: self.held_until,
            lock_out: self.shared_lock_out.clone(),
            ..engine::Limit::new(self.policy.clone())
        }
    }

    /// Counts the look-ups of its key and of the quotas of callers.
    pub(crate) fn count_lookups_in(&self, counts: &LookupCounts) {
        if let KeySource::Async(key) = &self.key {
            key.count_in(counts);
        }
        if let Some(QuotaSource::LookUp(look_up)) = &self.quota {
            look_up.count_in(counts);
        }
    }

    pub(crate) fn member(&self) -> Member {
        Member { policy: self.policy.name().clone(), has_chosen_key: self.key.is_chosen_by_client() }
    }

    /// Whether the policy may reject any request.
    pub(crate) fn is_enforced_for_some(&self) -> bool {
        self.mode.share() > Percent::ZERO
    }

    /// Whether a request that is charged to `key` and rejected for its identity stays charged. The extractor's setting does not
    /// apply to keys that clients share, such as the key of all requests without an identity.
    pub(crate) fn keeps_charge(&self, key: Key) -> bool {
        let KeySource::Sync(extractor) = &self.key else { return false };
        // A request that is rejected is not in flight.
        if is_in_flight(&self.policy) {
            return false;
        }
        self.counts_rejections || (!key.is_shared() && extractor.counts_rejections())
    }

    /// Like `keeps_charge`, for a request that is rejected by a look-up: those without an identity are looked up within their budget.
    pub(crate) fn keeps_charge_of_look_up(&self, key: Key, secret: &Secret) -> bool {
        let is_of_missing = || key_of_missing(secret).is_ok_and(|missing| missing == key);
        self.keeps_charge(key)
            || self.on_missing == OnMissing::Shared && !is_in_flight(&self.policy) && is_of_missing()
    }

    /// The key that the policy is charged to, if an extractor finds one.
    pub(crate) fn own_key(&self, secret: &Secret, parts: &Parts) -> Option<Key> {
        let KeySource::Sync(extractor) = &self.key else { return None };
        match ResolvedKey::find(&**extractor, secret, parts) {
            Ok(ResolvedKey::Known(key)) => Some(key),
            _ => None,
        }
    }

    /// The units that a request costs.
    pub(crate) fn cost_of(&self, parts: &Parts) -> u64 {
        self.cost.as_ref().map_or(1, |cost| cost(parts))
    }

    /// The key to charge, unless the request is exempt.
    pub(crate) fn key_to_charge(
        &self,
        resolved: ResolvedKey,
        secret: &Secret,
        parts: &Parts,
    ) -> Result<Option<Key>, KeyError> {
        match (resolved, self.on_missing) {
            (ResolvedKey::Known(key), _) => Ok(Some(key)),
            (ResolvedKey::Exempt, _) | (ResolvedKey::Missing, OnMissing::Exempt) => Ok(None),
            (ResolvedKey::Missing, OnMissing::Shared) => key_of_missing(secret).map(Some),
            (ResolvedKey::Missing, _) => Err(self.missing_identity(parts)),
        }
    }
}

/// The key of all requests without an identity.
fn key_of_missing(secret: &Secret) -> Result<Key, KeyError> {
    let mut hasher = secret.hasher();
    SharedKey.write(b"", &mut hasher.writer())?;
    Ok(hasher.finish()?)
}
