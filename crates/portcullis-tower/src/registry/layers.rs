//! The layers that limit services now, for people: what an operator sees, and what is logged when a layer starts.

mod summary;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, Weak};

use portcullis_core::Policy;
use portcullis_engine::PoliciesInUse;
use portcullis_log::codes;

use crate::Mode;
pub use summary::{LayerSummary, PolicySummary};

/// A layer that can be listed.
pub(crate) trait ListedLayer: Send + Sync {
    /// The layer with its policies as they are now.
    fn summary(&self) -> LayerSummary;
}

/// The layers that exist, bounded in number. It keeps none of them.
#[derive(Default)]
pub(crate) struct Inventory {
    listed: Mutex<Listed>,
    /// The lines about layers that were logged.
    lines: AtomicUsize,
}

#[derive(Default)]
struct Listed {
    layers: Vec<Weak<dyn ListedLayer>>,
    /// The number of layers at which those that are gone are removed.
    prune_at: usize,
    /// How many layers are refused before it is tried again to remove some.
    refuse: usize,
    is_full_logged: bool,
}

impl Inventory {
    /// Lists a layer, unless [`MAX_LAYERS`] exist. Those that are gone make room.
    pub(crate) fn add(&self, layer: Weak<dyn ListedLayer>) {
        let is_first_refusal = {
            let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
            !listed.add(layer) && !std::mem::replace(&mut listed.is_full_logged, true)
        };
        if is_first_refusal {
            tracing::warn!(
                code = %codes::TOO_MANY_LAYERS, layers = MAX_LAYERS,
                "the rate limiter has more layers than it lists: the others limit as well, and are not shown"
            );
        }
    }

    /// The layers in the order in which they were listed.
    pub(crate) fn layers(&self) -> Vec<LayerSummary> {
        let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        let existing: Vec<_> = listed.layers.iter().filter_map(Weak::upgrade).collect();
        // Without the lock, because the last reference to a layer may be dropped.
        drop(listed);
        existing.iter().map(|layer| layer.summary()).collect()
    }

    /// Logs what a layer limits, for the first layers.
    pub(crate) fn log_start(&self, layer: &LayerSummary) {
        self.log(|| {
            let (route, policies) = (layer.route(), layer.policies_text());
            tracing::info!(route, policies, "a layer of the rate limiter limits requests");
        });
    }

    /// Logs a policy that was registered without a layer, for the first of them.
    pub(crate) fn log_registered(&self, policy: &Policy) {
        self.log(|| {
            tracing::info!(%policy, "a policy of the rate limiter is registered for checks in handlers");
        });
    }

    /// Logs a route that a layer has learnt, for the first layers.
    #[cfg(feature = "axum")]
    pub(crate) fn log_route(&self, route: &str, layer: &impl std::fmt::Debug) {
        self.log(|| {
            tracing::info!(route, policies = ?layer, "a layer of the rate limiter limits requests of this route, which its first request has shown");
        });
    }

    fn log(&self, line: impl FnOnce()) {
        let number = self.lines.fetch_add(1, Relaxed);
        if number < MAX_LINES {
            line();
        } else {
            if number == MAX_LINES {
                tracing::info!("more layers of the rate limiter limit requests: they are not logged");
            }
            // The number stays behind the last line, however many layers follow.
            self.lines.store(MAX_LINES + 1, Relaxed);
        }
    }
}

impl PoliciesInUse for Inventory {
    fn visit(&self, visit: &mut dyn FnMut(&Policy, Mode, Option<&str>)) {
        for layer in self.layers() {
            for own in layer.policies().iter().filter(|own| own.mode() != Mode::Off) {
                visit(own.policy(), own.mode(), layer.route());
            }
        }
    }
}

impl Listed {
    /// Returns whether there is room.
    fn add(&mut self, layer: Weak<dyn ListedLayer>) -> bool {
        if self.refuse > 0 {
            self.refuse -= 1;
            return false;
        }
        if self.layers.len() >= self.prune_at {
            self.layers.retain(|layer| layer.strong_count() > 0);
            self.prune_at = self.layers.len().saturating_mul(2).clamp(MIN_PRUNE, MAX_LAYERS);
        }
        if self.layers.len() >= MAX_LAYERS {
            self.refuse = MIN_PRUNE;
            return false;
        }
        self.layers.push(layer);
        true
    }
}

/// A program has tens of layers, and rules in files have thousands.
pub(crate) const MAX_LAYERS: usize = 10_000;

const MIN_PRUNE: usize = 64;

/// Lines about layers that start, for a program that makes layers all the time.
const MAX_LINES: usize = 1_000;

#[cfg(test)]
mod tests;
