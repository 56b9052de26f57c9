//! An open reservation, and how it is settled.

use std::sync::Arc;
use std::time::Duration;

use portcullis::key::Key;
use portcullis::store::StoreErrorKind;
use portcullis_engine::engine::keyed_limit::KeyedPermit;
use portcullis_engine::{Limits, OnAbort, SettlementLoss, report};
use portcullis_tower::joint::HeldUnits;
use tokio::time::Instant;

use super::record::{GRACE, Reserved};

/// When something ends, and a number, so that no two are equal.
pub(super) type Due = (Instant, u64);

/// A reservation of this instance.
#[derive(Debug)]
pub(super) struct Open {
    /// The fingerprint of its domain.
    pub(super) domain: u128,
    pub(super) ends_at: Instant,
    /// When the task that ends it looks at it.
    pub(super) due: Due,
    pub(super) reserved: Reserved,
    pub(super) limits: Arc<Limits>,
    /// The record that other instances see; `None` if there is none.
    pub(super) record: Option<Vec<u8>>,
    /// Its place among those that are open.
    pub(super) _place: KeyedPermit<Key>,
}

impl Reserved {
    /// The most that it can be committed at: what is reserved, and the debt that each of its policies allows.
    pub(super) fn most(&self) -> u64 {
        let most = |held: &HeldUnits| {
            let policy = held.receipt.policy();
            let debt = policy.max_debt().unwrap_or_else(|| policy.strategy().limit());
            self.amount.saturating_add(debt / held.weight.max(1))
        };
        self.held.iter().map(most).min().unwrap_or(u64::MAX)
    }

    /// Settles it at what was used.
    pub(super) async fn settle(&self, limits: &Arc<Limits>, actual: u64) {
        for HeldUnits { receipt, weight, .. } in &self.held {
            // A rule may charge more than the amount; that stays.
            let before = receipt.cost();
            let cost = if actual >= self.amount {
                before.saturating_add(weight.saturating_mul(actual - self.amount))
            } else {
                before.saturating_sub(weight.saturating_mul(self.amount - actual))
            };
            if cost == before {
                continue;
            }
            match limits.settle(receipt.copy_for_retry(), cost).await {
                Ok(settlement) => report::settled(limits, receipt.key(), before, cost, &settlement),
                Err(error) => {
                    limits.emit_store_state(Some(&error));
                    if error.kind().may_repeat() {
                        let settler = &limits.engine().backlog.settler;
                        settler.settle(limits, receipt.copy_for_retry(), cost);
                    } else {
                        let cause = match error.kind() {
                            StoreErrorKind::Forbidden | StoreErrorKind::Unsupported => {
                                SettlementLoss::Refused
                            }
                            _ => SettlementLoss::Unknown,
                        };
                        report::lost(limits, receipt, cost, cause);
                    }
                }
            }
        }
    }

    /// Whether something of it is refunded if it ends without a commit.
    pub(super) fn is_released(&self) -> bool {
        self.held.iter().any(|held| held.on_abort == OnAbort::Nothing && held.receipt.cost() > 0)
    }

    /// Refunds what its rules give back at its end, in the background.
    pub(super) fn release(&self, limits: &Arc<Limits>) {
        for held in self.held.iter().filter(|held| held.on_abort == OnAbort::Nothing) {
            limits.engine().backlog.settler.settle(limits, held.receipt.copy_for_retry(), 0);
        }
    }

    /// Emits that what its rules give back stays charged.
    pub(super) fn keep(&self, limits: &Arc<Limits>) {
        for held in self.held.iter().filter(|held| held.on_abort == OnAbort::Nothing) {
            report::lost(limits, &held.receipt, 0, SettlementLoss::GivenUp);
        }
    }

    /// For how long the record of an open reservation is kept: beyond its end only if an instance then gives something back.
    pub(super) fn kept_for(&self) -> Duration {
        if self.is_released() { self.ttl.saturating_add(GRACE) } else { self.ttl }
    }

    /// The key of the fewest requests; one that clients share if all are.
    pub(super) fn narrowest_key(&self) -> Option<Key> {
        let keys = self.held.iter().map(|held| held.receipt.key()).filter(|key| !key.is_shared());
        let narrowest = keys.reduce(|best, key| if key.own_parts() > best.own_parts() { key } else { best });
        narrowest.or_else(|| self.held.first().map(|held| held.receipt.key()))
    }
}
