//! What a charge shares with its clones, in memory that the next request uses again.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

use super::ledger::ChargeLedger;
use portcullis_core::Decision;
use portcullis_core::store::Check;

use super::{Charge, ChargeBasis};
use crate::config::LayerConfig;
use crate::in_flight::Permits;

pub(super) struct ChargeData {
    pub(super) config: Arc<LayerConfig>,
    pub(super) basis: ChargeBasis,
    pub(super) outer: Option<Charge>,
    pub(super) ledger: ChargeLedger,
    /// Shared with the response, if there is one.
    pub(super) permits: Option<Permits>,
}

/// The data of one charge. Empty only as the spare of a thread.
#[derive(Clone)]
pub(super) struct SharedCharge(Arc<Option<ChargeData>>);

impl SharedCharge {
    // Inlined, so that the data, which are large, are written to their place alone.
    #[inline]
    pub(super) fn new(
        config: &Arc<LayerConfig>,
        basis: ChargeBasis,
        outer: Option<Charge>,
        permits: Option<Permits>,
    ) -> Self {
        let mut shared = SPARE.take().unwrap_or_default();
        let data = Arc::get_mut(&mut shared).expect("a spare is not shared");
        let ledger = ChargeLedger::default();
        *data = Some(ChargeData { config: Arc::clone(config), basis, outer, ledger, permits });
        Self(shared)
    }

    /// Reads the configuration, the charge of the next outer layer, the current decisive decision, all current decisions and the
    /// checks of the admission. Then keeps the memory for the next request of this thread, unless a handler still has the charge.
    pub(super) fn conclude(
        mut self,
        read: impl FnOnce(&LayerConfig, Option<&Charge>, &Decision, &[Decision], &[Check]),
    ) {
        // One test for both, and no lock in most cases.
        let Some(slot) = Arc::get_mut(&mut self.0) else {
            let ChargeData { config, basis, outer, ledger, .. } = &*self;
            return ledger.with_decisions(basis, |decisive, all| {
                read(config, outer.as_ref(), decisive, all, basis.checks());
            });
        };
        if let Some(ChargeData { config, basis, outer, ledger, .. }) = slot {
            ledger.with_decisions_unshared(basis, |decisive, all| {
                read(config, outer.as_ref(), decisive, all, basis.checks());
            });
        }
        *slot = None;
        SPARE.set(Some(self.0));
    }
}

impl Deref for SharedCharge {
    type Target = ChargeData;

    fn deref(&self) -> &ChargeData {
        (*self.0).as_ref().expect("only a spare is empty")
    }
}

thread_local! {
    /// One per thread is enough where requests are answered at once.
    static SPARE: Cell<Option<Arc<Option<ChargeData>>>> = const { Cell::new(None) };
}
