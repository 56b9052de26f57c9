//! One policy of a layer: how it finds its key, and which units it charges.

pub(crate) mod cost;
pub(crate) mod quota;
pub(crate) mod response_outcome;

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{Key, KeyHasher, Policy, Secret};

use crate::policy::quota::QuotaSource;
use crate::policy::response_outcome::OutcomeRule;
use crate::{
    AsyncKeyExtractor, Cost, Identity, KeyError, KeyExtractor, Lookup, Mode, OnAbort, OnMissing, Percent,
};
use portcullis_engine::PolicyLockOut;
use portcullis_engine::policies::{Member, Registered};
use portcullis_engine::{HeldUntil, Limit, is_in_flight};
use portcullis_response::internal::Fraction;

/// A policy, and how to apply it to a request.
#[derive(Clone)]
pub(crate) struct LayerPolicy {
    pub(crate) policy: Policy,
    pub(crate) key: KeySource,
    pub(crate) on_missing: OnMissing,
    pub(crate) cost: Option<Arc<dyn Cost>>,
    /// What an aborted response is charged, if the cost is a reservation.
    pub(crate) reservation: Option<OnAbort>,
    /// See [`set_mode`](LayerPolicy::set_mode).
    pub(crate) mode: Mode,
    /// Whether the policy only decides and reports, except for the keys in its share.
    pub(crate) is_shadow: bool,
    /// The keys for which a shadow policy is enforced.
    share: Percent,
    /// Whether the headers of the budget leave the policy out.
    pub(crate) is_hidden: bool,
    /// Whether charges of requests that are rejected for their identity stay, set on the layer.
    pub(crate) counts_rejections: bool,
    /// The part of the limit from which on requests are marked.
    pub(crate) warn_at: Option<Fraction>,
    /// Whether and how the outcome of a response decides about the charge.
    pub(crate) outcome: Option<Box<OutcomeRule>>,
    /// Where the quota of the caller comes from.
    pub(crate) quota: Option<QuotaSource>,
    /// See [`release_at_headers`](crate::RateLimitLayer::release_at_headers).
    pub(crate) held_until: HeldUntil,
    /// Blocks keys with many denials. It belongs to the policy in all layers.
    pub(crate) lock_out: Option<Arc<PolicyLockOut>>,
}

impl LayerPolicy {
    pub(crate) fn new(policy: Policy, key: KeySource) -> Self {
        let on_missing = OnMissing::default();
        Self {
            policy,
            key,
            on_missing,
            cost: None,
            reservation: None,
            mode: Mode::default(),
            is_shadow: false,
            share: Percent::ALL,
            is_hidden: false,
            counts_rejections: false,
            warn_at: None,
            outcome: None,
            lock_out: None,
            held_until: HeldUntil::default(),
            quota: None,
        }
    }

    /// Sets a look-up as the source of the key. It tells the quota as well.
    pub(crate) fn look_up_key(&mut self, key: Arc<dyn AsyncKeyExtractor>) {
        self.key = KeySource::Async(key);
        if let Some(QuotaSource::LookUp(_)) = self.quota {
            self.quota = None;
        }
    }

    pub(crate) fn set_mode(&mut self, mode: Mode) {
        let share = mode.share();
        (self.mode, self.is_shadow, self.share) = (mode, share < Percent::ALL, share);
    }

    /// The policy as it is registered now; `None` if it is off.
    ///
    /// A share that was set before the layer was built does not apply if clients choose the key there: the layer keeps its own
    /// mode.
    pub(crate) fn as_registered(&self, registered: Registered) -> Option<Self> {
        let mode = registered.mode.filter(|_| !self.ignores(registered.mode)).unwrap_or(self.mode);
        let mut layer_policy = self.with_policy(registered);
        layer_policy.set_mode(mode);
        (mode != Mode::Off).then_some(layer_policy)
    }

    /// The policy as it is registered now, in its own mode.
    pub(crate) fn with_policy(&self, registered: Registered) -> Self {
        Self { policy: registered.policy, lock_out: registered.lock_out, ..self.clone() }
    }

    /// Like [`as_registered`](Self::as_registered), but a policy that is off keeps its place, in [`Mode::Off`].
    pub(crate) fn as_registered_or_off(&self, registered: Registered) -> Self {
        let policy = registered.policy.clone();
        self.as_registered(registered).unwrap_or_else(|| Self { policy, ..self.switched_off() })
    }

    /// Returns this policy in [`Mode::Off`], where its place has to be kept.
    pub(crate) fn switched_off(&self) -> Self {
        let mut off = self.clone();
        off.set_mode(Mode::Off);
        off
    }

    /// Whether a mode that was set for all layers does not apply here.
    pub(crate) fn ignores(&self, mode: Option<Mode>) -> bool {
        matches!(mode, Some(Mode::Percent(_))) && self.key.is_chosen_by_client()
    }

    /// What the engine decides by.
    pub(crate) fn to_limit(&self) -> Limit {
        let outcome = self.outcome.as_deref();
        let most = || usize::try_from(self.policy.strategy().limit()).unwrap_or(usize::MAX);
        let unsettled = outcome.filter(|rule| rule.charges_after);
        Limit {
            mode: self.mode,
            share: self.share,
            unsettled: unsettled.map(|rule| rule.max_unsettled.unwrap_or_else(most)),
            corrects: outcome.is_some(),
            held_until: self.held_until,
            lock_out: self.lock_out.clone(),
            ..Limit::new(self.policy.clone())
        }
    }

    pub(crate) fn member(&self) -> Member {
        Member { policy: self.policy.name().clone(), has_chosen_key: self.key.is_chosen_by_client() }
    }

    /// Whether the policy may reject any request.
    pub(crate) fn is_enforced_for_some(&self) -> bool {
        self.share > Percent::ZERO
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
    ) -> Result<Option<Key>, KeyError> {
        match (resolved, self.on_missing) {
            (ResolvedKey::Known(key), _) => Ok(Some(key)),
            (ResolvedKey::Exempt, _) | (ResolvedKey::Missing, OnMissing::Exempt) => Ok(None),
            (ResolvedKey::Missing, OnMissing::Shared) => key_of_missing(secret).map(Some),
            (ResolvedKey::Missing, _) => Err(match self.key.challenge() {
                Some(challenge) => KeyError::unauthenticated(MISSING_IDENTITY, challenge),
                None => KeyError::client(MISSING_IDENTITY),
            }),
        }
    }
}

/// The key of all requests without an identity.
fn key_of_missing(secret: &Secret) -> Result<Key, KeyError> {
    let mut hasher = secret.hasher();
    hasher.writer().shared_part("portcullis.missing", b"");
    Ok(hasher.finish()?)
}

/// How the key of a request is determined.
#[derive(Clone)]
pub(crate) enum KeySource {
    Sync(Arc<dyn KeyExtractor>),
    Async(Arc<dyn AsyncKeyExtractor>),
}

impl KeySource {
    /// Whether both are the same extractor, so that they find the same key.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sync(one), Self::Sync(other)) => Arc::ptr_eq(one, other),
            (Self::Async(one), Self::Async(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Whether clients choose the key at will. What a look-up has found is verified.
    pub(crate) fn is_chosen_by_client(&self) -> bool {
        match self {
            Self::Sync(key) => key.is_chosen_by_client(),
            Self::Async(_) => false,
        }
    }

    /// Whether clients share every key. What a look-up has found is known only then.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Sync(key) => key.is_shared(),
            Self::Async(_) => false,
        }
    }

    pub(crate) fn challenge(&self) -> Option<HeaderValue> {
        match self {
            Self::Sync(key) => key.challenge(),
            Self::Async(key) => key.challenge(),
        }
    }

    /// What the key is, for people.
    pub(crate) fn description(&self) -> Cow<'static, str> {
        match self {
            Self::Sync(key) => key.description(),
            Self::Async(key) => key.description(),
        }
    }
}

/// The result of an extractor, with the key.
#[derive(Clone, Copy)]
pub(crate) enum ResolvedKey {
    Known(Key),
    Missing,
    Exempt,
}

impl ResolvedKey {
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a key that is returned through memory takes longer to read than to make"
    )]
    pub(crate) fn find(
        extractor: &dyn KeyExtractor,
        secret: &Secret,
        parts: &Parts,
    ) -> Result<Self, KeyError> {
        let mut hasher = secret.hasher();
        let identity = extractor.extract(parts, &mut hasher.writer())?;
        Self::new(identity, hasher)
    }

    pub(crate) fn looked_up(found: &Lookup, secret: &Secret) -> Result<Self, KeyError> {
        let mut hasher = secret.hasher();
        let identity = found.write(&mut hasher.writer());
        Self::new(identity, hasher)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    fn new(identity: Identity, hasher: KeyHasher) -> Result<Self, KeyError> {
        match identity {
            Identity::Found => Ok(Self::Known(hasher.finish()?)),
            Identity::Missing => Ok(Self::Missing),
            Identity::Exempt => Ok(Self::Exempt),
        }
    }
}

const MISSING_IDENTITY: &str = "the request has no identity";
