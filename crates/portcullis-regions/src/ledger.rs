//! What a process keeps of the keys whose share is used: their charges, and their purchases. Without I/O and without a clock.
//!
//! The number of keys is bounded. A hash chooses a set of eight entries for each key. A new key replaces the entry without a purchase on
//! its way that was used least recently; if all eight have one, the key does without.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_core::store::{Position, Run};
use portcullis_core::{Key, Policy, Receipt, Strategy};
use smallvec::SmallVec;

use crate::held::{self, Held};
use crate::purchase::{self, Demand, LONGEST_PAUSE};

/// The keys of one process whose share is used.
#[derive(Debug)]
pub(crate) struct Ledger {
    sets: Vec<Mutex<Vec<Entry>>>,
    hasher: RandomState,
}

/// A decision of the region about one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided<'a> {
    /// The policy, not its share.
    pub(crate) policy: &'a Policy,
    /// The policy of the region's decision.
    pub(crate) share: &'a Policy,
    pub(crate) key: Key,
    /// The units that were charged; 0 for a denial or a peek.
    pub(crate) units: u64,
    pub(crate) remaining: u64,
    pub(crate) position: Position,
    /// Whether the key was denied for want of units.
    pub(crate) is_denied: bool,
}

/// A purchase to make.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) policy: Policy,
    pub(crate) key: Key,
    pub(crate) units: u64,
    /// What is refunded in the region if home has charged the units. Under the region's share.
    pub(crate) credit: Receipt,
    runs: SmallVec<[Run; 2]>,
}

/// How a purchase has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Home has charged the units, and has this number left.
    Bought(u64),
    /// Home has this number left, and has the units again after this time.
    Denied(u64, Option<Duration>),
    /// Home has not answered.
    Failed,
}

#[derive(Debug)]
struct Entry {
    id: (u128, u128),
    policy: Policy,
    held: Held,
    is_buying: bool,
    /// Nothing is bought before.
    paused: Duration,
    /// What home has reported last as remaining, and when.
    home: Option<(u64, Duration)>,
    failures: u32,
    used: Duration,
}

impl Ledger {
    /// For about this number of keys.
    pub(crate) fn new(keys: usize) -> Self {
        let sets = keys.div_ceil(SET).max(1);
        Self { sets: (0..sets).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    /// Records a decision, and returns what to buy.
    pub(crate) fn record(&self, decided: Decided<'_>, now: Duration) -> Option<Order> {
        let Decided { policy, share, key, units, remaining, position, is_denied } = decided;
        let limit = share.strategy().limit();
        let mut demand = Demand { share: limit, remaining, held: 0, home: None };
        let mut set = self.set(policy, key);
        let entry = if demand.is_watched() {
            Entry::find_or_insert(&mut set, policy, key, now)?
        } else {
            set.iter_mut().find(|entry| entry.id == id(policy, key))?
        };
        entry.used = now;
        if entry.policy != *policy {
            // Another quota of the policy, under which a unit may take another time.
            entry.policy = policy.clone();
            entry.held = Held::new(share.strategy());
        }
        if units > 0 {
            if entry.held.add(Run { units, position }, limit) {
                // In a new window home has its whole part again.
                (entry.home, entry.paused) = (None, Duration::ZERO);
            }
        } else if is_denied {
            // The share was used by other processes, perhaps by those before a restart.
            entry.held.hold_at_least((limit / HELD_PART).max(1), position);
        }
        if entry.is_buying || now < entry.paused {
            return None;
        }
        demand.held = entry.held.units();
        // Without a unit there was a pause, which has ended.
        let is_known =
            |(remaining, at): &(u64, Duration)| *remaining > 0 && now.saturating_sub(*at) < LONGEST_PAUSE;
        let home = entry.home.filter(is_known);
        demand.home =
            home.map(|(remaining, at)| remaining.saturating_add(replenished(policy, now.saturating_sub(at))));
        let units = demand.units();
        if units == 0 {
            return None;
        }
        entry.is_buying = true;
        let runs = entry.held.take(units);
        drop(set);
        let credit = held::receipt(share.clone(), key, &runs);
        Some(Order { policy: policy.clone(), key, units, credit, runs })
    }

    /// Records that home has answered a purchase, or that it has failed. It is on its way until [`credited`](Self::credited).
    pub(crate) fn answered(&self, order: &Order, ended: Ended, now: Duration) {
        self.change(&order.policy, order.key, |entry| {
            entry.failures = if ended == Ended::Failed { entry.failures.saturating_add(1) } else { 0 };
            match ended {
                Ended::Bought(remaining) => entry.home = Some((remaining, now)),
                Ended::Denied(remaining, retry_after) => {
                    entry.home = Some((remaining, now));
                    if remaining == 0 {
                        entry.paused = now.saturating_add(purchase::pause_after_denial(retry_after));
                    }
                    entry.put_back(order);
                }
                Ended::Failed => {
                    entry.home = None;
                    entry.paused = now.saturating_add(purchase::pause_after_failure(entry.failures));
                    entry.put_back(order);
                }
            }
        });
    }

    /// Ends a purchase: the next may begin.
    pub(crate) fn ended(&self, order: &Order) {
        self.change(&order.policy, order.key, |entry| entry.is_buying = false);
    }

    /// Takes back a purchase for which there is no room.
    pub(crate) fn refused(&self, order: &Order) {
        self.change(&order.policy, order.key, |entry| {
            entry.put_back(order);
            entry.is_buying = false;
        });
    }

    /// Forgets units that were refunded to a client.
    pub(crate) fn refunded(&self, policy: &Policy, key: Key, units: u64) {
        self.change(policy, key, |entry| entry.held.forget(units));
    }

    /// Forgets the charges of a key whose state was removed.
    pub(crate) fn reset(&self, policy: &Policy, key: Key) {
        self.change(policy, key, |entry| {
            entry.held.forget(u64::MAX);
            (entry.home, entry.paused) = (None, Duration::ZERO);
        });
    }

    /// What home has reported last as remaining of a key, if the policy has not replenished it completely since.
    pub(crate) fn home(&self, policy: &Policy, key: Key, now: Duration) -> Option<u64> {
        let home = self.change(policy, key, |entry| entry.home).flatten();
        let (remaining, at) = home?;
        let age = now.saturating_sub(at);
        (age < policy.strategy().window()).then(|| remaining.saturating_add(replenished(policy, age)))
    }

    /// The number of keys. Locks the sets one after another.
    pub(crate) fn keys(&self) -> u64 {
        self.sets.iter().fold(0, |sum, set| sum.saturating_add(lock(set).len() as u64))
    }

    fn change<T>(&self, policy: &Policy, key: Key, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut set = self.set(policy, key);
        set.iter_mut().find(|entry| entry.id == id(policy, key)).map(change)
    }

    fn set(&self, policy: &Policy, key: Key) -> MutexGuard<'_, Vec<Entry>> {
        let hash = self.hasher.hash_one(id(policy, key)) % self.sets.len() as u64;
        lock(&self.sets[usize::try_from(hash).unwrap_or_default()])
    }
}

impl Entry {
    fn find_or_insert<'s>(
        set: &'s mut Vec<Self>,
        policy: &Policy,
        key: Key,
        now: Duration,
    ) -> Option<&'s mut Self> {
        let id = id(policy, key);
        if let Some(index) = set.iter().position(|entry| entry.id == id) {
            return set.get_mut(index);
        }
        let entry = Self {
            id,
            policy: policy.clone(),
            held: Held::new(policy.strategy()),
            is_buying: false,
            paused: Duration::ZERO,
            home: None,
            failures: 0,
            used: now,
        };
        if set.len() < SET {
            set.push(entry);
            return set.last_mut();
        }
        let replaced = set.iter_mut().filter(|entry| !entry.is_buying).min_by_key(|entry| entry.used)?;
        *replaced = entry;
        Some(replaced)
    }

    /// The charges of a purchase that has not moved them.
    fn put_back(&mut self, order: &Order) {
        if self.policy == order.policy {
            for run in &order.runs {
                self.held.add(*run, u64::MAX);
            }
        }
    }
}

/// The units that a rate replenishes at home, estimated by that of the whole policy. A window replenishes nothing before its end.
fn replenished(policy: &Policy, age: Duration) -> u64 {
    let strategy = policy.strategy();
    if !matches!(strategy, Strategy::TokenBucket(_) | Strategy::Gcra(_)) {
        return 0;
    }
    let units = u128::from(strategy.limit()).saturating_mul(age.as_micros());
    u64::try_from(units / strategy.window().as_micros().max(1)).unwrap_or(u64::MAX)
}

fn id(policy: &Policy, key: Key) -> (u128, u128) {
    (policy.digest(), key.fingerprint())
}

fn lock(set: &Mutex<Vec<Entry>>) -> MutexGuard<'_, Vec<Entry>> {
    // No code panics while it holds the lock.
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The entries of a set.
const SET: usize = 8;
/// A process that has charged nothing takes one of this number of parts of the share as its own.
const HELD_PART: u64 = 16;

#[cfg(test)]
mod tests;
