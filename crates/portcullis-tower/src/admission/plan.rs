//! Determines the checks of a request: which policies count it, by which key, at what cost.

use std::num::NonZeroU64;

use http::request::Parts;
use portcullis_core::store::Checks;
use portcullis_core::{FailureMode, Key, Strategy};
use smallvec::SmallVec;

use super::pending_lookup::PendingLookup;
use super::shadow_checks::ShadowChecks;
use crate::KeyError;
use crate::charge::SingleCheck;
use crate::config::LayerConfig;
use crate::event::{EventKeys, EventKind, FoundKeys};
use crate::policy::{KeySource, LayerPolicy, PolicySet, ResolvedKey};
use crate::response::retry_seed;

/// The checks of a request, and the steps that follow them.
#[derive(Default)]
pub(crate) struct Plan {
    /// The checks of the enforced policies, in one call; empty if none of them counts the request.
    pub(super) enforced: PlannedChecks,
    pub(super) shadow: ShadowChecks,
    /// Whether look-ups follow if the request passes.
    pub(super) looks_up: bool,
    /// The policies whose quotas are looked up.
    pub(super) awaited: PolicySet,
    /// The reason to reject the request even if the checks pass.
    pub(super) rejection: Option<PlannedRejection>,
    /// The keys that were found, if events have them.
    pub(super) keys: Option<Box<FoundKeys>>,
}

/// Why a request is rejected before any look-up.
pub(super) enum PlannedRejection {
    /// Its identity is missing or malformed.
    Identity(KeyError),
    /// A list of the layer denies it.
    Denied,
}

/// The checks of one call of the store, by the indexes of their policies. [`Checks`] contain the policies, which are large, so they
/// are made where the store takes them, and a plan stays small.
#[derive(Clone, Default)]
pub(super) struct PlannedChecks {
    checks: SmallVec<[PlannedCheck; 2]>,
    on_failure: OnStoreFailure,
}

#[derive(Clone, Copy)]
struct PlannedCheck {
    index: usize,
    key: Key,
    cost: u64,
}

/// How to treat a request if the store cannot answer.
#[derive(Clone, Copy, Default)]
pub(super) struct OnStoreFailure {
    /// The policies that were checked.
    pub(super) checked: PolicySet,
    /// Whether a checked policy has another mode than open, so that the request is rejected.
    pub(super) rejects: bool,
    /// Of the narrowest key, by which the retries of a denied request are spread. `None` if they are not, or all keys are shared.
    pub(super) retry_seed: Option<NonZeroU64>,
}

impl OnStoreFailure {
    /// That of the only check of a request, under an enforced policy.
    pub(super) fn of_single(config: &LayerConfig, SingleCheck { index, key, .. }: SingleCheck) -> Self {
        let mut on_failure = Self::default();
        on_failure.add(index, &config.policies()[index]);
        on_failure.spread(config, || Some(key).filter(|key| !key.is_shared()))
    }

    /// Adds a policy that is checked.
    fn add(&mut self, index: usize, layer_policy: &LayerPolicy) {
        self.checked = self.checked.union(PolicySet::one(index));
        self.rejects |= layer_policy.policy.failure_mode() != FailureMode::Open;
    }

    /// Sets the seed, if the layer spreads retries.
    fn spread(self, config: &LayerConfig, narrowest_key: impl FnOnce() -> Option<Key>) -> Self {
        let is_spread = config.responses.spreads_retries();
        let retry_seed = if is_spread { narrowest_key().map(retry_seed) } else { None };
        Self { retry_seed, ..self }
    }
}

/// The waits that a decision may cause.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits {
    /// For a slot in a queue, which the decision reserves.
    pub(super) in_queue: bool,
    /// For a window or log, which reserves nothing: the request is checked again.
    pub(super) for_window: bool,
}

impl Plan {
    /// Emits an event of the request, with the keys that were found so far.
    pub(super) fn emit(&self, config: &LayerConfig, kind: EventKind<'_>) {
        config.store.emit_with(kind, || EventKeys::of_plan(self.keys.as_deref()));
    }

    /// Keeps a key for events.
    #[inline]
    pub(super) fn found(&mut self, index: usize, key: Key) {
        if let Some(keys) = &mut self.keys {
            keys.add(index, key);
        }
    }

    pub(super) fn add(&mut self, index: usize, layer_policy: &LayerPolicy, key: Key, cost: u64) {
        self.found(index, key);
        if !layer_policy.is_enforced_for(key) {
            self.shadow.push((index, Checks::one(layer_policy.policy.clone(), key, cost)));
            return;
        }
        let PlannedChecks { checks, on_failure } = &mut self.enforced;
        checks.push(PlannedCheck { index, key, cost });
        on_failure.add(index, layer_policy);
    }
}

impl PlannedChecks {
    pub(super) fn is_empty(&self) -> bool {
        self.checks.is_empty()
    }

    pub(super) fn on_failure(&self, config: &LayerConfig) -> OnStoreFailure {
        self.on_failure.spread(config, || self.narrowest_key())
    }

    /// See [`Checks::narrowest_key`].
    fn narrowest_key(&self) -> Option<Key> {
        let keys = self.checks.iter().map(|check| check.key).filter(|key| !key.is_shared());
        keys.reduce(|best, key| if key.own_parts() > best.own_parts() { key } else { best })
    }

    /// Which waits the answer to the checks may cause.
    pub(super) fn waits(&self, config: &LayerConfig) -> Waits {
        let mut waits = Waits::default();
        for check in self.checks.iter().filter(|check| check.cost > 0) {
            let policy = &config.policies()[check.index].policy;
            match policy.strategy() {
                Strategy::LeakyBucket(_) => waits.in_queue = true,
                Strategy::TokenBucket(_) | Strategy::Gcra(_) => waits.in_queue |= policy.max_wait().is_some(),
                // Requests do not wait under it.
                Strategy::InFlight(_) => {}
                Strategy::FixedWindow(_)
                | Strategy::CalendarWindow(_)
                | Strategy::SlidingWindow(_)
                | Strategy::SlidingLog(_) => {
                    waits.for_window |= policy.max_wait().is_some();
                }
            }
        }
        waits
    }

    /// Sets the costs of policies that look first to 0. Returns the index of each, the key and the cost.
    pub(super) fn take_deferred_costs(&mut self, config: &LayerConfig) -> SmallVec<[(usize, Key, u64); 2]> {
        let looks_first = |index: usize| {
            config.policies()[index].outcome.as_ref().is_some_and(|outcome| outcome.looks_first)
        };
        self.checks
            .iter_mut()
            .filter(|check| check.cost > 0 && looks_first(check.index))
            .map(|check| (check.index, check.key, std::mem::take(&mut check.cost)))
            .collect()
    }

    /// The only check, if no request waits under its policy.
    #[inline]
    pub(super) fn single(&self, config: &LayerConfig) -> Option<SingleCheck> {
        let [PlannedCheck { index, key, cost }] = self.checks[..] else { return None };
        (!config.policies()[index].may_wait()).then_some(SingleCheck { index, key, cost })
    }

    /// The checks for the store.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub(super) fn checks(&self, config: &LayerConfig) -> Checks {
        Checks::of(self.checks.len(), |number| {
            let PlannedCheck { index, key, cost } = self.checks[number];
            (&config.policies()[index].policy, key, cost)
        })
    }
}

/// The checks before any look-up: those of the policies with synchronous keys, except for those that are `awaited`, because their
/// quotas are looked up.
///
/// If the identity is missing or malformed, only the policies that [count rejections](LayerPolicy::keeps_charge) are
/// checked. The others cannot change the result of a request that is rejected in any case, and without a charge they need
/// no refund.
pub(super) fn first(config: &LayerConfig, awaited: PolicySet, parts: &Parts) -> Plan {
    let mut plan = Plan { awaited, keys: kept_keys(config), ..Plan::default() };
    if let Err(error) = plan_sync_keys(config, parts, &mut plan) {
        let keys = plan.keys.take();
        plan = plan_rejection(config, parts, error, keys);
    }
    plan
}

/// The checks after the look-ups: those of the policies whose keys or quotas were looked up, and of all shadow policies. The shadow
/// policies with synchronous keys are in `shadow`.
///
/// # Errors
///
/// If an identity that an enforced policy needs is missing.
pub(super) fn second(
    config: &LayerConfig,
    parts: &Parts,
    lookups: &[PendingLookup],
    awaited: PolicySet,
    shadow: ShadowChecks,
) -> Result<Plan, KeyError> {
    let mut plan = Plan { shadow, keys: kept_keys(config), ..Plan::default() };
    let mut current = None;
    for (index, layer_policy) in config.policies().iter().enumerate() {
        if let KeySource::Sync(extractor) = &layer_policy.key {
            if awaited.contains(index) {
                let resolved = ResolvedKey::find(&**extractor, config.registry.secret(), parts);
                add_if_counted(config, &mut plan, index, &resolved, parts)?;
            }
            continue;
        }
        // A policy without its own look-up has the key of the previous policy.
        current = lookups.iter().find_map(|lookup| lookup.resolved_key(index)).or(current);
        add_if_counted(config, &mut plan, index, current.expect("all look-ups are done"), parts)?;
    }
    plan.shadow.sort_by_key(|(index, _)| *index);
    Ok(plan)
}

/// Fills a plan in its place, because it is large.
fn plan_sync_keys(config: &LayerConfig, parts: &Parts, plan: &mut Plan) -> Result<(), KeyError> {
    let mut previous: Option<(&KeySource, Result<ResolvedKey, KeyError>)> = None;
    for (index, layer_policy) in config.policies().iter().enumerate() {
        let KeySource::Sync(extractor) = &layer_policy.key else {
            plan.looks_up = true;
            continue;
        };
        if plan.awaited.contains(index) {
            plan.looks_up = true;
            continue;
        }
        let is_resolved = previous.as_ref().is_some_and(|(key, _)| key.is_same(&layer_policy.key));
        if !is_resolved {
            let resolved = ResolvedKey::find(&**extractor, config.registry.secret(), parts);
            emit_malformed(config, plan, layer_policy, &resolved);
            previous = Some((&layer_policy.key, resolved));
        }
        if let Some((_, resolved)) = &previous {
            add_if_counted(config, plan, index, resolved, parts)?;
        }
    }
    Ok(())
}

/// The checks of a layer with one policy, whose extractor has returned `resolved`.
#[cold]
pub(super) fn of_one_key(
    config: &LayerConfig,
    resolved: &Result<ResolvedKey, KeyError>,
    parts: &Parts,
) -> Plan {
    let mut plan = Plan::default();
    emit_malformed(config, &plan, &config.policies()[0], resolved);
    match add_if_counted(config, &mut plan, 0, resolved, parts) {
        Ok(()) => plan,
        Err(error) => plan_rejection(config, parts, error, None),
    }
}

/// The checks of a layer that has found the key of its only policy, which is enforced.
pub(super) fn of_check(config: &LayerConfig, SingleCheck { index, key, cost }: SingleCheck) -> Plan {
    let mut plan = Plan::default();
    plan.add(index, &config.policies()[index], key, cost);
    plan
}

/// Emits that a client has sent a malformed identity.
fn emit_malformed(
    config: &LayerConfig,
    plan: &Plan,
    layer_policy: &LayerPolicy,
    resolved: &Result<ResolvedKey, KeyError>,
) {
    if let Err(error) = resolved
        && error.is_client_fault()
    {
        let policy = layer_policy.policy.name();
        plan.emit(config, EventKind::IdentityMalformed { policy, error });
    }
}

/// The checks of a request that is rejected for its identity. `keys` are those that were found before.
pub(super) fn plan_rejection(
    config: &LayerConfig,
    parts: &Parts,
    error: KeyError,
    keys: Option<Box<FoundKeys>>,
) -> Plan {
    let mut plan = Plan { keys, ..Plan::default() };
    // A client is not charged for an error of the server.
    if error.is_client_fault() {
        for (index, layer_policy) in config
            .policies()
            .iter()
            .enumerate()
            .filter(|(_, layer_policy)| layer_policy.is_enforced_for_some())
        {
            let KeySource::Sync(extractor) = &layer_policy.key else { continue };
            let key = ResolvedKey::find(&**extractor, config.registry.secret(), parts)
                .and_then(|resolved| layer_policy.key_to_charge(resolved, config.registry.secret()));
            match key {
                Ok(Some(key)) if layer_policy.is_enforced_for(key) && layer_policy.keeps_charge(key) => {
                    plan.add(index, layer_policy, key, layer_policy.cost_of(parts));
                }
                Ok(Some(key)) => plan.found(index, key),
                Err(error) if !error.is_client_fault() => {
                    plan.emit(config, EventKind::Misconfigured { error: &error });
                }
                Ok(None) | Err(_) => {}
            }
        }
    }
    plan.rejection = Some(PlannedRejection::Identity(error));
    plan
}

/// Room for the keys of a request, if events have them.
#[inline]
pub(super) fn kept_keys(config: &LayerConfig) -> Option<Box<FoundKeys>> {
    if config.store.wants_keys() { Some(Box::default()) } else { None }
}

/// Adds the check of a policy to a plan, if it counts the request.
fn add_if_counted(
    config: &LayerConfig,
    plan: &mut Plan,
    index: usize,
    resolved: &Result<ResolvedKey, KeyError>,
    parts: &Parts,
) -> Result<(), KeyError> {
    let layer_policy = &config.policies()[index];
    // The shortest way for most requests: results with errors are large.
    if let Ok(ResolvedKey::Known(key)) = resolved {
        plan.add(index, layer_policy, *key, layer_policy.cost_of(parts));
        return Ok(());
    }
    let policy = layer_policy.policy.name();
    let key_to_charge = match resolved {
        Ok(resolved) => {
            match resolved {
                ResolvedKey::Known(_) => {}
                ResolvedKey::Exempt => plan.emit(config, EventKind::Exempt { policy }),
                ResolvedKey::Missing => {
                    let on_missing = layer_policy.on_missing;
                    plan.emit(config, EventKind::IdentityMissing { policy, on_missing });
                }
            }
            layer_policy.key_to_charge(*resolved, config.registry.secret())
        }
        Err(error) => Err(error.clone()),
    };
    match key_to_charge {
        Ok(Some(key)) => plan.add(index, layer_policy, key, layer_policy.cost_of(parts)),
        Ok(None) => {}
        // A shadow policy never rejects.
        Err(error) if layer_policy.is_shadow => {
            plan.emit(config, EventKind::ShadowUnidentified { policy, error: &error });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}
