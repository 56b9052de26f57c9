use std::sync::Arc;

use portcullis_core::Secret;

use super::*;

struct Layer;

impl ListedLayer for Layer {
    fn summary(&self) -> LayerSummary {
        LayerSummary::new(None, Vec::new(), Secret::published())
    }
}

fn add(inventory: &Inventory, layer: &Arc<Layer>) {
    let weak: Weak<Layer> = Arc::downgrade(layer);
    inventory.add(weak);
}

#[test]
fn layers_that_are_gone_are_neither_shown_nor_kept() {
    let inventory = Inventory::default();
    let lasting = Arc::new(Layer);
    add(&inventory, &lasting);
    for _ in 0..10 * MIN_PRUNE {
        add(&inventory, &Arc::new(Layer));
    }
    assert_eq!(inventory.layers().len(), 1);
    assert!(inventory.listed.lock().unwrap().layers.len() <= MIN_PRUNE);
}

#[test]
fn the_number_of_listed_layers_is_bounded() {
    let inventory = Inventory::default();
    let layer = Arc::new(Layer);
    for _ in 0..MAX_LAYERS + 10 {
        add(&inventory, &layer);
    }
    assert_eq!(inventory.layers().len(), MAX_LAYERS);
    drop(layer);
    // Once some are gone, others are listed again.
    let other = Arc::new(Layer);
    for _ in 0..=MIN_PRUNE {
        add(&inventory, &other);
    }
    assert!(!inventory.layers().is_empty());
}
