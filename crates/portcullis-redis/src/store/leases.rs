//! Leases of this process: units that are charged in advance, and spent without a call.
//!
//! The protocol is in [`portcullis_core::lease`]. This module has the leased keys, [`trip`] the decisions that need a call,
//! [`wait`] those that wait for the call of another request, [`own_costs`] what a standby decides, and [`returns`] the refunds of
//! what is left. A hash chooses a set of eight entries for each key. A new key replaces the entry that is not in lease and has had the fewest
//! requests lately; if all eight are in lease, it does without.

mod own_costs;
mod returns;
mod shard;
mod trip;
mod wait;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use portcullis_core::algorithm::Snapshot;
use portcullis_core::lease::{Answer, Returned, Spend};
use portcullis_core::store::{Check, CheckResult, Checks, Run};
use portcullis_core::{Decision, Key, Policy, Receipt, Timestamp};
use smallvec::SmallVec;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use self::shard::{Entry, Shard};
use self::wait::MAX_WAITING;
use crate::lock::lock;

/// The leases of one store.
#[derive(Debug)]
pub(crate) struct Leases {
    /// All times are durations since this instant, on this process's monotonic clock.
    created: Instant,
    /// Empty if leases are disabled.
    shards: Vec<Slot>,
    hasher: RandomState,
    /// What has to be refunded, and is not yet.
    returns: Mutex<Vec<Return>>,
    /// Whether a task refunds what is left of leases.
    is_returning: AtomicBool,
    /// Locked while refunds are on their way, so that a process that stops waits for them.
    refunding: tokio::sync::Mutex<()>,
}

/// A part of the keys.
#[derive(Debug)]
struct Slot {
    keys: Mutex<Shard>,
    /// Notified when a call that asks for a lease of one of these keys is answered.
    answered: Notify,
    /// The places of requests that wait for that.
    places: Semaphore,
}

impl Slot {
    fn new() -> Self {
        Self { keys: Mutex::default(), answered: Notify::new(), places: Semaphore::new(MAX_WAITING) }
    }
}

/// A charge that was not used.
#[derive(Debug)]
struct Return {
    receipt: Receipt,
    /// The units of it that count as in lease until the refund has ended.
    leased: u64,
}

/// How each check of a decision is made, in the order of the checks.
pub(super) type Payments = SmallVec<[Payment; 2]>;

/// Whether a check may wait for the call of another request.
#[derive(Clone, Copy, Debug)]
enum CallWait {
    /// It may not, because the request has other checks.
    Never,
    /// It may wait for one call.
    Once,
    /// It waits for the call with this number, and for no other.
    For(u64),
}

/// How a check is made.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payment {
    /// By the store. Its policy has no lease.
    Store,
    /// By the store, which charges this number of units for a lease as well.
    Ask(u64),
    /// From the lease that the call with this number charges, or by the store.
    Wait(u64),
    /// It is paid from a lease.
    Spent(Spend),
}

impl Payment {
    /// The result of a check that is paid from a lease.
    fn spent(&self) -> Option<(Spend, CheckResult)> {
        let Self::Spent(spend) = self else { return None };
        let result = CheckResult { admitted: true, snapshot: spend.snapshot, position: spend.run.position };
        Some((*spend, result))
    }
}

impl Leases {
    /// Without keys. On the time of a scenario leases are disabled, because they expire on the clock of this process.
    pub(crate) fn new(is_enabled: bool) -> Self {
        let shards = if is_enabled { SHARDS } else { 0 };
        Self {
            created: Instant::now(),
            shards: (0..shards).map(|_| Slot::new()).collect(),
            hasher: RandomState::new(),
            returns: Mutex::default(),
            is_returning: AtomicBool::new(false),
            refunding: tokio::sync::Mutex::default(),
        }
    }

    /// Pays what it can from leases. Returns `None` if no policy of the decision has one.
    pub(super) fn pay(&self, checks: &Checks) -> Option<Payments> {
        if self.shards.is_empty() || !checks.iter().any(is_leasable) {
            return None;
        }
        let now = self.now();
        let call_wait = if checks.len() == 1 { CallWait::Once } else { CallWait::Never };
        Some(checks.iter().map(|check| self.pay_one(check, now, call_wait)).collect())
    }

    fn pay_one(&self, check: &Check, now: Duration, call_wait: CallWait) -> Payment {
        let max = check.policy.max_lease().filter(|_| is_leasable(check));
        let Some(max) = max.map(u64::from) else { return Payment::Store };
        let (slot, hash) = self.slot(&check.policy, check.key);
        let mut shard = lock(&slot.keys);
        let Some(entry) = shard.find_or_insert(hash, check, max, now) else { return Payment::Store };
        let rest = entry.adapt(check, max, now);
        if !matches!(call_wait, CallWait::For(_)) {
            entry.sizing.requested(check.units(), now);
        }
        let payment = if let Some(spend) = entry.lease.spend(check.policy.strategy(), check.units(), now) {
            Payment::Spent(spend)
        } else {
            let call = match call_wait {
                CallWait::Never => None,
                CallWait::Once => entry.claim(check.units()),
                CallWait::For(call) => entry.is_asking(call).then_some(call),
            };
            call.map_or_else(|| Payment::Ask(entry.ask(check.units(), now)), Payment::Wait)
        };
        drop(shard);
        if let Some((policy, rest)) = rest {
            self.return_rest(policy, check.key, rest);
        }
        payment
    }

    /// Records what the store has answered at its instant `at` to a check without units for a lease.
    fn answered(&self, check: &Check, at: Timestamp, snapshot: Snapshot) {
        let now = self.now();
        self.change(&check.policy, check.key, |Entry { lease, sizing, .. }| {
            sizing.answered(snapshot.remaining, now);
            lease.update(at, snapshot, now);
        });
    }

    /// Adds the units of an answer to the lease.
    fn granted(&self, check: &Check, answer: Answer) {
        let now = self.now();
        let rest = self.change(&check.policy, check.key, |Entry { lease, sizing, .. }| {
            sizing.answered(answer.snapshot.remaining, now);
            lease.granted(check.policy.strategy(), answer, now)
        });
        if let Some(rest) = rest.flatten() {
            // The quota may have changed during the call. The units were charged under the quota of the call, like the units of an older
            // lease that it replaces.
            self.return_rest(check.policy.clone(), check.key, rest);
        }
        self.slot(&check.policy, check.key).0.answered.notify_waiters();
    }

    /// Records that a call has brought no units for a lease; `is_denied` if it was denied because of them.
    fn not_granted(&self, check: &Check, is_denied: bool) {
        let now = self.now();
        self.change(&check.policy, check.key, |Entry { lease, sizing, .. }| {
            lease.not_granted();
            if is_denied {
                sizing.denied(now);
            }
        });
        self.slot(&check.policy, check.key).0.answered.notify_waiters();
    }

    /// Undoes a spend, because the request is denied or was not decided.
    fn undo(&self, check: &Check, spend: &Spend) {
        if self.put_back(&check.policy, check.key, spend.run).is_none() {
            let units = spend.run.units;
            let held = self.change(&check.policy, check.key, |entry| entry.lease.refunding(units));
            let blank = Receipt::blank(check.policy.clone(), check.key, spend.at);
            let receipt = blank.settled(0, Some(spend.run), spend.at);
            self.push(Return { receipt, leased: held.map_or(0, |()| units) });
        }
    }

    /// Refunds units of a receipt to their lease until `cost` is left. Returns the figures and what is left, unless the store has to.
    pub(super) fn refund(&self, receipt: &Receipt, cost: u64) -> Option<(Decision, Receipt)> {
        let (policy, key, at) = (receipt.policy(), receipt.key(), receipt.at());
        let surplus = receipt.cost().saturating_sub(cost);
        let &[Run { units, position }] = receipt.runs() else { return None };
        let may_be_leased = policy.max_lease().is_some() && receipt.fallback_id().is_none();
        if !may_be_leased || surplus == 0 || units != receipt.cost() {
            return None;
        }
        let decision = self.put_back(policy, key, Run { units: surplus, position })?;
        let left = Run { units: cost, position: policy.strategy().position_before(position, surplus) };
        Some((decision, Receipt::blank(policy.clone(), key, at).settled(0, Some(left), at)))
    }

    /// Drops the lease of a key whose state is removed from the store.
    pub(super) fn reset(&self, policy: &Policy, key: Key) {
        let now = self.now();
        self.change(policy, key, |entry| entry.lease.reset(now));
    }

    /// Takes units back into the lease. Returns its figures, or `None` if the lease has ended.
    fn put_back(&self, policy: &Policy, key: Key, run: Run) -> Option<Decision> {
        let now = self.now();
        let figures = self.change(policy, key, |Entry { policy: current, lease, .. }| {
            // A unit of another quota is none of this lease, even if it has the same position.
            let is_taken = current.strategy() == policy.strategy() && lease.put_back(run, now);
            lease.figures(now).filter(|_| is_taken)
        });
        let (at, snapshot) = figures.flatten()?;
        Some(Decision::new(policy, at, snapshot))
    }

    fn return_rest(&self, policy: Policy, key: Key, rest: Returned) {
        let leased = rest.units();
        self.push(Return { receipt: rest.into_receipt(policy, key), leased });
    }

    fn push(&self, unused: Return) {
        let mut returns = lock(&self.returns);
        if returns.len() < MAX_RETURNS {
            returns.push(unused);
        } else {
            drop(returns);
            // The units stay charged.
            self.returned(unused.receipt.policy(), unused.receipt.key(), unused.leased);
        }
    }

    /// Changes the entry of a key, if there is one.
    fn change<T>(&self, policy: &Policy, key: Key, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        if self.shards.is_empty() {
            return None;
        }
        let (slot, hash) = self.slot(policy, key);
        let mut shard = lock(&slot.keys);
        shard.find(hash, shard::id(policy, key)).map(change)
    }

    /// Returns the slot of a key, and what is left of its hash. Leases have to be enabled.
    fn slot(&self, policy: &Policy, key: Key) -> (&Slot, u64) {
        let hash = self.hasher.hash_one(shard::id(policy, key));
        let index = usize::try_from(hash % SHARDS as u64).unwrap_or_default();
        (&self.shards[index], hash / SHARDS as u64)
    }

    /// The number of keys with units in lease, and the number of these units. Locks the shards one after another.
    pub(super) fn in_lease(&self) -> (u64, u64) {
        let units = |slot: &Slot| {
            let units = |entry: &mut Entry| Some(entry.lease.in_lease()).filter(|units| *units > 0);
            lock(&slot.keys)
                .entries()
                .filter_map(units)
                .fold((0, 0), |(keys, sum), units| (keys + 1, sum + units))
        };
        let shards = self.shards.iter().map(units);
        shards.fold((0, 0), |(keys, units), (more, other)| (keys + more, units + other))
    }

    fn now(&self) -> Duration {
        self.created.elapsed()
    }
}

/// A peek is answered by the store.
fn is_leasable(check: &Check) -> bool {
    check.units() > 0 && check.policy.max_lease().is_some()
}

/// The number of shards, each with a lock of its own.
const SHARDS: usize = 64;
/// The most refunds that wait; beyond it units stay charged.
const MAX_RETURNS: usize = 65_536;

#[cfg(test)]
mod tests;
