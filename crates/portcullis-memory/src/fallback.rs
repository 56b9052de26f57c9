//! What decides while another store cannot answer.

mod outage;

use std::num::NonZeroU64;
use std::sync::Arc;

use portcullis_core::{
    Check, Checks, Clock, Decision, FailureMode, Key, Outcome, Policy, Receipt, Settlement, Standby, Store,
    StoreError, StoreFuture,
};

use self::outage::Outage;
use crate::{MemoryStats, MemoryStore, MemoryStoreBuilder, SystemClock};

/// A store behind which another one, in memory, answers when it fails, as each [policy says](FailureMode).
///
/// As long as the store answers, its answer is passed on as it is. **A denial is an answer**: what stands behind is asked
/// on errors only, so that nobody gets a second budget. When a check fails,
///
/// - the error is passed on if it [says](portcullis_core::StoreErrorKind::is_overload) that too much is asked: that is no
///   outage, and a request that found no room must not find a second budget here;
/// - the error is passed on if a policy that was asked is [`Closed`](FailureMode::Closed), if all of them are
///   [`Open`](FailureMode::Open), if the outage has lasted longer than one is [`OpenFor`](FailureMode::OpenFor), or if a
///   cost exceeds a local share but not the policy;
/// - else the [`Local`](FailureMode::Local) ones, which policies are by default, decide under their
///   [shares](Policy::share): all of them are charged, or none. The others let through. All decisions are
///   [degraded](Decision::is_degraded), and [`Outcome::failure`] is the error.
///
/// The memory starts empty and is bounded. What it has charged is not told to the store when the store is back; until it
/// expires it counts again in the next outage. An error that leaves open whether the store has charged, such as a
/// deadline, is a failure like the others: that request may be charged in both places.
///
/// Receipts say [which of the two](Receipt::stand_in) was charged, and go back there: what was charged in memory is
/// refunded and settled in memory, also when the store has come back. A reset is of both.
///
/// A store that [takes a standby](Store::check_with), as `RedisStore` does, costs no allocation more behind it than without it.
/// At any other store, a check whose answer has to be awaited costs one allocation if one of its policies is `Local` or
/// `OpenFor`, or another check's was `OpenFor` before, and one more if it has more than two policies.
///
/// ```
/// use portcullis_core::{
///     Checks, Decision, Key, Outcome, Policy, Quota, Receipt, Secret, Settlement, Store, StoreError, StoreErrorKind,
///     FailureMode, StoreFuture,
/// };
/// use portcullis_memory::Fallback;
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
///     # fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
///     #     down()
///     # }
///     # fn settle(&self, _: Receipt, _: u32) -> StoreFuture<Settlement> {
///     #     down()
///     # }
///     # fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
///     #     down()
///     # }
///     // and so on
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
    behind: Arc<Behind<C>>,
}

/// Builds a [`Fallback`].
#[derive(Clone, Debug)]
#[must_use]
pub struct FallbackBuilder<S, C = SystemClock> {
    store: S,
    memory: MemoryStoreBuilder<C>,
}

/// What stands behind the store.
#[derive(Debug)]
struct Behind<C> {
    memory: MemoryStore<Arc<C>>,
    clock: Arc<C>,
    outage: Outage,
    id: NonZeroU64,
}

impl<S: Store> Fallback<S> {
    /// Puts room for 100 000 keys of each policy behind `store`.
    pub fn new(store: S) -> Self {
        Self::builder(store).build()
    }

    /// What stands behind `store`, different from the default.
    pub fn builder(store: S) -> FallbackBuilder<S> {
        FallbackBuilder { store, memory: MemoryStore::builder().capacity(100_000) }
    }
}

impl<S: Store, C: Clock> FallbackBuilder<S, C> {
    /// The most states of each `Local` policy to hold in memory, one per key, 100 000 by default. Keys that find no room share
    /// 4 096 states of their policy. See [`MemoryStoreBuilder::capacity`].
    pub fn capacity(self, keys: usize) -> Self {
        Self { memory: self.memory.capacity(keys), ..self }
    }

    /// The most bytes that the states of each `Local` policy take, 256 for each key of the [capacity](Self::capacity) by
    /// default, and at least 8 MiB. See [`MemoryStoreBuilder::bytes`].
    pub fn bytes(self, bytes: usize) -> Self {
        Self { memory: self.memory.bytes(bytes), ..self }
    }

    /// The most states of all policies together, 16 000 000 by default: room for 160 `Local` policies. One more is an error
    /// when it is registered. See [`MemoryStoreBuilder::total_capacity`].
    pub fn total_capacity(self, keys: usize) -> Self {
        Self { memory: self.memory.total_capacity(keys), ..self }
    }

    /// The most bytes that the states of all policies take together, 4 GiB by default. See
    /// [`MemoryStoreBuilder::total_bytes`].
    pub fn total_bytes(self, bytes: usize) -> Self {
        Self { memory: self.memory.total_bytes(bytes), ..self }
    }

    /// Another source of time, for the memory and for how long an outage has lasted. It should not step.
    pub fn clock<D: Clock>(self, clock: D) -> FallbackBuilder<S, D> {
        FallbackBuilder { store: self.store, memory: self.memory.clock(clock) }
    }

    /// The store with the other one behind it.
    pub fn build(self) -> Fallback<S, C> {
        let (memory, clock) = self.memory.share_clock();
        let memory = memory.build();
        let behind = Behind { memory, clock, outage: Outage::default(), id: outage::fresh_id() };
        Fallback { store: self.store, behind: Arc::new(behind) }
    }
}

impl<S: Store, C: Clock> Fallback<S, C> {
    /// The store in front.
    pub fn get_ref(&self) -> &S {
        &self.store
    }

    /// How full the memory behind it is.
    pub fn stats(&self) -> MemoryStats {
        self.behind.memory.stats()
    }
}

impl<S: Store, C: Clock> Store for Fallback<S, C> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        let plan = Plan::of(&checks);
        if plan.times_outages {
            self.behind.outage.watch();
        }
        if !plan.falls_back && !self.behind.outage.is_watched() {
            return self.store.check(checks);
        }
        self.store.check_with(checks, Arc::<Behind<C>>::clone(&self.behind))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        if receipt.stand_in() != Some(self.behind.id) {
            return self.store.refund(receipt);
        }
        self.behind.with_share(receipt, |memory, receipt| memory.refund(receipt).map(as_fallback))
    }

    fn settle(&self, receipt: Receipt, cost: u32) -> StoreFuture<Settlement> {
        if receipt.stand_in() != Some(self.behind.id) {
            return self.store.settle(receipt, cost);
        }
        let policy = receipt.policy().clone();
        self.behind.with_share(receipt, |memory, receipt| {
            memory.settle(receipt, cost).map(move |answer| {
                answer.map(|Settlement { decision, uncharged, receipt }| Settlement {
                    decision: decision.as_fallback(),
                    uncharged,
                    receipt: receipt.map(|receipt| receipt.with_policy(&policy)),
                })
            })
        })
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        // A memory answers at once, and never fails to forget.
        drop(self.behind.memory.reset(policy, key));
        self.store.reset(policy, key)
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.store.register(policy)?;
        // What is charged in memory is the share of an instance.
        let Some(share) = policy.share() else { return Ok(()) };
        let named = |error: StoreError| StoreError::new(error.kind(), format!("behind the store: {error}"));
        self.behind.memory.register(&share).map_err(named)
    }
}

impl<C: Clock> Standby for Behind<C> {
    fn note(&self, answer: &Outcome) {
        self.outage.is_over(answer);
    }

    fn decide(&self, checks: Checks, failure: StoreError) -> Result<Outcome, StoreError> {
        if failure.kind().is_overload() {
            return Err(failure);
        }
        // What an error says of an outage is of the part that was asked, but each denial begins it anew at a store that only
        // refuses to charge.
        let counted = self.outage.lasts(failure.kind(), || self.clock.now());
        let failure = match (failure.outage(), counted) {
            (None, Some(outage)) => failure.lasting(outage),
            (Some(told), Some(outage)) if outage > told && outage::is_refusal(failure.kind()) => {
                failure.lasting(outage)
            }
            _ => failure,
        };
        if Plan::of(&checks).falls_back { self.stand_in(checks, failure) } else { Err(failure) }
    }

    fn refund(&self, receipt: Receipt) {
        // A memory answers at once. Where it has no room for the key any more, the charge stays until it expires.
        drop(self.with_share(receipt, Store::refund));
    }
}

impl<C: Clock> Behind<C> {
    fn stand_in(&self, asked: Checks, error: StoreError) -> Result<Outcome, StoreError> {
        let mut shares = None::<Checks>;
        for Check { policy, key, cost } in &asked {
            match policy.failure_mode() {
                failure if failure.is_open_after(error.outage().unwrap_or_default()) => {}
                FailureMode::Local { .. } => {
                    let Some(share) = policy.share().filter(|share| fits(*cost, policy, share)) else {
                        return Err(error);
                    };
                    shares = Some(match shares {
                        None => Checks::one(share, *key, *cost),
                        Some(shares) => shares.and(share, *key, *cost).expect("they went together before"),
                    });
                }
                // It may be closed by a kind of answer that is not made yet.
                _ => return Err(error),
            }
        }
        let counted = match shares {
            None => None,
            Some(shares) => match self.memory.check(shares).into_ready() {
                Ok(Ok(outcome)) => Some(outcome),
                // The memory has no room for so many policies.
                _ => return Err(error),
            },
        };
        Ok(Outcome::from_fallback(asked, counted.as_ref(), self.clock.now(), error, self.id))
    }

    /// Brings a receipt of the memory under the share that was charged.
    fn with_share<T>(
        &self,
        receipt: Receipt,
        correct: impl FnOnce(&MemoryStore<Arc<C>>, Receipt) -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        // If the policy is not local any more, its quota is what the rest of the charge would count under.
        let share = receipt.policy().share().unwrap_or_else(|| receipt.policy().clone());
        correct(&self.memory, receipt.with_policy(&share))
    }
}

/// What is to be done if a check fails.
#[derive(Clone, Copy)]
struct Plan {
    /// Whether it may be more than to pass the error on.
    falls_back: bool,
    /// Whether it depends on how long the store has failed.
    times_outages: bool,
}

impl Plan {
    fn of(checks: &Checks) -> Self {
        let mut plan = Self { falls_back: false, times_outages: false };
        for check in checks {
            match check.policy.failure_mode() {
                FailureMode::Local { .. } => plan.falls_back = true,
                FailureMode::OpenFor(_) => plan = Self { falls_back: true, times_outages: true },
                _ => {}
            }
        }
        plan
    }
}

/// Whether a share can rule on a cost: it cannot say of what fits the policy that it never will.
fn fits(cost: u32, policy: &Policy, share: &Policy) -> bool {
    cost <= share.strategy().limit() || cost > policy.strategy().limit()
}

fn as_fallback(answer: Result<Decision, StoreError>) -> Result<Decision, StoreError> {
    answer.map(Decision::as_fallback)
}
