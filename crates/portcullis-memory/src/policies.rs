//! The policies of a store.

mod forgotten;

use std::sync::{Arc, OnceLock, PoisonError};

use portcullis_core::{Policy, PolicyName, StoreError, StoreErrorKind, Timestamp};

use crate::budget::{Limits, MAX_POLICIES};
use crate::figures::stats::{MemoryPolicyStats, MemoryStats};
use crate::overrides::SharedOverrides;
use crate::shards::Shards;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// A map from policies to their states: a look-up takes no lock. Shards stay in the bucket that they were made in. Shards of a policy that was [forgotten](forgotten) are skipped until another
/// policy gets them. A look-up that meets a change may miss its policy, and then looks again under the lock.
#[derive(Debug)]
pub(crate) struct Policies {
    limits: Limits,
    /// A hash table with open addressing. At most half of it is in use.
    buckets: Box<[OnceLock<Box<Shards>>]>,
    /// The number of policies. Locked by every change.
    registered: Mutex<usize>,
    /// The checks of forgotten policies that used an overflow state.
    forgotten_overflows: AtomicU64,
}

/// Where a policy can be registered.
enum Free<'a> {
    Bucket(usize),
    Vacant(&'a Shards),
}

impl Policies {
    pub(crate) fn new(limits: Limits) -> Self {
        let buckets = (2 * limits.policies()).next_power_of_two().max(2);
        Self {
            limits,
            buckets: (0..buckets).map(|_| OnceLock::new()).collect(),
            registered: Mutex::new(0),
            forgotten_overflows: AtomicU64::new(0),
        }
    }

    /// The states of a policy by its digest, if it is registered.
    #[inline]
    pub(crate) fn find(&self, digest: u128) -> Option<&Shards> {
        let mask = self.buckets.len() - 1;
        let mut index = digest as usize & mask;
        loop {
            match self.buckets[index].get() {
                Some(found) if found.is_of(digest) => return Some(found),
                Some(_) => index = (index + 1) & mask,
                None => return None,
            }
            if index == digest as usize & mask {
                return None;
            }
        }
    }

    /// Registers a policy at an instant, unless it is registered. If there are as many as fit, one that is idle is forgotten.
    #[cold]
    pub(crate) fn register(&self, policy: &Policy, now: Timestamp) -> Result<&Shards, StoreError> {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.find(policy.digest()) {
            return Ok(found);
        }
        if *registered >= self.limits.policies() {
            if !self.forget_one(now) {
                return Err(self.refusal(policy.name(), *registered));
            }
            *registered -= 1;
        }
        let overrides = self.overrides_of(policy);
        let shards = match self.free(policy.digest()) {
            Free::Vacant(shards) => {
                shards.assign(policy, now, overrides);
                shards
            }
            Free::Bucket(index) => {
                let limits = (self.limits.policy, self.limits.overrides);
                let number = u32::try_from(index).unwrap_or(u32::MAX);
                self.buckets[index]
                    .get_or_init(|| Box::new(Shards::new(policy, number, limits, now, overrides)))
            }
        };
        *registered += 1;
        Ok(shards)
    }

    /// How full the store is.
    pub(crate) fn stats(&self) -> MemoryStats {
        self.sum(|_| {})
    }

    /// Adds the stats of all policies, each of which is visited with the overrides that no other has counted.
    fn sum(&self, mut visit: impl FnMut(&MemoryPolicyStats)) -> MemoryStats {
        // Policies of one name may have the same overrides.
        let mut counted: Vec<Arc<SharedOverrides>> = Vec::new();
        let mut all = MemoryStats::of(self.iter().map(|shards| {
            let (mut stats, overrides) = (shards.stats(), shards.overrides());
            if counted.iter().any(|known| Arc::ptr_eq(known, &overrides)) {
                stats.overrides = 0;
            }
            counted.push(overrides);
            visit(&stats);
            stats
        }));
        all.overflowed_checks += self.forgotten_overflows.load(Ordering::Relaxed);
        all
    }

    /// How full the store is, and for each name of policies, in the order of the names.
    pub(crate) fn stats_by_name(&self) -> (MemoryStats, Vec<MemoryPolicyStats>) {
        let mut policies = Vec::new();
        let all = self.sum(|stats| policies.push(stats.clone()));
        policies.sort_unstable_by(|one, other| one.policy.as_str().cmp(other.policy.as_str()));
        policies.dedup_by(|later, first| {
            let is_same = later.policy == first.policy;
            if is_same {
                first.add(later);
            }
            is_same
        });
        (all, policies)
    }

    /// How full the store is for each policy.
    pub(crate) fn policy_stats(&self) -> Vec<MemoryPolicyStats> {
        self.iter().map(Shards::stats).collect()
    }

    fn iter(&self) -> impl Iterator<Item = &Shards> {
        let made = self.buckets.iter().filter_map(OnceLock::get).map(Box::as_ref);
        made.filter(|shards| !shards.is_vacant())
    }

    /// The first place on the way of a look-up.
    fn free(&self, digest: u128) -> Free<'_> {
        let mask = self.buckets.len() - 1;
        let mut index = digest as usize & mask;
        loop {
            match self.buckets[index].get() {
                Some(found) if found.is_vacant() => return Free::Vacant(found),
                Some(_) => index = (index + 1) & mask,
                None => return Free::Bucket(index),
            }
        }
    }

    fn refusal(&self, policy: &PolicyName, registered: usize) -> StoreError {
        let Limits { policy: each, total, .. } = self.limits;
        let needed = registered.saturating_add(1);
        let message = if registered >= MAX_POLICIES {
            format!("policy {policy} does not fit in memory: a store holds at most {MAX_POLICIES} policies")
        } else if total.keys / each.keys <= registered {
            format!(
                "policy {policy} does not fit in memory: each policy takes {} keys, {registered} policies are \
                 registered, and the total is {}; raise `total_capacity` to {} or more, or lower `capacity` (`--memory-keys` of the command)",
                each.keys,
                total.keys,
                needed.saturating_mul(each.keys),
            )
        } else {
            format!(
                "policy {policy} does not fit in memory: each policy takes {} bytes, {registered} policies are \
                 registered, and the total is {}; raise `total_bytes` to {} or more, or lower `bytes`",
                each.bytes,
                total.bytes,
                needed.saturating_mul(each.bytes),
            )
        };
        StoreError::new(StoreErrorKind::Unsupported, message)
    }
}
