//! The policies of a store.

use std::sync::{OnceLock, PoisonError};

use portcullis_core::{Policy, PolicyName, StoreError, StoreErrorKind};

use crate::budget::{Limits, MAX_POLICIES};
use crate::shards::Shards;
use crate::sync::Mutex;

/// An append-only map from policies to their states: a look-up takes no lock.
#[derive(Debug)]
pub(crate) struct Policies {
    limits: Limits,
    /// A hash table with open addressing. At most half of it is in use.
    buckets: Box<[OnceLock<Box<Shards>>]>,
    registered: Mutex<usize>,
}

impl Policies {
    pub(crate) fn new(limits: Limits) -> Self {
        let buckets = (2 * limits.policies()).next_power_of_two().max(2);
        Self { limits, buckets: (0..buckets).map(|_| OnceLock::new()).collect(), registered: Mutex::new(0) }
    }

    /// The states of a policy, if it is registered.
    #[inline]
    pub(crate) fn find(&self, policy: &Policy) -> Option<&Shards> {
        self.probe(policy.digest()).ok()
    }

    /// The states of a policy, which is registered if necessary.
    #[inline]
    pub(crate) fn find_or_register(&self, policy: &Policy) -> Result<&Shards, StoreError> {
        match self.find(policy) {
            Some(found) => Ok(found),
            None => self.register(policy),
        }
    }

    #[cold]
    fn register(&self, policy: &Policy) -> Result<&Shards, StoreError> {
        let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        let free = match self.probe(policy.digest()) {
            Ok(found) => return Ok(found),
            Err(free) => free,
        };
        if *registered >= self.limits.policies() {
            return Err(self.refusal(policy.name(), *registered));
        }
        let number = u32::try_from(*registered).unwrap_or(u32::MAX);
        *registered += 1;
        let shards =
            Box::new(Shards::new(policy, number, self.limits.policy).with_overrides(self.limits.overrides));
        Ok(free.get_or_init(|| shards))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Shards> {
        self.buckets.iter().filter_map(OnceLock::get).map(Box::as_ref)
    }

    /// The states of a policy by its digest, or the free bucket for them.
    #[inline]
    fn probe(&self, digest: u128) -> Result<&Shards, &OnceLock<Box<Shards>>> {
        let mask = self.buckets.len() - 1;
        let mut index = digest as usize & mask;
        loop {
            match self.buckets[index].get() {
                Some(found) if found.digest() == digest => return Ok(found),
                Some(_) => index = (index + 1) & mask,
                None => return Err(&self.buckets[index]),
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
                 registered, and the total is {}; raise `total_capacity` to {} or more, or lower `capacity`",
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
