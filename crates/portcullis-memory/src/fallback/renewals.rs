//! Renewals of permits, some of which were taken in memory.

use std::num::NonZeroU64;

use portcullis_core::Clock;
use portcullis_core::store::{Renewal, Renewed, Store as _, StoreFuture};

use super::LocalStandby;

/// Renewals by where their permits were taken.
pub(super) struct SplitRenewals {
    pub(super) local: Vec<Renewal>,
    pub(super) stored: Vec<Renewal>,
    pub(super) order: Order,
}

/// For each renewal, whether its permits were taken in memory.
pub(super) struct Order(Vec<bool>);

impl<C: Clock> LocalStandby<C> {
    /// Renews permits under the shares that were charged.
    pub(super) fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        let under_share = |renewal: Renewal| match renewal.policy().share() {
            Some(share) => renewal.with_policy(&share),
            None => renewal,
        };
        self.memory.renew(renewals.into_iter().map(under_share).collect())
    }
}

impl SplitRenewals {
    /// Splits renewals; `id` is that of the memory.
    pub(super) fn of(renewals: Vec<Renewal>, id: NonZeroU64) -> Self {
        let is_local = |renewal: &Renewal| renewal.fallback_id() == Some(id);
        if !renewals.iter().any(is_local) {
            return Self { local: Vec::new(), stored: renewals, order: Order(Vec::new()) };
        }
        let order = Order(renewals.iter().map(is_local).collect());
        let (local, stored) = renewals.into_iter().partition(is_local);
        Self { local, stored, order }
    }
}

impl Order {
    /// Puts the results back into the order of the renewals.
    pub(super) fn merge(self, local: Vec<Renewed>, stored: Vec<Renewed>) -> Vec<Renewed> {
        let (mut local, mut stored) = (local.into_iter(), stored.into_iter());
        self.0
            .into_iter()
            .filter_map(|is_local| if is_local { local.next() } else { stored.next() })
            .collect()
    }
}
