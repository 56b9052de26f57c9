//! The layer whose rules change.

use std::fmt;
use std::sync::Arc;

use arc_swap::Guard;
use http::HeaderValue;
use http::request::Parts;
use portcullis_core::Mistakes;
use portcullis_tower::matching::PathReadings;
use portcullis_tower::{CurrentLayer, LayerError, PreparedLayer, SelectLayer, SelectedRateLimit, Selection};
use tower_layer::Layer;

use super::version::RulesVersion;
use super::{LiveRules, Shared};
use crate::rules::RuleSet;

/// A service whose requests are limited by rules. Made by a [`RulesLayer`].
pub type RulesService<S> = SelectedRateLimit<S, RulesLayer>;

/// Limits requests by rules that may change: by all that match, or by one. Made by [`LiveRules::layer`] and [`LiveRules::layer_of`].
///
/// It is applied as a [`RateLimitLayer`](portcullis_tower::RateLimitLayer) is, and makes of a request what a layer of the same policies
/// makes of it.
///
/// The layers of combinations of rules that requests match are kept until the rules change: at most as many as there are rules, and 256
/// more. A request whose layer is kept takes no lock, whatever the spelling of its path: it loads the current rules, and looks up the
/// layer. For further combinations a layer is made for each request, and for those that only a request with several hosts, or with
/// a path that can be read in several ways, can match. That takes the lock under which rules are replaced, and that of the registry,
/// where a layer has to register its policies; neither is held while files are read. Only such requests wait for each other.
///
/// A request is rejected with 500, or `INTERNAL` in gRPC, if more rules match it than one
/// decision [may have](portcullis_tower::LayerError::TooMany).
#[derive(Clone)]
#[must_use = "a layer limits nothing until it is applied"]
pub struct RulesLayer {
    pub(super) live: LiveRules,
    /// The rule, for a layer of one rule.
    pub(super) rule: Option<Arc<str>>,
}

impl RulesLayer {
    /// The rules that apply to a request.
    fn rules_for(&self, version: &RulesVersion, request: &PathReadings<'_>) -> RuleSet {
        match &self.rule {
            None => version.rules.matching_readings(request),
            Some(rule) => {
                version.named(rule).expect("rules without one that has a layer are refused").clone()
            }
        }
    }

    /// Like [`rules_for`](Self::rules_for), but also returns whether the layer of the rules may be kept.
    fn rules_to_keep(&self, version: &RulesVersion, request: &PathReadings<'_>) -> (RuleSet, bool) {
        let set = self.rules_for(version, request);
        let may_keep = self.rule.is_some() || version.rules.is_regular(request, &set);
        (set, may_keep)
    }
}

impl SelectLayer for RulesLayer {
    /// A request never sees a mixture of two versions, such as the keys of one and the quotas of the other.
    ///
    /// The version that it loads first determines the rules, their keys and costs. The quotas are those of the registry at a later
    /// instant. Rules are replaced under the lock of the registry: the policies and their generation change, and then the pointer is
    /// stored. A layer reads changed policies under that lock, or gets what another request has read under it. So a request that sees a
    /// policy of a later version also sees the later pointer when it compares the pointers afterwards, and begins again. A request that
    /// sees the pointer of a version sees its generation as well, so it never sees policies of an earlier one. If the pointer is the
    /// same, all that it has seen is of one version. Versions are compared by their address, which is not used again as long as the
    /// first one is held.
    ///
    /// Rules that are replaced all the time cannot keep a request busy: after a few attempts, it takes the lock under which
    /// rules are replaced. It takes it as well to make a layer that no request has needed yet, so that layers of a former version never
    /// register its policies.
    fn select(&self, parts: &Parts) -> Selection {
        let shared = &*self.live.0;
        let request = PathReadings::of(parts);
        for _ in 0..ATTEMPTS {
            let version = shared.current.load();
            let set = self.rules_for(&version, &request);
            if set.is_empty() {
                let selection = version.unmatched(&shared.registry, &shared.log, &request);
                return version.shown(selection, parts);
            }
            let Some(layer) = version.made(&set, PreparedLayer::current) else { break };
            if is_same(&version, &shared.current.load()) {
                return version.shown(Selection::layer(layer), parts);
            }
        }
        self.select_exclusively(shared, &request)
    }
}

impl RulesLayer {
    /// Like [`select`](SelectLayer::select), but under the lock of changes, so that no rules are replaced meanwhile. All that a long path
    /// makes expensive is done before the lock is taken.
    #[cold]
    fn select_exclusively(&self, shared: &Shared, request: &PathReadings<'_>) -> Selection {
        let before = shared.current.load();
        let rules = self.rules_to_keep(&before, request);
        let _changes = shared.changes();
        let version = shared.current.load();
        let rules = if is_same(&before, &version) { rules } else { self.rules_to_keep(&version, request) };
        let selection = match self.current_layer(&version, rules) {
            Ok(None) => version.unmatched(&shared.registry, &shared.log, request),
            Ok(Some(layer)) => Selection::layer(layer),
            Err(error) => Selection::refused(&shared.registry, &error),
        };
        version.shown(selection, request.parts())
    }

    /// The layer of these rules, which is made if no request has needed it. Called under the lock of changes.
    fn current_layer(
        &self,
        version: &RulesVersion,
        (set, may_keep): (RuleSet, bool),
    ) -> Result<Option<CurrentLayer>, Mistakes<LayerError>> {
        if let Some(layer) = version.made(&set, PreparedLayer::current) {
            return Ok(Some(layer));
        }
        let Shared { registry, log, .. } = &*self.live.0;
        let layer = version.make(registry, set, log, may_keep)?;
        Ok(layer.map(|layer| layer.current()))
    }
}

impl RulesVersion {
    /// Adds the generation to the response of a request that asks for it.
    fn shown(&self, selection: Selection, parts: &Parts) -> Selection {
        match self.rules.show_generation() {
            Some(name) if parts.headers.contains_key(name) => {
                selection.with_header(name.clone(), HeaderValue::from(self.generation))
            }
            _ => selection,
        }
    }
}

impl<S> Layer<S> for RulesLayer {
    type Service = RulesService<S>;

    fn layer(&self, inner: S) -> RulesService<S> {
        SelectedRateLimit::new(inner, self.clone())
    }
}

impl fmt::Debug for RulesLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulesLayer").field("live", &self.live).field("rule", &self.rule).finish()
    }
}

fn is_same(one: &Guard<Arc<RulesVersion>>, other: &Guard<Arc<RulesVersion>>) -> bool {
    Arc::ptr_eq(one, other)
}

/// A replacement takes longer than an attempt, so a second one fails only where rules are replaced all the time.
const ATTEMPTS: usize = 3;
