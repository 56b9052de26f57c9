//! Finds the keys and costs of a request: what it asks of its limits.

mod listed;
pub(crate) mod lookups;
mod preflight;

use http::request::Parts;
use http_body::Body;

use super::reject::PlannedRejection;
use crate::KeyError;
use crate::config::LayerConfig;
use crate::limit::{KeySource, Limit, ResolvedKey};
use lookups::{PendingLookup, quotas};
use portcullis_engine::EventKind;
use portcullis_engine::PolicySet;
use portcullis_engine::{Ask, Asked, CallerPolicies};

/// What is to be done for a request before it is decided.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) ask: Ask,
    /// Whether keys or quotas have to be looked up, after the checks of `ask`.
    pub(crate) looks_up: bool,
    /// The policies whose callers have quotas that have to be looked up.
    pub(crate) awaited: PolicySet,
    /// Why the request is rejected, if its checks do not reject it before.
    pub(crate) rejection: Option<PlannedRejection>,
}

/// The plan of a request.
pub(crate) fn of(config: &LayerConfig, parts: &Parts, body: &impl Body) -> Plan {
    let (callers, awaited) = quotas::known(config, parts);
    if let Some(lists) = config.lists.as_deref()
        && let Some(plan) = listed::plan(config, lists, &callers, parts)
    {
        return plan;
    }
    let preflight = preflight::plan(config, &callers, parts, body);
    preflight.unwrap_or_else(|| first(config, &callers, awaited, parts))
}

/// Finds the keys that need no look-up.
fn first(config: &LayerConfig, callers: &CallerPolicies, awaited: PolicySet, parts: &Parts) -> Plan {
    let mut plan = Plan { awaited, ask: Ask::of_caller(&config.limits, callers), ..Plan::default() };
    if let Err(error) = add_sync_keys(config, parts, &mut plan) {
        return rejection(config, parts, error, plan.ask);
    }
    if plan.looks_up {
        let secret = config.registry.secret();
        let stays = plan
            .ask
            .enforced()
            .iter()
            .filter(|asked| config.policies()[asked.index].keeps_charge_of_look_up(asked.key, secret));
        plan.ask.stays = PolicySet::of(stays.map(|asked| asked.index));
    }
    plan
}

fn add_sync_keys(config: &LayerConfig, parts: &Parts, plan: &mut Plan) -> Result<(), KeyError> {
    let mut previous: Option<(&KeySource, Result<ResolvedKey, KeyError>)> = None;
    for (index, limit) in config.policies().iter().enumerate() {
        let KeySource::Sync(extractor) = &limit.key else {
            plan.looks_up = true;
            continue;
        };
        if plan.awaited.contains(index) {
            plan.looks_up = true;
            continue;
        }
        let is_resolved = previous.as_ref().is_some_and(|(key, _)| key.is_same(&limit.key));
        if !is_resolved {
            let resolved = ResolvedKey::find(&**extractor, config.registry.secret(), parts);
            emit_malformed(config, &plan.ask, limit, &resolved);
            previous = Some((&limit.key, resolved));
        }
        if let Some((_, resolved)) = &previous {
            add_if_counted(config, &mut plan.ask, index, resolved, parts)?;
        }
    }
    Ok(())
}

/// What a request asks after its look-ups.
fn second(
    config: &LayerConfig,
    callers: &CallerPolicies,
    parts: &Parts,
    lookups: &[PendingLookup],
    awaited: PolicySet,
) -> Result<Ask, KeyError> {
    let mut ask = Ask::of_caller(&config.limits, callers);
    let mut current = None;
    for (index, limit) in config.policies().iter().enumerate() {
        if let KeySource::Sync(extractor) = &limit.key {
            if awaited.contains(index) {
                let resolved = ResolvedKey::find(&**extractor, config.registry.secret(), parts);
                add_if_counted(config, &mut ask, index, &resolved, parts)?;
            }
            continue;
        }
        // A policy without its own look-up has the key of the previous policy.
        current = lookups.iter().find_map(|lookup| lookup.resolved_key(index)).or(current);
        add_if_counted(config, &mut ask, index, current.expect("all look-ups are done"), parts)?;
    }
    Ok(ask)
}

/// The plan of a request whose only policy has found no key.
#[cold]
pub(super) fn without_key(
    config: &LayerConfig,
    resolved: &Result<ResolvedKey, KeyError>,
    parts: &Parts,
) -> Plan {
    let mut ask = Ask::new(&config.limits);
    emit_malformed(config, &ask, &config.policies()[0], resolved);
    match add_if_counted(config, &mut ask, 0, resolved, parts) {
        Ok(()) => Plan { ask, ..Plan::default() },
        Err(error) => rejection(config, parts, error, ask),
    }
}

fn emit_malformed(config: &LayerConfig, ask: &Ask, limit: &Limit, resolved: &Result<ResolvedKey, KeyError>) {
    if let Err(error) = resolved
        && error.is_client_fault()
    {
        let policy = limit.policy.name();
        ask.emit(&config.limits, EventKind::IdentityMalformed { policy, error });
    }
}

/// The plan of a request that is rejected for its identity. The policies that count rejections charge it, unless the error is the
/// server's.
pub(super) fn rejection(config: &LayerConfig, parts: &Parts, error: KeyError, so_far: Ask) -> Plan {
    let mut ask = Ask::of_rejected(so_far);
    // A client is not charged for an error of the server.
    if error.is_client_fault() {
        let enforced = config.policies().iter().enumerate();
        for (index, limit) in enforced.filter(|(_, limit)| limit.is_enforced_for_some()) {
            let KeySource::Sync(extractor) = &limit.key else { continue };
            let key = ResolvedKey::find(&**extractor, config.registry.secret(), parts)
                .and_then(|resolved| limit.key_to_charge(resolved, config.registry.secret(), parts));
            match key {
                Ok(Some(key))
                    if config.limits.policies()[index].is_enforced_for(key) && limit.keeps_charge(key) =>
                {
                    ask.add(&config.limits, index, key, limit.cost_of(parts));
                }
                Ok(Some(key)) => ask.found(index, key),
                Err(error) if !error.is_client_fault() => {
                    ask.emit(&config.limits, EventKind::Misconfigured { error: &error });
                }
                Ok(None) | Err(_) => {}
            }
        }
    }
    Plan { ask, rejection: Some(PlannedRejection::Identity(error)), ..Plan::default() }
}

/// Adds the check of a policy whose key is resolved, if it counts the request.
fn add_if_counted(
    config: &LayerConfig,
    ask: &mut Ask,
    index: usize,
    resolved: &Result<ResolvedKey, KeyError>,
    parts: &Parts,
) -> Result<(), KeyError> {
    let limit = &config.policies()[index];
    // The shortest way for most requests: results with errors are large.
    if let Ok(ResolvedKey::Known(key)) = resolved {
        ask.add(&config.limits, index, *key, limit.cost_of(parts));
        return Ok(());
    }
    let policy = limit.policy.name();
    match resolved {
        Ok(ResolvedKey::Exempt) => ask.emit(&config.limits, EventKind::Exempt { policy }),
        Ok(ResolvedKey::Missing) => {
            let on_missing = limit.on_missing;
            ask.emit(&config.limits, EventKind::IdentityMissing { policy, on_missing });
        }
        Ok(ResolvedKey::Known(_)) | Err(_) => {}
    }
    let key =
        resolved.clone().and_then(|resolved| limit.key_to_charge(resolved, config.registry.secret(), parts));
    match key {
        Ok(Some(key)) => ask.add(&config.limits, index, key, limit.cost_of(parts)),
        Ok(None) => {}
        Err(_) if limit.is_off_without_key() => {}
        // A shadow policy never rejects.
        Err(error) if limit.is_shadow() => {
            ask.emit(&config.limits, EventKind::ShadowUnidentified { policy, error: &error });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// The plan of a request with one check.
#[cold]
pub(super) fn of_one(config: &LayerConfig, asked: Asked) -> Plan {
    let mut ask = Ask::default();
    ask.add(&config.limits, asked.index, asked.key, asked.cost);
    Plan { ask, ..Plan::default() }
}
