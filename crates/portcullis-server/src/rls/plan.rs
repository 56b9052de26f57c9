//! Which limits of Envoy's files apply to a call, and to which keys.

use portcullis::key::Key;
use portcullis::rules::envoy::{Applied, Descriptors, Limit as FileLimit, Match, RequestLimits};
use portcullis::{Limiter, Policy, Quota};

use super::RateLimitService;
use super::call::{Call, Descriptor, LimitOverride};
use super::verdict::Limit;

/// What applies to each descriptor of a call, in their order.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) slots: Vec<Slot>,
    /// Whether limits with `quota_mode` apply, and all of them may deny.
    pub(super) quotas_deny: bool,
}

/// What applies to a descriptor.
#[derive(Debug)]
pub(super) enum Slot {
    /// No limit applies.
    Free,
    /// A rule says that there is no limit.
    Unlimited,
    /// A limit of 0, which needs no state.
    Zero(Counted),
    /// A limit with state.
    Limit(Counted, Policy, Key),
}

/// A limit that counts a descriptor.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) limit: Limit,
    pub(super) role: Role,
    pub(super) hits: u64,
    pub(super) is_refund: bool,
}

/// How a limit takes part in the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It denies the call if it is exceeded.
    Enforced,
    /// It denies the call if all quotas are exceeded.
    Quota,
    /// It never denies.
    Shadow,
}

impl Plan {
    pub(super) fn of(service: &RateLimitService, descriptors: &Descriptors, call: &Call<'_>) -> Self {
        let entries: Vec<_> = call.descriptors.iter().map(|asked| asked.entries.as_slice()).collect();
        // A limit override takes the place of the limit in the file, which then replaces nothing.
        let found: Vec<&[(&str, &str)]> = call
            .descriptors
            .iter()
            .zip(&entries)
            .map(|(asked, entries)| if asked.limit.is_some() { &[] } else { *entries })
            .collect();
        let applied: RequestLimits<'_> = descriptors.request(call.domain, &found);
        let has_domain = descriptors.has_domain(call.domain);
        let mut slots: Vec<Slot> = call
            .descriptors
            .iter()
            .zip(applied.as_slice())
            .map(|(asked, applied)| match (asked.limit, applied) {
                (Some(limit), _) if has_domain => overridden(service, call.domain, asked, limit),
                (None, Applied::Limit(found)) => limited(service, asked, found),
                (None, Applied::Unlimited(_)) => Slot::Unlimited,
                _ => Slot::Free,
            })
            .collect();
        let has_shadow_quota = applied.as_slice().iter().filter_map(Applied::limit).any(|found| {
            let limit = found.limit();
            limit.quota_mode() && limit.shadow_mode()
        });
        let mut quotas = slots
            .iter_mut()
            .filter_map(Slot::counted_mut)
            .filter(|counted| counted.role == Role::Quota && !counted.is_refund);
        let first = quotas.next();
        let quotas_deny = first.is_some() && !has_shadow_quota;
        // A single quota is a limit like any other.
        if let (Some(only), None, true) = (first, quotas.next(), quotas_deny) {
            only.role = Role::Enforced;
            return Self { slots, quotas_deny: false };
        }
        Self { slots, quotas_deny }
    }

    /// The keys that are counted, each with the place of its descriptor.
    pub(super) fn keys(&self) -> impl Iterator<Item = (usize, &Policy, Key)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match slot {
            Slot::Limit(counted, policy, key) if !counted.is_refund => Some((index, policy, *key)),
            _ => None,
        })
    }
}

impl Slot {
    pub(super) fn counted(&self) -> Option<&Counted> {
        match self {
            Self::Free | Self::Unlimited => None,
            Self::Zero(counted) | Self::Limit(counted, ..) => Some(counted),
        }
    }

    fn counted_mut(&mut self) -> Option<&mut Counted> {
        match self {
            Self::Free | Self::Unlimited => None,
            Self::Zero(counted) | Self::Limit(counted, ..) => Some(counted),
        }
    }
}

/// A limit of a file.
fn limited(service: &RateLimitService, asked: &Descriptor<'_>, found: &Match<'_>) -> Slot {
    let limit: &FileLimit = found.limit();
    let role = match (limit.shadow_mode(), limit.quota_mode()) {
        (true, _) => Role::Shadow,
        (false, true) => Role::Quota,
        (false, false) => Role::Enforced,
    };
    let name = limit.name().unwrap_or_default().to_owned();
    let shown = Limit { requests_per_unit: limit.requests_per_unit(), unit: limit.unit(), name };
    let counted = Counted { limit: shown, role, hits: asked.hits, is_refund: asked.is_refund };
    let Ok(policy) = limit.policy() else { return Slot::Zero(counted) };
    let limiter = &service.limiter;
    let key = limiter.key(|key| found.write_key(key)).ok().or_else(|| digest(limiter, &found.identity()));
    match key {
        Some(key) => Slot::Limit(counted, service.decider().with_mode(policy), key),
        None => Slot::Zero(counted),
    }
}

/// A limit of the call itself, which is enforced. All overrides of a unit are quotas of one policy, so their number is bounded.
fn overridden(
    service: &RateLimitService,
    domain: &str,
    asked: &Descriptor<'_>,
    limit: LimitOverride,
) -> Slot {
    let LimitOverride { requests_per_unit, unit } = limit;
    let shown = Limit { requests_per_unit, unit: Some(unit), name: String::new() };
    let counted =
        Counted { limit: shown, role: Role::Enforced, hits: asked.hits, is_refund: asked.is_refund };
    let name = format!("envoy.override.{}", unit.as_str());
    let quota = Quota::new(u64::from(requests_per_unit), unit.duration()).ok();
    let policy = quota.and_then(|quota| Policy::try_fixed_window(&name, quota).ok());
    let mut identity = Vec::with_capacity(64);
    let entries = asked.entries.iter().flat_map(|(key, value)| [*key, *value]);
    for text in std::iter::once(domain).chain(entries) {
        identity.extend_from_slice(&text.len().to_le_bytes());
        identity.extend_from_slice(text.as_bytes());
    }
    match policy.zip(digest(&service.limiter, &identity)) {
        Some((policy, key)) => Slot::Limit(counted, service.decider().with_mode(&policy), key),
        None => Slot::Zero(counted),
    }
}

/// A key of bytes of any number: a client chooses values that are longer than a key may be, so they are hashed in steps.
fn digest(limiter: &Limiter, bytes: &[u8]) -> Option<Key> {
    const STEP: usize = 4_096;
    let mut state = [0; 16];
    for chunk in bytes.chunks(STEP) {
        let key = limiter.key(|key| {
            key.part("envoy state", &state);
            key.part("envoy bytes", chunk);
        });
        state = key.ok()?.fingerprint().to_le_bytes();
    }
    limiter.key(|key| key.part("envoy digest", &state)).ok()
}
