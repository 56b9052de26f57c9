//! The store.

use portcullis_core::{
    Check, CheckResult, Checks, Clock, Decision, Evaluation, Key, Outcome, Policy, Receipt, Refund, Run,
    Settlement, State, Store, StoreError, StoreFuture, Timestamp,
};
use smallvec::SmallVec;

use crate::policies::Policies;
use crate::shards::{Locked, Shards, StateLocation, Target};
use crate::{MemoryPolicyStats, MemoryStats, MemoryStoreBuilder, SystemClock};

/// A store that keeps its state in this process.
///
/// Its answers are always ready: none of its futures has to be awaited. Share one store between layers through an `Arc`.
#[derive(Debug)]
pub struct MemoryStore<C = SystemClock> {
    policies: Policies,
    clock: C,
    swept_per_check: usize,
}

impl MemoryStore {
    /// Creates a store for 250 000 keys of each of up to 64 policies, on the system's clock.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Starts a store that differs from the default.
    ///
    /// ```
    /// use portcullis_memory::MemoryStore;
    ///
    /// let store = MemoryStore::builder().capacity(10_000).build();
    /// assert_eq!(store.stats().entries, 0);
    /// ```
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::new()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Clock> MemoryStore<C> {
    pub(crate) fn new_with(policies: Policies, clock: C, swept_per_check: usize) -> Self {
        Self { policies, clock, swept_per_check }
    }

    /// Returns how full the store is, and how many checks used an overflow state.
    ///
    /// Locks the shards one after another.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats::of(self.policies.iter())
    }

    /// Returns how full the store is for each of its policies, in no particular order.
    ///
    /// ```
    /// use portcullis_core::{Policy, Quota, Store};
    /// use portcullis_memory::MemoryStore;
    ///
    /// let store = MemoryStore::new();
    /// store.register(&Policy::gcra("login", Quota::per_minute(5)))?;
    /// let stats = store.policy_stats();
    /// assert_eq!((stats[0].policy.as_str(), stats[0].entries), ("login", 0));
    /// # Ok::<(), portcullis_core::StoreError>(())
    /// ```
    ///
    /// Locks the shards one after another.
    pub fn policy_stats(&self) -> Vec<MemoryPolicyStats> {
        self.policies.iter().map(Shards::stats).collect()
    }

    fn decide(&self, checks: Checks) -> Result<Outcome, StoreError> {
        let mut targets: SmallVec<[Target<'_>; 2]> = SmallVec::new();
        for check in &checks {
            targets.push(self.policies.find_or_register(&check.policy)?.target(check.key));
        }
        let mut locked = Locked::new(&targets);
        let now = self.clock.now();
        let mut evaluations: SmallVec<[Evaluated; 2]> = SmallVec::new();
        for (Check { policy, cost, .. }, target) in checks.iter().zip(&targets) {
            let location = locked.locate(target, policy.strategy(), now, self.swept_per_check);
            // Two keys that do not fit may share one overflow state: their costs add up.
            let earlier = evaluations
                .iter()
                .rfind(|earlier| earlier.location == location)
                .map_or(0, |earlier| earlier.up_to);
            let up_to = earlier.saturating_add(*cost);
            let sum = if *cost == 0 { 0 } else { up_to };
            let evaluation = policy.strategy().evaluate(locked.get(location), now, sum);
            evaluations.push(Evaluated { location, evaluation, up_to });
        }
        let charge = evaluations.iter().all(|evaluated| evaluated.evaluation.admitted);
        let results: SmallVec<[CheckResult; 2]> = checks
            .iter()
            .zip(&evaluations)
            .map(|(Check { policy, cost, .. }, &Evaluated { location, evaluation, up_to })| {
                let strategy = policy.strategy();
                let units = if charge { *cost } else { 0 };
                locked.change(location, strategy, now, units, |state| {
                    strategy.conclude(state, now, *cost, evaluation, charge)
                });
                // It is the sum of the costs that does not fit.
                let asked = if evaluation.admitted { *cost } else { up_to };
                CheckResult::of(strategy, locked.get(location), now, asked, evaluation.admitted)
            })
            .collect();
        drop(locked);
        for (target, evaluated) in targets.iter().zip(&evaluations) {
            if evaluated.location.is_overflow() {
                target.shards.count_overflow(now);
            }
        }
        Ok(Outcome::new(checks, now, results).expect("there is one result per check"))
    }

    /// Changes one state, which may be charged up to `units`, and peeks.
    fn change(
        &self,
        policy: &Policy,
        key: Key,
        units: u32,
        change: impl FnOnce(&mut Option<State>, Timestamp, StateLocation) -> bool,
    ) -> Result<Decision, StoreError> {
        let (target, strategy) = (self.policies.find_or_register(policy)?.target(key), policy.strategy());
        let mut locked = Locked::new(&[target]);
        let now = self.clock.now();
        let location = locked.locate(&target, strategy, now, self.swept_per_check);
        locked.change(location, strategy, now, units, |state| change(state, now, location));
        let snapshot = strategy.snapshot(locked.get(location), now, 0, true);
        drop(locked);
        if location.is_overflow() {
            target.shards.count_overflow(now);
        }
        Ok(Decision::new(policy, now, snapshot))
    }
}

impl<C: Clock> Store for MemoryStore<C> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        StoreFuture::ready(self.decide(checks))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        StoreFuture::ready(self.change(receipt.policy(), receipt.key(), 0, |state, now, location| {
            refund(&receipt, 0, state, now, location)
        }))
    }

    fn settle(&self, receipt: Receipt, cost: u32) -> StoreFuture<Settlement> {
        let strategy = receipt.policy().strategy();
        let missing = receipt.missing(cost);
        let (mut uncharged, mut run) = (0, None);
        let decision = self.change(receipt.policy(), receipt.key(), missing, |state, now, location| {
            if missing == 0 {
                return refund(&receipt, cost, state, now, location);
            }
            // A debt would apply to all keys that share the state.
            let max = if location.is_overflow() {
                strategy.snapshot(state.as_ref(), now, 0, true).remaining
            } else {
                u32::MAX
            };
            let forced = strategy.force_charge(state, now, missing.min(max));
            uncharged = forced.uncharged + missing.saturating_sub(max);
            run = Some(Run { units: forced.charged, position: strategy.position(state.as_ref(), now) });
            forced.changed
        });
        StoreFuture::ready(decision.map(|decision| {
            let receipt = Some(receipt.settled(cost, run, decision.at()));
            Settlement { decision, uncharged, receipt }
        }))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        if let Some(shards) = self.policies.find(policy) {
            let target = shards.target(key);
            Locked::new(&[target]).remove(&target);
        }
        StoreFuture::ready(Ok(()))
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.policies.find_or_register(policy).map(|_| ())
    }
}

/// Refunds units to the key that was charged. An overflow state, which is shared with other keys, gets no refund: the charge
/// may have been made to the key's own state, which has expired since.
fn refund(
    receipt: &Receipt,
    cost: u32,
    state: &mut Option<State>,
    now: Timestamp,
    location: StateLocation,
) -> bool {
    let refund = if location.is_overflow() { Refund::of(&[]) } else { receipt.refund_to(cost) };
    receipt.policy().strategy().refund(state, now, refund)
}

/// The evaluation of one check.
#[derive(Clone, Copy, Debug)]
struct Evaluated {
    location: StateLocation,
    evaluation: Evaluation,
    /// The units of this check and of earlier checks on the same state.
    up_to: u32,
}
