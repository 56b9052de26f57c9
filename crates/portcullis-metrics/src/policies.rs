//! The metrics of each policy, found by its name without a lock.

mod policy;
mod series;

use std::sync::{Mutex, OnceLock, PoisonError};

use portcullis_core::PolicyName;

use crate::handles::Handles;

pub(crate) use self::policy::PolicyMetrics;

/// How many policies have labels of their own. Those beyond them are counted together as policy `other`.
pub const MAX_POLICIES: usize = 1_000;

/// The metrics of the policies seen so far, up to a bound, and those of all others together.
///
/// A hash table with open addressing which only grows and is never full, so that it is read without a lock.
pub(crate) struct Policies {
    handles: Handles,
    slots: Box<[OnceLock<Box<Entry>>]>,
    other: OnceLock<PolicyMetrics>,
    /// How many policies have entries. Held while one is added.
    len: Mutex<usize>,
    max: usize,
}

struct Entry {
    name: PolicyName,
    metrics: PolicyMetrics,
}

impl Policies {
    pub(crate) fn new(handles: &Handles, max: usize) -> Self {
        // Half of the slots stay empty, so that a look-up ends.
        let slots = max.saturating_mul(2).next_power_of_two();
        Self {
            handles: handles.clone(),
            slots: (0..slots).map(|_| OnceLock::new()).collect(),
            other: OnceLock::new(),
            len: Mutex::new(0),
            max,
        }
    }

    /// The metrics of a policy, which are made if it is new.
    #[inline]
    pub(crate) fn get(&self, name: &PolicyName) -> &PolicyMetrics {
        match self.find(name) {
            Ok(metrics) => metrics,
            Err(_) => self.add(name),
        }
    }

    /// Whether a policy, which may be new, has labels of its own.
    pub(crate) fn has_label(&self, name: &PolicyName) -> bool {
        self.get(name);
        self.find(name).is_ok()
    }

    pub(crate) fn len(&self) -> usize {
        *self.len.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `Err` with the empty slot at which the search has ended.
    fn find(&self, name: &PolicyName) -> Result<&PolicyMetrics, &OnceLock<Box<Entry>>> {
        let start = hash(name.as_str());
        let mask = self.slots.len().wrapping_sub(1);
        let mut index = start & mask;
        loop {
            let slot = &self.slots[index];
            match slot.get() {
                None => return Err(slot),
                Some(entry) if entry.name == *name => return Ok(&entry.metrics),
                Some(_) => index = index.wrapping_add(1) & mask,
            }
        }
    }

    #[cold]
    fn add(&self, name: &PolicyName) -> &PolicyMetrics {
        // The number is right between any two statements, so a poisoned lock is safe to use.
        let mut len = self.len.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match self.find(name) {
            Ok(metrics) => return metrics,
            Err(slot) => slot,
        };
        if *len >= self.max {
            return self.other.get_or_init(|| PolicyMetrics::new(&self.handles, OTHER));
        }
        *len = len.saturating_add(1);
        let entry =
            || Entry { name: name.clone(), metrics: PolicyMetrics::new(&self.handles, name.as_str()) };
        &slot.get_or_init(|| Box::new(entry())).metrics
    }
}

/// FNV-1a. Names are written by operators, not by clients, so no attacker chooses colliding ones.
#[inline]
fn hash(name: &str) -> usize {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    // The table has fewer slots than a number of 32 bits.
    usize::try_from(hash >> 32).unwrap_or(0)
}

/// The label of the policies beyond the bound.
const OTHER: &str = "other";

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> PolicyName {
        PolicyName::new(&format!("policy {number}")).unwrap()
    }

    #[test]
    fn policies_beyond_the_bound_share_one_label() {
        let policies = Policies::new(&Handles::global(), 100);
        for number in 0..10_000 {
            assert_eq!(policies.has_label(&name(number)), number < 100);
        }
        assert_eq!(policies.len(), 100);
        assert!(policies.has_label(&name(99)));
    }

    #[test]
    fn threads_that_add_policies_at_once_stay_within_the_bound() {
        let policies = Policies::new(&Handles::global(), 50);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..100).for_each(|number| policies.get(&name(number)).exempt.increment(0)));
            }
        });
        assert_eq!(policies.len(), 50);
    }
}
