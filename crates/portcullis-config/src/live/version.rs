//! One version of the rules, with the layers that its requests have needed.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use portcullis_core::Mistakes;
use portcullis_tower::matching::PathReadings;
use portcullis_tower::{LayerError, LayerLog, LimitTexts, PreparedLayer, Registry, Selection};

use crate::rules::{RuleSet, Rules};

/// The rules between two changes.
pub(super) struct RulesVersion {
    pub(super) rules: Rules,
    pub(super) generation: u64,
    /// By the names of their tables.
    named: HashMap<String, RuleSet>,
    /// By the rules that they consist of, at most one for each rule, and [`MAX_MORE`].
    layers: ArcSwap<HashMap<RuleSet, PreparedLayer, foldhash::fast::RandomState>>,
    /// A layer of each rule, which limits nothing: for the list of layers.
    listed: OnceLock<Vec<(String, PreparedLayer)>>,
    /// The rules as they were logged.
    texts: OnceLock<Arc<LimitTexts>>,
    /// The layer of denied requests that no rule matches.
    denials: OnceLock<PreparedLayer>,
}

impl RulesVersion {
    pub(super) fn new(rules: Rules, generation: u64) -> Self {
        let mut named: HashMap<_, RuleSet> = HashMap::new();
        for (index, rule) in rules.iter().enumerate() {
            named.entry(rule.table().to_owned()).or_default().insert(index);
        }
        Self {
            rules,
            generation,
            named,
            layers: ArcSwap::default(),
            listed: OnceLock::new(),
            texts: OnceLock::new(),
            denials: OnceLock::new(),
        }
    }

    /// Lists each rule as a layer, for as long as this version exists, and logs a line for each, or for each that differs from those before. Called
    /// once, under the lock of changes, while this version is the current one.
    pub(super) fn list(&self, registry: &Arc<Registry>, log: &LayerLog, before: Option<&LimitTexts>) {
        let layers = self.rules.iter().enumerate().filter_map(|(index, rule)| {
            let layer = self.rules.layer(registry, &RuleSet::from_iter([index])).ok()??;
            let layer = PreparedLayer::new(&layer.route(rule.matcher().to_string()), log);
            layer.list();
            Some((rule.name().to_string(), layer))
        });
        let layers: Vec<_> = layers.collect();
        let texts = PreparedLayer::log_rules(self.generation, &layers, before);
        let _ = self.texts.set(Arc::new(texts));
        let _ = self.listed.set(layers);
    }

    /// The rules as they were logged.
    pub(super) fn texts(&self) -> Option<Arc<LimitTexts>> {
        self.texts.get().cloned()
    }

    /// The rule of this name, with the limit on requests in flight that is in its table.
    pub(super) fn named(&self, name: &str) -> Option<&RuleSet> {
        self.named.get(name)
    }

    /// The choice for a request that no rule matches.
    pub(super) fn unmatched(
        &self,
        registry: &Arc<Registry>,
        log: &LayerLog,
        request: &PathReadings<'_>,
    ) -> Selection {
        if !self.rules.denies(request) {
            return Selection::none();
        }
        let denials = self.denials.get_or_init(|| PreparedLayer::new(&self.rules.denials(registry), log));
        Selection::layer(denials.current())
    }

    /// The layer of these rules, if it was made before. Takes no lock.
    pub(super) fn made<T>(&self, set: &RuleSet, found: impl FnOnce(&PreparedLayer) -> T) -> Option<T> {
        self.layers.load().get(set).map(found)
    }

    /// The number of layers that are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.layers.load().len()
    }

    /// Makes the layer of these rules, and keeps it if it may be kept and there is room. `None` for no rules. Called under the lock of
    /// changes, while this version is the current one.
    pub(super) fn make(
        &self,
        registry: &Arc<Registry>,
        set: RuleSet,
        log: &LayerLog,
        may_keep: bool,
    ) -> Result<Option<PreparedLayer>, Mistakes<LayerError>> {
        let Some(layer) = self.rules.layer(registry, &set)? else { return Ok(None) };
        let layer = PreparedLayer::new(&layer, log);
        let kept = self.layers.load();
        if may_keep && kept.len() < self.rules.iter().len() + MAX_MORE {
            let mut layers = HashMap::clone(&kept);
            layers.insert(set, layer.clone());
            self.layers.store(Arc::new(layers));
        }
        Ok(Some(layer))
    }
}

/// A service has a few combinations of rules that match a request. Clients can make up many only if the rules have many conditions that
/// are independent of each other: beyond as many as there are rules, and this number more, a layer is made for each request.
pub(super) const MAX_MORE: usize = 256;
