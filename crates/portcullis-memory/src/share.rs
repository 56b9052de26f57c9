//! Divides all limits among the instances of a service that share no store.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::overrides::{Block, LockOut, Override};
use portcullis_core::store::{
    CallObserver, Check, Checks, Figure, Outcome, ReadyCheck, Renewal, Renewed, Store, StoreFuture,
};
use portcullis_core::{
    Clock, Decision, FailureModeError, Key, Policy, Quota, Receipt, Settlement, StoreError, StoreErrorKind,
};

use crate::clock::SystemClock;
use crate::store::MemoryStore;

/// A store in memory for one of several instances that share no store: each policy is decided under
/// [its share](Policy::share_among) of the limit.
///
/// The number of instances is in one place, and policies keep the whole limit: with a store that the instances share in place of
/// this one, nothing else changes. Decisions have the figures of the share; outcomes and receipts have the policy as it was
/// given. A cost above the share can never fit.
///
/// Blocks and lock-outs are those of one instance: each counts its own denials. A grant is an error.
///
/// Together the instances stay within the bound of [`Policy::share`]. A client whose requests are not spread evenly over them is
/// denied earlier: one that reaches a single instance has the share of that instance alone. With more instances than this
/// number, proportionally more is admitted.
///
/// ```
/// use portcullis::store::{Checks, InstanceShare, MemoryStore, Store};
/// use portcullis::{Policy, Quota, Secret};
///
/// let store = InstanceShare::new(MemoryStore::new(), 4);
/// let mut hasher = Secret::published().hasher();
/// hasher.writer().part("user", b"ada");
/// let key = hasher.finish()?;
///
/// let daily = Policy::sliding_log("daily", Quota::per_day(8));
/// let ask = || store.check(Checks::one(daily.clone(), key, 1)).into_ready().expect("memory answers at once");
/// let decisions = [ask()?.into_decision(), ask()?.into_decision(), ask()?.into_decision()];
/// assert_eq!(decisions.each_ref().map(|decision| decision.is_allowed()), [true, true, false]);
/// assert_eq!(decisions[0].limit(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct InstanceShare<C = SystemClock> {
    store: MemoryStore<C>,
    instances: NonZeroU32,
}

impl<C: Clock> InstanceShare<C> {
    /// Divides all limits in `store` by this number of instances. With 1, each has the whole limit. A number from configuration is parsed to
    /// a [`NonZeroU32`] first.
    ///
    /// # Panics
    ///
    /// If `instances` is zero.
    #[track_caller]
    pub fn new(store: MemoryStore<C>, instances: u32) -> Self {
        match NonZeroU32::new(instances) {
            Some(instances) => Self { store, instances },
            None => panic!("{}", FailureModeError::NoInstances),
        }
    }

    /// The store, which has the state of the shares.
    pub fn get_ref(&self) -> &MemoryStore<C> {
        &self.store
    }

    fn share_of(&self, policy: &Policy) -> Result<Policy, StoreError> {
        policy.share_among(self.instances).map_err(|error| {
            let error = FailureModeError::Share { instances: self.instances, error };
            StoreError::new(StoreErrorKind::Unsupported, format!("policy {}: {error}", policy.name()))
        })
    }

    fn shares_of(&self, checks: &Checks) -> Result<Checks, StoreError> {
        let mut shares = None::<Checks>;
        for Check { policy, key, cost } in checks {
            let share = self.share_of(policy)?;
            shares = Some(match shares {
                None => Checks::one(share, *key, *cost),
                Some(shares) => {
                    shares.and(share, *key, *cost).expect("shares of one decision fit into one decision")
                }
            });
        }
        Ok(shares.expect("checks are never empty"))
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

impl<C: Clock> Store for InstanceShare<C> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        let shares = match self.shares_of(&checks) {
            Ok(shares) => shares,
            Err(error) => return StoreFuture::ready(Err(error)),
        };
        self.store.check(shares).map(|answer| {
            let outcome = answer?;
            let at = outcome.decision().at();
            Ok(Outcome::new(checks, at, outcome.results()).expect("there is one result per check"))
        })
    }

    fn check_now(&self, policy: &Policy, key: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        match self.share_of(policy) {
            Ok(share) => self.store.check_now(&share, key, cost),
            Err(error) => Some(Err(error)),
        }
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.with_share(receipt, |receipt, _| self.store.refund(receipt))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.with_share(receipt, |receipt, policy| {
            self.store.settle(receipt, cost).map(move |answer| {
                answer.map(|Settlement { decision, uncharged, receipt }| Settlement {
                    decision,
                    uncharged,
                    receipt: receipt.map(|receipt| receipt.with_policy(&policy)),
                })
            })
        })
    }

    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        let with_share = |renewal: Renewal| {
            let share = self.share_of(renewal.policy())?;
            Ok(renewal.with_policy(&share))
        };
        match renewals.into_iter().map(with_share).collect() {
            Ok(renewals) => self.store.renew(renewals),
            Err(error) => StoreFuture::ready(Err(error)),
        }
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.store.reset(policy, key)
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.store.register(&self.share_of(policy)?)
    }

    /// Ends a grant. Another quota cannot be granted, because it would be that of each instance.
    fn set_grant(&self, policy: &Policy, key: Key, grant: Option<(Quota, Duration)>) -> StoreFuture<()> {
        if grant.is_none() {
            return self.store.set_grant(policy, key, None);
        }
        let message = format!(
            "policy {}: a grant is not divided among {} instances: use a store that they share",
            policy.name(),
            self.instances
        );
        StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Unsupported, message)))
    }

    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        self.store.block(policy, key, length)
    }

    fn unblock(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.store.unblock(policy, key)
    }

    fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        self.store.record_denials(policy, key, denials, lock_out)
    }

    fn overrides(&self, policy: &Policy, key: Key) -> StoreFuture<Override> {
        self.store.overrides(policy, key)
    }

    fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        self.store.figures(visit);
    }

    fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
        self.store.observe_calls(observer);
    }

    fn drain(&self) -> StoreFuture<()> {
        self.store.drain()
    }
}

#[cfg(test)]
mod tests;
