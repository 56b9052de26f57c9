//! Puts a snapshot together.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};

use portcullis_core::{Key, Policy, PolicyName};
use portcullis_tower::{LayerSummary, Mode, Registry};

use super::{
    BlockedCaller, LayerInUse, LayerPolicy, LimitedKey, PolicyFigures, PolicyInUse, RecentRejection,
    Snapshot, StoreFigure, StoreFigures, TopKey,
};
use crate::recorder::sketch::Entry;
use crate::recorder::{self, Counts, Rejection, now_ms, since_epoch_ms};
use crate::state::AdminState;

/// What all answers show now.
pub(crate) fn snapshot(state: &AdminState) -> Snapshot {
    let (registry, now) = (&*state.options.registry, now_ms());
    let mut view = state.recorder.view(now);
    let policies = policies_in_use(registry, &view.policies);
    let route_of = |policy: &str| {
        let found = policies.binary_search_by(|one| one.name.as_str().cmp(policy)).ok()?;
        let [route] = policies.get(found)?.routes.as_slice() else { return None };
        Some(route.clone())
    };
    let shown = |key: Key| state.shown(key);
    let name = |key: Key| caller_name(state, key);
    let top = view.top.drain(..).map(|Entry { key: (policy, key), requests, rejected, error }| TopKey {
        policy: policy.to_string(),
        fingerprint: shown(key),
        name: name(key),
        requests,
        rejected,
        error,
    });
    let limited = view.limited.drain(..).map(|entry| {
        let recorder::LimitedKey { policy, key, until, is_locked_out } = entry;
        LimitedKey {
            policy: policy.to_string(),
            fingerprint: shown(key),
            name: name(key),
            until,
            locked_out: is_locked_out,
        }
    });
    let blocked = registry.blocked_clients().into_iter().map(|client| {
        let key = client.fingerprint.key();
        BlockedCaller { fingerprint: shown(key), name: name(key), until: since_epoch_ms(client.until) }
    });
    let recent = view.recent.drain(..).map(|Rejection { time, policy, key, reason }| RecentRejection {
        time,
        route: policy.as_ref().and_then(|policy| route_of(policy.as_str())),
        policy: policy.map(|policy| policy.to_string()),
        fingerprint: key.and_then(shown),
        name: key.and_then(name),
        reason: reason.name().to_owned(),
    });
    let (top_keys, limited_now, recent_rejections) = (top.collect(), limited.collect(), recent.collect());
    let counts: HashMap<&str, _> =
        view.policies.iter().map(|(name, counts)| (name.as_str(), *counts)).collect();
    let figures = policies.iter().cloned().map(|policy| {
        let counts = counts.get(policy.name.as_str()).copied().unwrap_or_default();
        PolicyFigures { policy, counts }
    });
    Snapshot {
        time: now,
        generation: state.options.generation.as_ref().and_then(|generation| generation()),
        policies: figures.collect(),
        store: store_figures(state, now),
        fingerprints_withheld: state.withheld(),
        top: top_keys,
        limited_now,
        blocked_everywhere: blocked.collect(),
        recent: recent_rejections,
        waiting: to_u64(registry.waiting_requests()),
        in_flight: to_u64(registry.permits_in_flight()),
    }
}

/// What the service calls a caller. A panic of its function would end the connection, with other requests on it.
fn caller_name(state: &AdminState, key: Key) -> Option<String> {
    let names = state.options.caller_names.as_ref()?;
    let name = catch_unwind(AssertUnwindSafe(|| names(key.into()))).ok()??;
    Some(shown_text(&name).into_owned())
}

/// All registered policies, those without a layer too, by name, at most 1 000.
pub(crate) fn policies_in_use(registry: &Registry, counts: &HashMap<PolicyName, Counts>) -> Vec<PolicyInUse> {
    let layers = registry.layers();
    let mut uses: HashMap<&str, Use<'_>> = HashMap::new();
    for layer in &layers {
        for summary in layer.policies() {
            let of_policy = uses.entry(summary.policy().name().as_str()).or_default();
            of_policy.layers += 1;
            of_policy.is_trial |= summary.mode().is_trial();
            of_policy.routes.extend(layer.route());
            of_policy.modes.insert(summary.mode().to_string());
            of_policy.keys.insert(summary.key());
            for option in summary.options() {
                if !of_policy.options.contains(&option) && of_policy.options.len() < MAX_OPTIONS {
                    of_policy.options.push(option);
                }
            }
        }
    }
    let none = Use::default();
    let mut routes_left = MAX_ALL_ROUTES;
    let in_use = |policy: Policy| {
        let name = policy.name();
        let Use { layers, is_trial, routes, modes, keys, options } = uses.get(name.as_str()).unwrap_or(&none);
        let of_all_layers = registry.mode(name);
        let is_trial = of_all_layers.map_or(*is_trial, Mode::is_trial);
        let options = match layers {
            0 => policy.settings_texts(),
            _ => options.iter().map(|option| shown_text(option).into_owned()).collect(),
        };
        let mode = match of_all_layers {
            _ if registry.is_off() => Mode::Off.to_string(),
            Some(mode) => mode.to_string(),
            None if modes.is_empty() => Mode::Enforce.to_string(),
            None => modes.iter().take(MAX_DIFFERENT).map(String::as_str).collect::<Vec<_>>().join(", "),
        };
        let routes: Vec<_> = routes
            .iter()
            .take(MAX_ROUTES.min(routes_left))
            .map(|route| shown_text(route).into_owned())
            .collect();
        routes_left -= routes.len();
        PolicyInUse {
            name: name.to_string(),
            strategy: policy.strategy().to_string(),
            mode,
            routes,
            key: keys.iter().take(MAX_DIFFERENT).map(|key| shown_text(key)).collect::<Vec<_>>().join(", "),
            options,
            failure_mode: policy.failure_mode().to_string(),
            allows_overrides: policy.reads_overrides(),
            layers: to_u64(*layers),
            registered_since: registry.registered_since(name).map(since_epoch_ms),
            tried_out_since: registry.mode_since(name).filter(|_| is_trial).map(since_epoch_ms),
            counted: counts.get(name).is_some_and(|counts| counts.counted),
        }
    };
    // In the order of their names.
    registry.policies().into_iter().take(MAX_LISTED).map(in_use).collect()
}

/// What the layers with one policy have, without repetitions.
#[derive(Default)]
struct Use<'a> {
    layers: usize,
    is_trial: bool,
    routes: BTreeSet<&'a str>,
    modes: BTreeSet<String>,
    keys: BTreeSet<&'a str>,
    /// In the order of the layers.
    options: Vec<Cow<'a, str>>,
}

/// The layers that exist, at most 1 000.
pub(crate) fn layers_in_use(registry: &Registry) -> Vec<LayerInUse> {
    let in_use = |layer: &LayerSummary| LayerInUse {
        route: layer.route().map(|route| shown_text(route).into_owned()),
        policies: layer
            .policies()
            .iter()
            .map(|summary| LayerPolicy {
                name: summary.policy().name().to_string(),
                mode: summary.mode().to_string(),
                key: shown_text(summary.key()).into_owned(),
            })
            .collect(),
    };
    registry.layers().iter().take(MAX_LISTED).map(in_use).collect()
}

fn store_figures(state: &AdminState, now: u64) -> StoreFigures {
    let (mut figures, mut is_given_up) = (Vec::new(), false);
    state.options.registry.store().figures(&mut |figure| {
        is_given_up |= figure.name == "breaker_open" && figure.value > 0;
        if figures.len() < MAX_FIGURES {
            figures.push(StoreFigure {
                name: figure.name.to_owned(),
                policy: figure.policy.map(ToString::to_string),
                value: figure.value,
                unit: figure.unit.as_str().to_owned(),
                kind: figure.kind.as_str().to_owned(),
            });
        }
    });
    StoreFigures {
        kind: state.options.store_kind.to_string(),
        healthy: !is_given_up && state.recorder.is_healthy(now),
        figures,
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// How many policies or layers an answer lists.
const MAX_LISTED: usize = 1_000;

/// A text that may have any length, as it is shown. What [`identity.request.route`](crate::target) names may be that.
pub(crate) fn shown_text(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// How many characters of a text are shown.
const MAX_TEXT: usize = 200;

/// How many modes and keys of one policy are shown, if layers differ.
const MAX_DIFFERENT: usize = 4;

/// How many options of one policy are shown.
const MAX_OPTIONS: usize = 32;

/// How many routes an answer has in all.
const MAX_ALL_ROUTES: usize = 5_000;

/// How many routes a policy is shown with.
const MAX_ROUTES: usize = 100;

/// How many figures of the store are shown: more than a store with 64 policies has.
const MAX_FIGURES: usize = 1_000;
