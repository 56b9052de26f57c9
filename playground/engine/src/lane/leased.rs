//! Leases of one instance, by the protocol of core: what the Redis store does around its calls, without the calls in flight.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use portcullis_core::lease::{Answer, KeyLease, Sizing};
use portcullis_core::store::{Check, CheckResult, Checks, Outcome, Store, StoreFuture};
use portcullis_core::{
    Clock as _, Decision, Key, ManualClock, Policy, Receipt, Settlement, StoreError, Timestamp,
};

use crate::by_key::ByKey;

/// A store with leases in front of it.
pub(super) struct Leased<S> {
    store: S,
    clock: Arc<ManualClock>,
    leases: Mutex<ByKey<u128, Entry>>,
}

struct Entry {
    policy: Policy,
    key: Key,
    lease: KeyLease,
    sizing: Sizing,
}

impl<S: Store> Leased<S> {
    pub(super) fn new(store: S, clock: Arc<ManualClock>) -> Self {
        Self { store, clock, leases: Mutex::new(ByKey::new()) }
    }

    /// Returns what is left of leases that have ended.
    pub(super) fn return_expired(&self) {
        let now = self.now();
        for entry in self.leases.lock().unwrap_or_else(PoisonError::into_inner).values_mut() {
            if let Some(rest) = entry.lease.take_expired(now) {
                let units = rest.units();
                drop(self.store.refund(rest.into_receipt(entry.policy.clone(), entry.key)));
                entry.lease.returned(units);
            }
        }
    }

    /// The units that are in lease.
    pub(super) fn in_lease(&self) -> u64 {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.values_mut().map(|entry| entry.lease.in_lease()).sum()
    }

    fn now(&self) -> Duration {
        Duration::from_micros(self.clock.now().as_micros())
    }

    /// Decides a check of a policy with a lease.
    fn pay(&self, check: &Check, max: u64) -> Result<Outcome, StoreError> {
        let (now, strategy) = (self.now(), check.policy.strategy());
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = leases.get_or_insert_with(check.policy.digest() ^ check.key.fingerprint(), || Entry {
            policy: check.policy.clone(),
            key: check.key,
            lease: KeyLease::new(*strategy, max),
            sizing: Sizing::new(now),
        });
        entry.sizing.requested(check.cost, now);
        let own = || Checks::one(check.policy.clone(), check.key, check.cost);
        if let Some(spend) = entry.lease.spend(strategy, check.cost, now) {
            let result =
                CheckResult { admitted: true, snapshot: spend.snapshot, position: spend.run.position };
            return Ok(Outcome::leased(own(), [(spend.at, result)]).expect("the check is paid"));
        }
        let units = entry.lease.ask(entry.sizing.size(check.cost, entry.lease.room(), now));
        if units > 0 {
            let both = Checks::one(check.policy.clone(), check.key, check.cost.saturating_add(units));
            let answer = ready(self.store.check(both));
            if let Ok(outcome) = &answer
                && outcome.is_allowed()
            {
                let (at, CheckResult { snapshot, position, .. }) = single(outcome);
                let answer = Answer { units, sent: now, at, snapshot, position };
                entry.sizing.answered(snapshot.remaining, now);
                if let Some(rest) = entry.lease.granted(strategy, answer, now) {
                    drop(self.store.refund(rest.into_receipt(check.policy.clone(), check.key)));
                }
                let position = strategy.position_before(position, units);
                let result = CheckResult { admitted: true, snapshot, position };
                return Ok(Outcome::new(own(), at, [result]).expect("the check is decided"));
            }
            entry.lease.not_granted();
            match answer {
                Ok(_) => entry.sizing.denied(now),
                Err(error) => return Err(error),
            }
        }
        let outcome = ready(self.store.check(own()))?;
        let (at, CheckResult { snapshot, .. }) = single(&outcome);
        entry.sizing.answered(snapshot.remaining, now);
        entry.lease.update(at, snapshot, now);
        Ok(outcome)
    }
}

impl<S: Store> Store for Leased<S> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        match checks.iter().as_slice() {
            [check] if check.cost > 0 => match check.policy.max_lease() {
                Some(max) => StoreFuture::ready(self.pay(check, max.get())),
                None => self.store.check(checks),
            },
            _ => self.store.check(checks),
        }
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.store.refund(receipt)
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.store.settle(receipt, cost)
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.store.reset(policy, key)
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.store.register(policy)
    }
}

/// The instant and the result of an outcome with one check.
fn single(outcome: &Outcome) -> (Timestamp, CheckResult) {
    (outcome.decision().at(), outcome.results().next().expect("there is one check"))
}

/// The answer of a store in memory.
pub(super) fn ready<T>(answer: StoreFuture<T>) -> Result<T, StoreError> {
    answer.into_ready().unwrap_or_else(|_| unreachable!("a store in memory answers at once"))
}
