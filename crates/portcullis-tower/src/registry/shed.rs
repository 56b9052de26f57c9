//! The layers of a registry that shed load.

use std::sync::{Mutex, PoisonError, Weak};

use portcullis_core::store::Figure;

use super::Registry;

/// A layer that sheds load, in the figures.
pub trait ListedShed: Send + Sync {
    /// The limit on requests in flight.
    fn limit(&self) -> u32;

    /// The requests in flight.
    fn in_flight(&self) -> u32;
}

/// The layers that shed load. Those that are gone are removed when one is added.
#[derive(Default)]
pub(crate) struct ShedLayers(Mutex<Vec<Weak<dyn ListedShed>>>);

impl Registry {
    /// Lists a layer in the figures, for as long as it exists.
    pub fn add_shed(&self, layer: Weak<dyn ListedShed>) {
        self.shed_layers.change(|layers| {
            layers.retain(|layer| layer.strong_count() > 0);
            layers.push(layer);
        });
    }
}

impl ShedLayers {
    /// Visits the sums over all layers. Nothing without a layer.
    pub(super) fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        let layers: Vec<_> = self.change(|layers| layers.iter().filter_map(Weak::upgrade).collect());
        if layers.is_empty() {
            return;
        }
        let (mut limit, mut in_flight) = (0, 0);
        for layer in layers {
            limit += u64::from(layer.limit());
            in_flight += u64::from(layer.in_flight());
        }
        let help = "Requests in flight that the layers that shed load allow now.";
        visit(Figure::gauge("shed_limit", limit, help));
        visit(Figure::gauge("shed_in_flight", in_flight, "Requests in flight in the layers that shed load."));
    }

    /// The list is consistent between any two statements, so a poisoned lock is safe to use.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Weak<dyn ListedShed>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
