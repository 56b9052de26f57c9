//! What a charge shares with its clones, in memory that the next request uses again.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

use super::ledger::ChargeLedger;
use portcullis_core::Decision;
use portcullis_core::store::Check;

use super::{Charge, ChargeBasis, Charged};
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
        spare.get_or_insert_with(|| {
            let (config, ledger) = (Arc::clone(config), ChargeLedger::default());
            ChargeData { config, basis: basis(), outer, ledger, permits }
        });
        Self(shared)
    }

    /// Reads the configuration, the charge of the next outer layer, the current decisive decision, all current decisions and the
    /// checks that may have the quota of a grant. Then keeps the memory for the next request of this thread, unless a handler still has the charge.
    pub(super) fn conclude(
        mut self,
        read: impl FnOnce(&LayerConfig, Option<&Charge>, &Decision, &[Decision], &[Check]),
    ) {
        // One test for both, and no lock in most cases.
        let Some(slot) = Arc::get_mut(&mut self.0) else {
            let ChargeData { config, basis, outer, ledger, .. } = &*self;
            return ledger.with_decisions(self.charged(), |decisive, all| {
                read(config, outer.as_ref(), decisive, all, basis.grantable());
            });
        };
        if let Some(ChargeData { config, basis, outer, ledger, .. }) = slot {
            ledger.with_decisions_unshared(Charged { config, basis }, |decisive, all| {
                read(config, outer.as_ref(), decisive, all, basis.grantable());
            });
        }
        *slot = None;
        SPARE.set(Some(self.0));
    }
}

impl ChargeData {
    pub(super) fn charged(&self) -> Charged<'_> {
        Charged { config: &self.config, basis: &self.basis }
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
