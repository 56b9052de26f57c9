//! Which limits of Envoy's files apply to a call, and to which keys.

use portcullis::key::Key;
use portcullis::rules::envoy::{Applied, Descriptors, Limit as FileLimit, Match, RequestLimits};
use portcullis::store::FixedWindow;
use portcullis::store::{Checks, Outcome};
use portcullis::{Decision, Limiter, Policy, PolicySettings, Quota};
use portcullis_engine::{Ask, Limits, Mode};

use super::RateLimitService;
use super::call::{Call, Descriptor, LimitOverride};
use super::verdict::{Figures, Limit, LimitStatus, Status, Verdict};

/// What applies to a call.
#[derive(Debug)]
pub(super) struct Plan {
    /// What applies to each descriptor, in their order.
    slots: Vec<Slot>,
    /// The limits with state. At most as many as descriptors, all with fixed windows: they fit into one decision.
    pub(super) items: Vec<Item>,
    /// Whether a limit of 0 denies the call: any hit exceeds it.
    pub(super) is_banned: bool,
    /// Whether limits with `quota_mode` apply, and all of them may deny.
    pub(super) quotas_deny: bool,
}

/// The hits of one key under one policy, of one descriptor or several that are equal.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) policy: Policy,
    pub(super) key: Key,
    pub(super) role: Role,
    pub(super) hits: u64,
    /// Whether the hits are refunded rather than charged.
    pub(super) is_refund: bool,
    /// The places of its descriptors.
    pub(super) slots: Vec<usize>,
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
            return Self::new(slots, false);
        }
        Self::new(slots, quotas_deny)
    }

    fn new(slots: Vec<Slot>, quotas_deny: bool) -> Self {
        let bans =
            |slot: &Slot| matches!(slot, Slot::Zero(Counted { role: Role::Enforced, is_refund: false, .. }));
        Self { items: items(&slots), is_banned: slots.iter().any(bans), slots, quotas_deny }
    }

    /// The limits as the engine decides by them, in the order of the items.
    pub(super) fn limits(&self) -> Vec<portcullis_engine::Limit> {
        let limit = |item: &Item| {
            let mode = if item.role == Role::Shadow { Mode::Shadow } else { Mode::Enforce };
            portcullis_engine::Limit { mode, ..portcullis_engine::Limit::new(item.policy.clone()) }
        };
        self.items.iter().map(limit).collect()
    }

    /// What the limits of these roles are asked, with the keys of all limits for events.
    pub(super) fn ask(&self, limits: &Limits, roles: &[Role]) -> Ask {
        let mut ask = Ask::new(limits).without_outcome();
        for (index, item) in self.items.iter().enumerate().filter(|(_, item)| !item.is_refund) {
            match item.role {
                role if !roles.contains(&role) => ask.found(index, item.key),
                Role::Enforced | Role::Quota if item.hits == 0 => {
                    ask.add_unit_needed(limits, index, item.key);
                }
                _ => ask.add(limits, index, item.key, item.hits),
            }
        }
        ask
    }

    /// Whether a limit is charged nothing, and asked whether a unit is left.
    pub(super) fn needs_unit(&self) -> bool {
        self.of_role(Role::Enforced).any(|item| item.hits == 0)
    }

    /// The limits of a role that charge.
    pub(super) fn of_role(&self, role: Role) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(move |item| item.role == role && !item.is_refund)
    }

    /// The limits that an outcome has a decision of: a remembered denial has one.
    pub(super) fn decided<'p, 'o>(
        &'p self,
        outcome: &'o Outcome,
    ) -> impl Iterator<Item = (&'p Item, &'o Decision)> {
        outcome.checks().iter().zip(outcome.decisions()).filter_map(|(check, decision)| {
            let is_of = |item: &&Item| !item.is_refund && check.is_about(item.policy.name(), item.key);
            Some((self.items.iter().find(is_of)?, decision))
        })
    }

    /// The verdict before the limits with state are asked.
    pub(super) fn undecided(&self) -> Verdict {
        let status = |slot: &Slot| match slot {
            Slot::Zero(counted) if !counted.is_refund => counted.status(true, Some(Figures::default())),
            slot => Status { is_unlimited: matches!(slot, Slot::Unlimited), ..Status::default() },
        };
        Verdict { statuses: self.slots.iter().map(status).collect(), ..Verdict::default() }
    }

    /// Shows a limit in a verdict. One that is open counts nothing, and has no figures.
    pub(super) fn show(&self, item: &Item, over: bool, decision: &Decision, verdict: &mut Verdict) {
        let mut figures = Figures::from(decision);
        if over && item.hits <= decision.limit() {
            figures.retry = figures.retry.or(Some(decision.reset_after()));
        }
        let figures = decision.is_metered().then_some(figures);
        for &index in &item.slots {
            if let (Some(status), Some(counted)) =
                (verdict.statuses.get_mut(index), self.slots[index].counted())
            {
                *status = counted.status(over, figures);
            }
        }
    }
}

impl Counted {
    fn status(&self, over: bool, figures: Option<Figures>) -> Status {
        let is_shadow = self.role == Role::Shadow;
        let limit = figures.map(|figures| LimitStatus { limit: self.limit.clone(), figures });
        Status { over: over && !is_shadow, is_shadow, is_unlimited: false, limit }
    }
}

impl Item {
    /// How many descriptors it is of.
    pub(super) fn descriptors(&self) -> u64 {
        self.slots.len() as u64
    }
}

/// Checks with these costs; `None` if there are no items.
pub(super) fn checks(items: &[&Item], cost: impl Fn(&Item) -> u64) -> Option<Checks> {
    let check = |index: usize| (&items[index].policy, items[index].key, cost(items[index]));
    (!items.is_empty()).then(|| Checks::of(items.len(), check))
}

/// The limits with state, those of equal descriptors together.
fn items(slots: &[Slot]) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for (index, slot) in slots.iter().enumerate() {
        let Slot::Limit(counted, policy, key) = slot else { continue };
        let &Counted { role, hits, is_refund, .. } = counted;
        let is_same = |item: &&mut Item| {
            item.key == *key
                && item.policy.name() == policy.name()
                && (item.role, item.is_refund) == (role, is_refund)
        };
        if let Some(same) = items.iter_mut().find(is_same) {
            same.hits = same.hits.saturating_add(hits);
            same.slots.push(index);
        } else {
            items.push(Item { policy: policy.clone(), key: *key, role, hits, is_refund, slots: vec![index] });
        }
    }
    items
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
        Some(key) => Slot::Limit(counted, service.with_mode(policy), key),
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
    let name = format!("{OVERRIDE}{}", unit.as_str());
    let window = Quota::new(u64::from(requests_per_unit), unit.duration(), None).and_then(FixedWindow::new);
    let policy = Policy::try_new(&name, window, PolicySettings::default()).ok();
    let mut identity = Vec::with_capacity(64);
    let entries = asked.entries.iter().flat_map(|(key, value)| [*key, *value]);
    for text in std::iter::once(domain).chain(entries) {
        identity.extend_from_slice(&text.len().to_le_bytes());
        identity.extend_from_slice(text.as_bytes());
    }
    match policy.zip(digest(&service.limiter, &identity)) {
        Some((policy, key)) => Slot::Limit(counted, service.with_mode(&policy), key),
        None => Slot::Zero(counted),
    }
}

/// What the names of policies of limit overrides begin with.
pub(super) const OVERRIDE: &str = "envoy.override.";

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
