//! What a charge shares with its clones, in memory that the next request uses again.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;

use super::ledger::ChargeLedger;
use super::{Charge, ChargeBasis};
use crate::config::LayerConfig;

pub(super) struct ChargeData {
    pub(super) config: Arc<LayerConfig>,
    pub(super) basis: ChargeBasis,
    pub(super) outer: Option<Charge>,
    pub(super) ledger: ChargeLedger,
}

/// The data of one charge. Empty only as the spare of a thread.
#[derive(Clone)]
pub(super) struct SharedCharge(Arc<Option<ChargeData>>);

impl SharedCharge {
    pub(super) fn new(data: ChargeData) -> Self {
        let Some(mut spare) = SPARE.take() else { return Self(Arc::new(Some(data))) };
        *Arc::get_mut(&mut spare).expect("a spare is not shared") = Some(data);
        Self(spare)
    }

    /// Keeps the memory for the next request of this thread, unless a handler still has the charge.
    pub(super) fn recycle(mut self) {
        if let Some(data) = Arc::get_mut(&mut self.0) {
            *data = None;
            SPARE.set(Some(self.0));
        }
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
