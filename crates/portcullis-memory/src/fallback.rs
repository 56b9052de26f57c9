//! Decides in memory while another store fails.

mod builder;
mod figures;
mod known;
mod outage;
mod overriding;
mod plan;

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use portcullis_core::overrides::{Block, BlockedClients, ClientChange, LockOut, Override};
use portcullis_core::store::{
    CallObserver, Check, Checks, ExchangedRecord, Figure, Outcome, RecordExchange, Renewal, Renewed, Standby,
    Store, StoreFuture,
};
use portcullis_core::{
    Clock, Decision, FailureMode, Key, Policy, Quota, Receipt, Settlement, StoreError, Timestamp,
};

pub use self::builder::FallbackBuilder;
use self::figures::Activity;
use self::known::KnownOverrides;
use self::outage::Outage;
use self::overriding::Overridden;
use self::plan::Plan;
use crate::clock::SystemClock;
use crate::figures::stats::MemoryStats;
use crate::store::MemoryStore;

/// A store with a second one, in memory, that decides while the first one fails, according to each policy's
/// [failure mode](FailureMode).
///
/// As long as the store answers, its answer is returned unchanged. **A denial is an answer**: the memory is only used after
/// an error, so that no client gets a second budget. When a check fails,
///
/// - the error is returned if it is an [overload](portcullis_core::StoreErrorKind::is_overload): that is not an outage, and a
///   request that was not sent must not be charged to a second budget here;
/// - the error is returned if one of the check's policies is [`Closed`](FailureMode::Closed), if all of them are
///   [`Open`](FailureMode::Open), if the outage has lasted longer than one is [`OpenFor`](FailureMode::OpenFor), or if a
///   cost exceeds a local share but not the policy;
/// - otherwise the [`Local`](FailureMode::Local) policies, which is the default mode, decide under their
///   [shares](Policy::share): all of them are charged, or none. The others admit. All decisions are
///   [degraded](Decision::is_degraded), and [`Outcome::failure`] is the error.
///
/// The memory starts empty and is bounded. Its charges are not sent to the store after the outage; until they expire they
/// count again in the next outage. An error that leaves open whether the store has charged, such as a missed deadline, is
/// handled like any other: that request may be charged in both places.
///
/// The fallback remembers the [overrides](portcullis_core::overrides::Override) of up to about 10 000 [keys](FallbackBuilder::override_capacity)
/// that answers of the store have shown or that were set through it. In an outage, a known block lasts to its end, also under a policy
/// that is [`Open`](FailureMode::Open), and a known grant applies to its end, in the share that the policy has of it. Keys of which
/// no override is known have the policy's quota. Changes of overrides fail in an outage.
///
/// Receipts record [which of the two](Receipt::fallback_id) was charged. What was charged in memory is refunded and settled in
/// memory, even after the store has recovered. A reset applies to both.
///
/// With a store that [takes a standby](Store::check_with), as `RedisStore` does, a `Fallback` allocates nothing in addition.
/// With any other store, a check whose answer has to be awaited costs one allocation if one of its policies is `Local` or
/// `OpenFor`, or if an earlier check had an `OpenFor` policy, and one more if it has more than two policies.
///
/// ```
/// use portcullis::key::Key;
/// use portcullis::store::{Checks, Fallback, Outcome, Store, StoreErrorKind, StoreFuture};
/// use portcullis::{Decision, FailureMode, Policy, Quota, Receipt, Secret, Settlement, StoreError};
///
/// struct Down;
///
/// fn down<T>() -> StoreFuture<T> {
///     StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Unavailable, "no connection")))
/// }
///
/// impl Store for Down {
///     fn check(&self, _: Checks) -> StoreFuture<Outcome> {
///         down()
///     }
///     fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
///         down()
///     }
///     fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
///         down()
///     }
///     fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
///         down()
///     }
/// }
///
/// let store = Fallback::new(Down);
/// let mut hasher = Secret::published().hasher();
/// hasher.writer().part("user", b"ada");
/// let key = hasher.finish()?;
///
/// let daily = Policy::fixed_window("daily", Quota::per_day(8)).on_store_failure(FailureMode::local(4));
/// let ask = || store.check(Checks::one(daily.clone(), key, 1)).into_ready().expect("both answer at once");
/// let decisions = [ask()?.into_decision(), ask()?.into_decision(), ask()?.into_decision()];
/// assert_eq!(decisions.each_ref().map(Decision::is_allowed), [true, true, false]);
/// assert!(decisions.iter().all(|decision| decision.is_degraded() && decision.limit() == 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Fallback<S, C = SystemClock> {
    store: S,
    standby: Arc<LocalStandby<C>>,
}

/// Decides in memory when the store fails.
#[derive(Debug)]
struct LocalStandby<C> {
    memory: MemoryStore<Arc<C>>,
    clock: Arc<C>,
    outage: Outage,
    known: KnownOverrides,
    activity: Activity,
    id: NonZeroU64,
}

impl<S: Store> Fallback<S> {
    /// Adds a memory for 100 000 keys of each policy to `store`.
    pub fn new(store: S) -> Self {
        Self::builder(store).build()
    }

    /// Starts a fallback for `store` that differs from the default.
    pub fn builder(store: S) -> FallbackBuilder<S> {
        FallbackBuilder::new(store)
    }
}

impl<S: Store, C: Clock> Fallback<S, C> {
    /// The wrapped store.
    pub fn get_ref(&self) -> &S {
        &self.store
    }

    /// How full the fallback's memory is.
    pub fn stats(&self) -> MemoryStats {
        self.standby.memory.stats()
    }
}

impl<S: Store, C: Clock> Store for Fallback<S, C> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        let plan = Plan::of(&checks);
        if plan.times_outages {
            self.standby.outage.enable();
        }
        if !plan.falls_back && !self.standby.outage.is_enabled() {
            return self.store.check(checks);
        }
        self.store.check_with(checks, Arc::<LocalStandby<C>>::clone(&self.standby))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        if receipt.fallback_id() != Some(self.standby.id) {
            return self.store.refund(receipt);
        }
        self.standby.with_share(receipt, |memory, receipt| {
            memory.refund(receipt).map(|answer| answer.map(Decision::as_fallback))
        })
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        if receipt.fallback_id() != Some(self.standby.id) {
            return self.store.settle(receipt, cost);
        }
        let policy = receipt.policy().clone();
        self.standby.with_share(receipt, |memory, receipt| {
            memory.settle(receipt, cost).map(move |answer| {
                answer.map(|Settlement { decision, uncharged, receipt }| Settlement {
                    decision: decision.as_fallback(),
                    uncharged,
                    receipt: receipt.map(|receipt| receipt.with_policy(&policy)),
                })
            })
        })
    }

    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        let is_local = |renewal: &Renewal| renewal.fallback_id() == Some(self.standby.id);
        if !renewals.iter().any(is_local) {
            return self.store.renew(renewals);
        }
        let order: Vec<bool> = renewals.iter().map(is_local).collect();
        let (local, stored): (Vec<_>, Vec<_>) = renewals.into_iter().partition(is_local);
        // Under the shares that were charged.
        let under_share = |renewal: Renewal| match renewal.policy().share() {
            Some(share) => renewal.with_policy(&share),
            None => renewal,
        };
        let local = self.standby.memory.renew(local.into_iter().map(under_share).collect());
        let local = match local.into_ready() {
            Ok(Ok(renewed)) => renewed,
            Ok(answer) => return StoreFuture::ready(answer),
            // A memory store answers at once.
            Err(pending) => return pending,
        };
        if stored.is_empty() {
            return StoreFuture::ready(Ok(local));
        }
        self.store.renew(stored).map(|answer| {
            let (mut local, mut stored) = (local.into_iter(), answer?.into_iter());
            let next = |is_local| if is_local { local.next() } else { stored.next() };
            Ok(order.into_iter().filter_map(next).collect())
        })
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        // A memory store answers at once, and its resets never fail.
        drop(self.standby.memory.reset(policy, key));
        self.store.reset(policy, key)
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.store.register(policy)?;
        // The memory charges this instance's share of the policy.
        let Some(share) = policy.share() else { return Ok(()) };
        let named =
            |error: StoreError| StoreError::new(error.kind(), format!("in the fallback's memory: {error}"));
        self.standby.memory.register(&share).map_err(named)
    }

    fn set_grant(&self, policy: &Policy, key: Key, grant: Option<(Quota, Duration)>) -> StoreFuture<()> {
        self.then_known(policy, key, self.store.set_grant(policy, key, grant), move |known, now, &()| {
            known.set_grant(now, grant);
        })
    }

    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        self.then_known(policy, key, self.store.block(policy, key, length), move |known, now, &()| {
            known.set_block(now, length);
        })
    }

    fn unblock(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.then_known(policy, key, self.store.unblock(policy, key), |known, _, &()| known.unblock())
    }

    fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        let answer = self.store.record_denials(policy, key, denials, lock_out);
        self.then_known(policy, key, answer, |known, now, block| {
            if let Some(block) = block {
                known.set_block(now, block.length());
            }
        })
    }

    fn overrides(&self, policy: &Policy, key: Key) -> StoreFuture<Override> {
        self.store.overrides(policy, key)
    }

    fn blocked_clients(
        &self,
        change: Option<ClientChange>,
    ) -> StoreFuture<Option<(Timestamp, BlockedClients)>> {
        self.store.blocked_clients(change)
    }

    fn exchange_record(&self, exchange: RecordExchange) -> StoreFuture<Option<ExchangedRecord>> {
        self.store.exchange_record(exchange)
    }

    fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        self.store.figures(visit);
        self.standby.visit_figures(visit);
    }

    fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
        self.store.observe_calls(observer);
    }

    fn drain(&self) -> StoreFuture<()> {
        self.store.drain()
    }
}

impl<C: Clock> Standby for LocalStandby<C> {
    fn record(&self, answer: &Outcome) {
        self.outage.record_answer(answer);
        self.activity.record_answer(answer);
        self.known.record(answer, &self.clock);
    }

    fn decide(&self, checks: Checks, failure: StoreError) -> Result<Outcome, StoreError> {
        if failure.kind().is_overload() {
            return Err(failure);
        }
        // What an error states restarts with each denial at a store that denies but cannot charge, so the longer one counts there.
        let outage = self.outage.record_failure(failure.kind(), || self.clock.now());
        let failure = match (failure.outage(), outage) {
            (None, Some(outage)) => failure.with_outage(outage),
            (Some(stated), Some(outage)) if outage > stated && outage::is_refusal(failure.kind()) => {
                failure.with_outage(outage)
            }
            _ => failure,
        };
        if Plan::of(&checks).falls_back { self.decide_locally(checks, failure) } else { Err(failure) }
    }

    fn refund(&self, receipt: Receipt) {
        // A memory store answers at once. If it no longer holds the key's own state, the charge stays until it expires.
        drop(self.with_share(receipt, Store::refund));
    }
}

impl<C: Clock> LocalStandby<C> {
    fn decide_locally(&self, checks: Checks, error: StoreError) -> Result<Outcome, StoreError> {
        let now = self.clock.now();
        let Overridden { checks, blocked, grants } = self.apply_known(checks, now);
        if let Some(blocked) = blocked {
            self.activity.record_decision(&checks);
            return Ok(Outcome::from_fallback(checks, Some(&blocked), now, error, self.id));
        }
        let mut shares = None::<Checks>;
        for Check { policy, key, cost } in &checks {
            match policy.failure_mode() {
                failure if failure.is_open_after(error.outage().unwrap_or_default()) => {}
                FailureMode::Local { .. } => {
                    let Some(share) = policy.share().filter(|share| fits(*cost, policy, share)) else {
                        return Err(error);
                    };
                    shares = Some(joined(shares, share, *key, *cost));
                }
                // `Closed`, and modes that may be added later.
                _ => return Err(error),
            }
        }
        let metered = match shares {
            None if checks.iter().all(|check| check.policy.failure_mode() == FailureMode::Open) => {
                return Err(error);
            }
            None => None,
            Some(shares) => match self.memory.check(shares).into_ready() {
                Ok(Ok(outcome)) => Some(outcome),
                // The memory cannot hold another policy.
                _ => return Err(error),
            },
        };
        self.activity.record_decision(&checks);
        let outcome = Outcome::from_fallback(checks, metered.as_ref(), now, error, self.id);
        Ok(grants.into_iter().fold(outcome, |outcome, (index, grant)| outcome.with_grant(index, grant)))
    }

    /// Calls `correct` with the receipt under the share that was charged.
    fn with_share<T>(
        &self,
        receipt: Receipt,
        correct: impl FnOnce(&MemoryStore<Arc<C>>, Receipt) -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        // If the policy is no longer local, the rest of the charge counts under the policy's own quota.
        let share = receipt.policy().share().unwrap_or_else(|| receipt.policy().clone());
        correct(&self.memory, receipt.with_policy(&share))
    }
}

/// Adds a check to others of the same decision, if there are any.
fn joined(checks: Option<Checks>, policy: Policy, key: Key, cost: u64) -> Checks {
    match checks {
        None => Checks::one(policy, key, cost),
        Some(checks) => checks.and(policy, key, cost).expect("a part of a decision is a decision"),
    }
}

/// Whether a share can decide on a cost: a share must not answer "never" for a cost that fits the policy.
fn fits(cost: u64, policy: &Policy, share: &Policy) -> bool {
    cost <= share.strategy().limit() || cost > policy.strategy().limit()
}
