//! The store of a region.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::overrides::{Block, BlockedClients, ClientChange, LockOut, Override};
use portcullis_core::store::{
    CallObserver, Check, Checks, ExchangedRecord, Figure, Outcome, Position, ReadyCheck, RecordExchange,
    Renewal, Renewed, Standby, Store, StoreFuture,
};
use portcullis_core::{
    Decision, Key, Policy, Quota, Receipt, Settlement, StoreError, StoreErrorKind, Timestamp,
};

use crate::ledger::Decided;
use crate::trade::Trader;

/// The store of one region: decides on the store of the region under its [share](crate::Shares) of each limit, and buys units of the
/// home store in the background for the keys that use it.
///
/// A decision is one call to the region's store, and never waits for home. When half of a key's share is used, the process charges
/// units at home and, once home has charged them, refunds as many of its own charges in the region. So each admitted unit is charged
/// in the region or at home, and during a purchase in both.
///
/// Decisions report as limit and as remaining what the region has and what home has as far as the region knows: until a purchase has
/// told, home counts as full. Outcomes and receipts have the policies as they were given. A cost above the region's share can never fit.
///
/// Blocks and lock-outs are those of the region. A grant is an error.
///
/// Clones share everything.
#[derive(Clone)]
pub struct RegionalStore {
    trader: Arc<Trader>,
}

impl RegionalStore {
    pub(crate) fn new(trader: Trader) -> Self {
        Self { trader: Arc::new(trader) }
    }

    fn pending(&self) -> usize {
        (Trader::MAX_PENDING as usize).saturating_sub(self.trader.slots.available_permits())
    }

    fn share_of(&self, policy: &Policy) -> Result<Policy, StoreError> {
        self.trader.shares.region(policy)
    }

    fn shares_of(&self, checks: &Checks) -> Result<Checks, StoreError> {
        let mut shares = checks.clone();
        for (index, check) in checks.iter().enumerate() {
            shares = shares.with_policy(index, self.share_of(&check.policy)?);
        }
        Ok(shares)
    }

    /// Asks the region's store about the shares, and reports about the policies.
    fn decide(
        &self,
        checks: Checks,
        ask: impl FnOnce(Checks) -> StoreFuture<Outcome>,
    ) -> StoreFuture<Outcome> {
        let shares = match self.shares_of(&checks) {
            Ok(shares) => shares,
            Err(error) => return StoreFuture::ready(Err(error)),
        };
        let trader = Arc::clone(&self.trader);
        ask(shares).map(move |answer| {
            let outcome = answer?;
            trader.record_outcome(&checks, &outcome);
            Ok(outcome.of_whole(&checks, |check| trader.elsewhere(&check.policy, check.key)))
        })
    }

    /// Calls `correct` with the receipt under the share that was charged, and with the policy that it had.
    fn with_share<T>(
        &self,
        receipt: Receipt,
        correct: impl FnOnce(Receipt, Policy) -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        let policy = receipt.policy().clone();
        match self.share_of(&policy) {
            Ok(share) => correct(receipt.with_policy(&share), policy),
            Err(error) => StoreFuture::ready(Err(error)),
        }
    }
}

impl Trader {
    fn record_outcome(self: &Arc<Self>, checks: &Checks, outcome: &Outcome) {
        // What a fallback has decided is not in the region's store.
        if outcome.failure().is_some() {
            return;
        }
        let shares = outcome.checks().iter().zip(outcome.decisions()).zip(outcome.results());
        for ((share, decision), result) in shares {
            let is_whole =
                |whole: &&Check| whole.key == share.key && whole.policy.name() == share.policy.name();
            let Some(whole) = checks.iter().find(is_whole) else { continue };
            let units = if outcome.is_allowed() { share.cost } else { 0 };
            self.record_decision(&whole.policy, &share.policy, share.key, units, decision, result.position);
        }
    }

    fn record_decision(
        self: &Arc<Self>,
        policy: &Policy,
        share: &Policy,
        key: Key,
        units: u64,
        decision: &Decision,
        position: Position,
    ) {
        if !decision.is_metered() || decision.is_blocked() || self.shares.home_limit(policy) == 0 {
            return;
        }
        let (remaining, is_denied) = (decision.remaining(), !decision.is_allowed());
        self.record(Decided { policy, share, key, units, remaining, position, is_denied });
    }

    /// The limit of home's share, and what remains of it as far as the region knows.
    fn elsewhere(&self, policy: &Policy, key: Key) -> (u64, u64) {
        let limit = self.shares.home_limit(policy);
        if limit == 0 {
            return (0, 0);
        }
        (limit, self.ledger.home(policy, key, self.now()).unwrap_or(limit))
    }
}

impl Store for RegionalStore {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.decide(checks, |shares| self.trader.local.check(shares))
    }

    fn check_now(&self, policy: &Policy, key: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        let share = match self.share_of(policy) {
            Ok(share) => share,
            Err(error) => return Some(Err(error)),
        };
        let ReadyCheck { decision, position } = match self.trader.local.check_now(&share, key, cost)? {
            Ok(ready) => ready,
            Err(error) => return Some(Err(error)),
        };
        let units = if decision.is_allowed() { cost } else { 0 };
        self.trader.record_decision(policy, &share, key, units, &decision, position);
        let (limit, remaining) = self.trader.elsewhere(policy, key);
        Some(Ok(ReadyCheck { decision: decision.with_more(limit, remaining), position }))
    }

    /// The standby decides under the region's shares as well.
    fn check_with(&self, checks: Checks, standby: Arc<dyn Standby>) -> StoreFuture<Outcome> {
        self.decide(checks, |shares| self.trader.local.check_with(shares, standby))
    }

    /// Refunds in the region, even if home was charged for the unit in the meantime: what home has charged is the region's.
    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.trader.ledger.refunded(receipt.policy(), receipt.key(), receipt.cost());
        let (trader, policy, key) = (Arc::clone(&self.trader), receipt.policy().clone(), receipt.key());
        self.with_share(receipt, |receipt, _| self.trader.local.refund(receipt)).map(move |answer| {
            let (limit, remaining) = trader.elsewhere(&policy, key);
            Ok(answer?.with_more(limit, remaining))
        })
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        let surplus = receipt.cost().saturating_sub(cost);
        let missing = receipt.missing(cost);
        let key = receipt.key();
        if surplus > 0 {
            self.trader.ledger.refunded(receipt.policy(), key, surplus);
        }
        let trader = Arc::clone(&self.trader);
        self.with_share(receipt, |receipt, policy| {
            let share = receipt.policy().clone();
            self.trader.local.settle(receipt, cost).map(move |answer| {
                let Settlement { decision, uncharged, receipt } = answer?;
                let units = missing.saturating_sub(uncharged);
                let newest = receipt.as_ref().and_then(|receipt| receipt.runs().last());
                if let Some(run) = newest.filter(|_| units > 0) {
                    trader.record_decision(&policy, &share, key, units, &decision, run.position);
                }
                let receipt = receipt.map(|receipt| receipt.with_policy(&policy));
                let (limit, remaining) = trader.elsewhere(&policy, key);
                Ok(Settlement { decision: decision.with_more(limit, remaining), uncharged, receipt })
            })
        })
    }

    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        let with_share = |renewal: Renewal| {
            let share = self.share_of(renewal.policy())?;
            Ok(renewal.with_policy(&share))
        };
        match renewals.into_iter().map(with_share).collect() {
            Ok(renewals) => self.trader.local.renew(renewals),
            Err(error) => StoreFuture::ready(Err(error)),
        }
    }

    /// Removes the state in the region and at home. What other regions have charged stays. Fails if one of the two does not answer; the
    /// region is reset first.
    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        let local = self.trader.local.reset(policy, key);
        let (trader, policy) = (Arc::clone(&self.trader), policy.clone());
        StoreFuture::boxed(async move {
            local.await?;
            trader.ledger.reset(&policy, key);
            match trader.shares.home(&policy) {
                Some(home) => trader.home.reset(&home, key).await,
                None => Ok(()),
            }
        })
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        if let Some((smallest, _)) = policy.quota_range()
            && let Ok(smallest) = policy.with_quota(smallest)
        {
            self.share_of(&smallest)?;
        }
        self.trader.local.register(&self.share_of(policy)?)?;
        match self.trader.shares.home(policy) {
            Some(home) => self.trader.home.register(&home),
            None => Ok(()),
        }
    }

    /// Ends a grant. Another quota cannot be granted, because it would be that of each region.
    fn set_grant(&self, policy: &Policy, key: Key, grant: Option<(Quota, Duration)>) -> StoreFuture<()> {
        if grant.is_none() {
            return self.trader.local.set_grant(policy, key, None);
        }
        let message = format!("policy {}: a grant is not divided among regions", policy.name());
        StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Unsupported, message)))
    }

    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        self.trader.local.block(policy, key, length)
    }

    fn unblock(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.trader.local.unblock(policy, key)
    }

    fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        self.trader.local.record_denials(policy, key, denials, lock_out)
    }

    fn overrides(&self, policy: &Policy, key: Key) -> StoreFuture<Override> {
        self.trader.local.overrides(policy, key)
    }

    fn blocked_clients(
        &self,
        change: Option<ClientChange>,
    ) -> StoreFuture<Option<(Timestamp, BlockedClients)>> {
        self.trader.local.blocked_clients(change)
    }

    fn exchange_record(&self, exchange: RecordExchange) -> StoreFuture<Option<ExchangedRecord>> {
        self.trader.local.exchange_record(exchange)
    }

    /// The figures of the region's store, and of the purchases of this process.
    fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        self.trader.local.figures(visit);
        self.trader.figures.visit(self.pending() as u64, self.trader.ledger.keys(), visit);
    }

    /// Observes the calls to the region's store. Those to home are in the [figures](Store::figures).
    fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
        self.trader.local.observe_calls(observer);
    }

    /// Waits until the purchases on their way have ended, each of which has its [deadline](crate::RegionalStoreBuilder::deadline), and
    /// drains the stores of the region and of home. Meanwhile nothing is bought. A purchase that is cut off stays charged at home,
    /// without a credit.
    fn drain(&self) -> StoreFuture<()> {
        let trader = Arc::clone(&self.trader);
        StoreFuture::boxed(async move {
            // The permits are returned at once, so that the store goes on.
            drop(trader.slots.acquire_many(Trader::MAX_PENDING).await);
            let region = trader.local.drain().await;
            trader.home.drain().await.and(region)
        })
    }
}

impl fmt::Debug for RegionalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegionalStore")
            .field("region", &self.trader.region)
            .field("shares", &self.trader.shares)
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
