//! What a charge shares with its clones, in memory that the next request uses again.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

use portcullis_core::Decision;
use portcullis_core::store::Check;
use portcullis_engine::charge::ChargeLedger;

use super::{Charge, ChargeBasis, Charged};
use crate::config::LayerConfig;
use portcullis_engine::engine::permits::Permits;

pub(super) struct ChargeData {
    pub(super) config: Arc<LayerConfig>,
    pub(super) basis: ChargeBasis,
    pub(super) outer: Option<Charge>,
    /// Shared with the response, if there is one.
    pub(super) permits: Option<Permits>,
}

/// The data of one charge.
#[derive(Clone)]
pub(super) struct SharedCharge(
    /// `None` only while it is dropped.
    Option<Slot>,
);

/// The memory for a charge. As the spare of a thread it has no data, and an empty ledger, so that this is not written for each request.
#[derive(Default)]
struct Memory {
    data: Option<ChargeData>,
    ledger: ChargeLedger,
}

type Slot = Arc<Memory>;

impl SharedCharge {
    /// Made by a function, so that the basis, which has room for several hundred bytes, is written to its place alone.
    #[inline]
    pub(super) fn new(
        config: &Arc<LayerConfig>,
        basis: impl FnOnce() -> ChargeBasis,
        outer: Option<Charge>,
        permits: Option<Permits>,
    ) -> Self {
        let mut shared = SPARE.take().unwrap_or_default();
        let spare = Arc::get_mut(&mut shared).expect("a spare is not shared");
        // Not assigned: the compiler would keep the data elsewhere while it drops what was there.
        spare.data.get_or_insert_with(|| {
            let config = Arc::clone(config);
            ChargeData { config, basis: basis(), outer, permits }
        });
        Self(Some(shared))
    }

    /// Reads the configuration, the charge of the next outer layer, the current decisive decision, all current decisions and the
    /// checks that may have the quota of a grant.
    pub(super) fn conclude(
        mut self,
        read: impl FnOnce(&LayerConfig, Option<&Charge>, &Decision, &[Decision], &[Check]),
    ) {
        // One test for both, and no lock in most cases.
        let Some(mut shared) = self.0.take() else { return };
        let Some(memory) = Arc::get_mut(&mut shared) else {
            let ChargeData { config, basis, outer, .. } = data(&shared);
            return shared.ledger.with_decisions(
                Charged { limits: &config.limits, basis },
                |decisive, all| {
                    read(config, outer.as_ref(), decisive, all, basis.maybe_individual());
                },
            );
        };
        if let Some(ChargeData { config, basis, outer, .. }) = &memory.data {
            memory.ledger.with_decisions_unshared(
                Charged { limits: &config.limits, basis },
                |decisive, all| {
                    read(config, outer.as_ref(), decisive, all, basis.maybe_individual());
                },
            );
        }
        memory.clear();
        keep(shared);
    }

    pub(super) fn ledger(&self) -> &ChargeLedger {
        &self.slot().ledger
    }

    fn slot(&self) -> &Slot {
        self.0.as_ref().expect("a charge that is dropped is not read")
    }
}

/// Keeps the memory for the next request of this thread, unless a clone is left.
impl Drop for SharedCharge {
    fn drop(&mut self) {
        // A load decides in most cases.
        if let Some(mut shared) = self.0.take()
            && Arc::strong_count(&shared) == 1
            && let Some(memory) = Arc::get_mut(&mut shared)
        {
            memory.clear();
            keep(shared);
        }
    }
}

impl Memory {
    #[inline]
    fn clear(&mut self) {
        self.data = None;
        self.ledger.clear();
    }
}

/// Keeps the memory of a charge that was cleared. A thread that ends keeps none.
fn keep(spare: Slot) {
    let _ = SPARE.try_with(|kept| kept.set(Some(spare)));
}

fn data(slot: &Slot) -> &ChargeData {
    slot.data.as_ref().expect("only a spare is empty")
}

impl ChargeData {
    pub(super) fn charged(&self) -> Charged<'_> {
        Charged { limits: &self.config.limits, basis: &self.basis }
    }
}

impl Deref for SharedCharge {
    type Target = ChargeData;

    fn deref(&self) -> &ChargeData {
        data(self.slot())
    }
}

thread_local! {
    /// One per thread is enough where requests are answered at once.
    static SPARE: Cell<Option<Slot>> = const { Cell::new(None) };
}
