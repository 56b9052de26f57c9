//! The keys that an event carries, if an observer asks for fingerprints.

use portcullis_core::store::{Check, Checks};
use portcullis_core::{Key, PolicyName};
use smallvec::SmallVec;

use crate::limit::Limit;

/// The keys that the policies of one layer have found for a request, by the indexes of the policies. Made only if an observer asks.
#[derive(Clone, Debug, Default)]
pub struct FoundKeys(SmallVec<[(usize, Key); 2]>);

/// Where the keys of an event are.
#[derive(Clone, Copy, Debug, Default)]
pub enum EventKeys<'a> {
    /// The event has none, or no observer asks.
    #[default]
    None,
    /// The keys that were found for the request.
    Found(&'a FoundKeys),
    /// The keys of these checks.
    Checks(&'a [Check]),
    /// The key of one policy.
    One(&'a PolicyName, Key),
}

impl FoundKeys {
    /// Adds a key, in place of one that was found for the policy before.
    pub fn add(&mut self, index: usize, key: Key) {
        match self.0.iter_mut().find(|(found, _)| *found == index) {
            Some((_, found)) => *found = key,
            None => self.0.push((index, key)),
        }
    }

    /// The keys, in which those that lead come before others of their policies: an observer may take the first one of a policy.
    pub(crate) fn led_by(&self, policies: &[Limit], leads: impl Fn(usize, Key) -> bool) -> Self {
        let mut keys = self.clone();
        for later in 1..keys.0.len() {
            let (index, key) = keys.0[later];
            let has_same_policy = |other: usize| name(policies, other) == name(policies, index);
            let earlier =
                keys.0[..later].iter().position(|&(other, key)| has_same_policy(other) && !leads(other, key));
            if let Some(earlier) = earlier.filter(|_| leads(index, key)) {
                keys.0.swap(earlier, later);
            }
        }
        keys
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Key)> {
        self.0.iter().copied()
    }
}

impl<'a> EventKeys<'a> {
    /// The keys that were found for a request, if they were kept.
    pub fn found(keys: Option<&'a FoundKeys>) -> Self {
        keys.map_or(Self::None, Self::Found)
    }

    /// The keys of checks.
    pub fn of_checks(checks: &'a Checks) -> Self {
        Self::Checks(checks.iter().as_slice())
    }
}

fn name(policies: &[Limit], index: usize) -> Option<&PolicyName> {
    policies.get(index).map(|limit| limit.policy.name())
}
