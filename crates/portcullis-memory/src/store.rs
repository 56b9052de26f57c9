//! The store itself.

use portcullis_core::{
    Check, CheckResult, Checks, Clock, Decision, Evaluation, Key, Outcome, Policy, Receipt, Refund, Run,
    Settlement, State, Store, StoreError, StoreFuture, Timestamp,
};
use smallvec::SmallVec;

use crate::policies::Policies;
use crate::shards::{Locked, Place, Shards, Target};
use crate::{MemoryPolicyStats, MemoryStats, MemoryStoreBuilder, SystemClock};

/// Keeps state in this process.
///
/// Its answers are always ready: no future of it has to be awaited. Share one store between layers by an `Arc`.
#[derive(Debug)]
pub struct MemoryStore<C = SystemClock> {
    policies: Policies,
    clock: C,
    swept_per_check: usize,
}

impl MemoryStore {
    /// A store for 250 000 keys of each of up to 64 policies, on the system's clock.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A store that differs from the default.
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

    /// How full the store is, and how many checks found no room.
    ///
    /// Locks the shards one after another.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats::of(self.policies.iter())
    }

    /// How full the store is for each of its policies, in no order.
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
        let mut evaluations: SmallVec<[Ruled; 2]> = SmallVec::new();
        for (Check { policy, cost, .. }, target) in checks.iter().zip(&targets) {
            let place = locked.place(target, policy.strategy(), now, self.swept_per_check);
            // Two keys that find no room may be charged to one state, one after the other.
            let earlier =
                evaluations.iter().rfind(|earlier| earlier.place == place).map_or(0, |earlier| earlier.up_to);
            let up_to = earlier.saturating_add(*cost);
            let asked = if *cost == 0 { 0 } else { up_to };
            let evaluation = policy.strategy().evaluate(locked.get(place), now, asked);
            evaluations.push(Ruled { place, evaluation, up_to });
        }
        let charge = evaluations.iter().all(|ruled| ruled.evaluation.admitted);
        let standings: SmallVec<[CheckResult; 2]> = checks
            .iter()
            .zip(&evaluations)
            .map(|(Check { policy, cost, .. }, &Ruled { place, evaluation, up_to })| {
                let strategy = policy.strategy();
                let units = if charge { *cost } else { 0 };
                locked.change(place, strategy, now, units, |state| {
                    strategy.conclude(state, now, *cost, evaluation, charge)
                });
                // What does not fit is the sum.
                let asked = if evaluation.admitted { *cost } else { up_to };
                CheckResult::of(strategy, locked.get(place), now, asked, evaluation.admitted)
            })
            .collect();
        drop(locked);
        for (target, _) in targets.iter().zip(&evaluations).filter(|(_, ruled)| ruled.place.is_overflow()) {
            target.shards.count_overflow(now);
        }
        Ok(Outcome::new(checks, now, standings).expect("there is one standing per check"))
    }

    /// Changes one state, which may be charged `units`, and peeks.
    fn change(
        &self,
        policy: &Policy,
        key: Key,
        units: u32,
        change: impl FnOnce(&mut Option<State>, Timestamp, Place) -> bool,
    ) -> Result<Decision, StoreError> {
        let (target, strategy) = (self.policies.find_or_register(policy)?.target(key), policy.strategy());
        let mut locked = Locked::new(&[target]);
        let now = self.clock.now();
        let place = locked.place(&target, strategy, now, self.swept_per_check);
        locked.change(place, strategy, now, units, |state| change(state, now, place));
        let snapshot = strategy.snapshot(locked.get(place), now, 0, true);
        drop(locked);
        if place.is_overflow() {
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
        StoreFuture::ready(self.change(receipt.policy(), receipt.key(), 0, |state, now, place| {
            refund(&receipt, 0, state, now, place)
        }))
    }

    fn settle(&self, receipt: Receipt, cost: u32) -> StoreFuture<Settlement> {
        let strategy = receipt.policy().strategy();
        let missing = receipt.missing(cost);
        let (mut uncharged, mut run) = (0, None);
        let decision = self.change(receipt.policy(), receipt.key(), missing, |state, now, place| {
            if missing == 0 {
                return refund(&receipt, cost, state, now, place);
            }
            // One caller's debt would be the debt of all that share the state.
            let most = if place.is_overflow() {
                strategy.snapshot(state.as_ref(), now, 0, true).remaining
            } else {
                u32::MAX
            };
            let forced = strategy.force_charge(state, now, missing.min(most));
            uncharged = forced.uncharged + missing.saturating_sub(most);
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

/// Gives units back to the key that was charged. To an overflow state, which others are charged to, nothing is given
/// back: the charge may have been made to a state of the key's own that has expired since.
fn refund(receipt: &Receipt, cost: u32, state: &mut Option<State>, now: Timestamp, place: Place) -> bool {
    let refund = if place.is_overflow() { Refund::of(&[]) } else { receipt.refund_to(cost) };
    receipt.policy().strategy().refund(state, now, refund)
}

/// What was found about one check.
#[derive(Clone, Copy, Debug)]
struct Ruled {
    place: Place,
    evaluation: Evaluation,
    /// The units of this check and of those before it that go to the same place.
    up_to: u32,
}
