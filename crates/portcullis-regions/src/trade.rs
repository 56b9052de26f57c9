//! Purchases: the calls to home and the credits, in the background.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, Position, Store};
use portcullis_core::{Receipt, Retry, StoreError, StoreErrorKind, Strategy};
use portcullis_log::codes;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::figures::Figures;
use crate::ledger::{Decided, Ended, Ledger, Order};
use crate::shares::Shares;

/// What the calls of a regional store and its purchases share.
pub(crate) struct Trader {
    pub(crate) local: Arc<dyn Store>,
    pub(crate) home: Arc<dyn Store>,
    pub(crate) shares: Shares,
    pub(crate) region: Box<str>,
    pub(crate) ledger: Ledger,
    pub(crate) figures: Figures,
    pub(crate) runtime: Handle,
    /// One permit per purchase.
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) deadline: Duration,
    /// All times are durations since then.
    pub(crate) created: Instant,
}

impl Trader {
    /// The most purchases on their way.
    pub(crate) const MAX_PENDING: u32 = 256;

    /// Records what the region has decided about a key, and buys if its share is used.
    pub(crate) fn record(self: &Arc<Self>, decided: Decided<'_>) {
        let Some(order) = self.ledger.record(decided, self.now()) else { return };
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            self.figures.refused.add(1);
            self.ledger.refused(&order);
            return;
        };
        let purchase = Purchase { trader: Arc::clone(self), order, _slot: slot };
        self.runtime.spawn(async move { purchase.trader.buy(&purchase.order).await });
    }

    /// Charges the units at home and credits them in the region.
    pub(crate) async fn buy(&self, order: &Order) {
        let Some(home) = self.shares.home(&order.policy) else { return };
        self.figures.purchases.add(1);
        let checks = Checks::one(home, order.key, order.units);
        let charge = match self.within(self.home.check(checks)).await {
            Ok(outcome) => self.answered(order, outcome),
            Err(error) => {
                // If home has charged the units, they stay charged: nothing is credited for them.
                self.failed(order, &error);
                return;
            }
        };
        let Some(charge) = charge else { return };
        self.figures.bought.add(order.units);
        if !is_of_one_window(&charge, &order.credit) {
            self.give_back(charge).await;
            return;
        }
        match self.within(self.local.refund(order.credit.copy_for_retry())).await {
            Ok(_) => self.figures.credited.add(order.units),
            Err(error) if error.kind().may_repeat() => self.give_back(charge).await,
            // It may have been credited, so it is not repeated, and not refunded at home.
            Err(_) => self.figures.lost.add(order.units),
        }
    }

    /// Records the answer of home, and returns the receipt of what it has charged.
    fn answered(&self, order: &Order, outcome: Outcome) -> Option<Receipt> {
        if let Some(failure) = outcome.failure().cloned() {
            // A fallback around home has decided, which keeps no budget of all regions.
            self.failed(order, &failure);
            return None;
        }
        if self.figures.reached() {
            tracing::info!(region = %self.region, "the home store answers again");
        }
        let decision = outcome.decision();
        let remaining = decision.remaining();
        if !decision.is_allowed() {
            let retry_after = match decision.retry() {
                Some(Retry::After(wait)) => Some(wait),
                _ => None,
            };
            self.figures.denied.add(1);
            self.ledger.answered(order, Ended::Denied(remaining, retry_after), self.now());
            return None;
        }
        self.ledger.answered(order, Ended::Bought(remaining), self.now());
        outcome.into_receipts().next()
    }

    fn failed(&self, order: &Order, error: &StoreError) {
        self.figures.failed.add(1);
        self.figures.unreached(|| {
            let (region, error) = (self.region.clone(), error.to_string());
            move |counted| {
                tracing::warn!(
                    code = %codes::HOME_SILENT,
                    %region,
                    error,
                    purchases = counted.events,
                    "the home store does not answer: the region has its share of each limit only; purchases counted since the last \
                     such line"
                );
            }
        });
        self.ledger.answered(order, Ended::Failed, self.now());
    }

    /// Refunds at home what was not credited. The call is made once: if it fails, the units stay charged.
    async fn give_back(&self, charge: Receipt) {
        let units = charge.cost();
        match self.within(self.home.refund(charge)).await {
            Ok(_) => self.figures.returned.add(units),
            Err(_) => self.figures.lost.add(units),
        }
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        match timeout(self.deadline, call).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(StoreError::new(StoreErrorKind::TimedOut, "no answer within the deadline of purchases"))
            }
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.created.elapsed()
    }
}

/// A purchase on its way. It ends however its task does: also if a store panics, or with the runtime.
struct Purchase {
    trader: Arc<Trader>,
    order: Order,
    _slot: OwnedSemaphorePermit,
}

impl Drop for Purchase {
    fn drop(&mut self) {
        self.trader.ledger.ended(&self.order);
    }
}

/// Whether home has charged in the window that the credit is for. Its clock may be behind or ahead of the region's, and then the
/// budget of one window would be spent in another.
fn is_of_one_window(charge: &Receipt, credit: &Receipt) -> bool {
    let window = |receipt: &Receipt| receipt.runs().last().map(|run| run.position);
    match charge.policy().strategy() {
        Strategy::FixedWindow(_) => window(charge) == window(credit),
        Strategy::CalendarWindow(calendar) => {
            let number = |position: Position| {
                calendar.table().number_at(portcullis_core::Timestamp::from_micros(position.micros))
            };
            window(charge).map(number) == window(credit).map(number)
        }
        _ => true,
    }
}
