//! The input of a store's decision.

mod work;

pub use work::TooMuchWork;

use super::list::{self, List};
use crate::{Key, Policy, PolicyName};

/// Whether a key may consume a number of units under a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
// Exhaustive: a check is built by its three fields.
pub struct Check {
    /// The policy.
    pub policy: Policy,
    /// The key that is charged.
    pub key: Key,
    /// The number of units; 0 is a peek.
    pub cost: u64,
}

impl Check {
    /// The units that the check asks for: its cost, or 0 under a policy that is [unlimited](Policy::is_unlimited).
    #[inline]
    pub const fn units(&self) -> u64 {
        self.policy.units(self.cost)
    }

    /// Whether it is about this key under the policy of this name.
    #[inline]
    pub fn is_about(&self, policy: &PolicyName, key: Key) -> bool {
        self.key == key && self.policy.name() == policy
    }
}

/// The checks of one request: all are charged, or none.
///
/// Never empty, and at most [`Checks::MAX`].
///
/// ```
/// use portcullis::store::{Checks, ChecksError};
/// use portcullis::{Policy, Quota, Secret};
///
/// let mut hasher = Secret::published().hasher();
/// hasher.writer().part("user", b"ada");
/// let key = hasher.finish()?;
///
/// let second = Policy::gcra("second", Quota::per_second(10));
/// let day = Policy::fixed_window("day", Quota::per_day(1_000));
/// let checks = Checks::one(second.clone(), key, 1).and(day, key, 5)?;
/// assert_eq!(checks.len(), 2);
///
/// let twice = checks.and(second, key, 1);
/// assert!(matches!(twice, Err(ChecksError::Duplicate { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checks {
    pub(super) checks: List<Check>,
}

impl Checks {
    /// The highest number of checks in one decision.
    pub const MAX: usize = 16;

    /// The most [work](crate::Strategy::work) of one decision, in slots of sliding windows.
    ///
    /// Redis takes up to a microsecond per slot and serves no other client meanwhile, so this bounds how long one decision
    /// blocks the server. One sliding window with [`MAX_SLOTS`](crate::SlidingWindow::MAX_SLOTS) slots fits, together with 15
    /// checks of algorithms without slots.
    pub const MAX_WORK: u32 = 1_024;

    /// A single check.
    #[inline]
    pub fn one(policy: Policy, key: Key, cost: u64) -> Self {
        Self { checks: List::One([Check { policy, key, cost }]) }
    }

    /// Adds a check to the decision.
    ///
    /// # Errors
    ///
    /// If there is a check of the same policy and key already, if there are [`Checks::MAX`] checks, or if the work of all
    /// checks exceeds [`Checks::MAX_WORK`].
    #[inline]
    pub fn and(self, policy: Policy, key: Key, cost: u64) -> Result<Self, ChecksError> {
        if self.checks.len() >= Self::MAX {
            return Err(ChecksError::TooMany);
        }
        if self.checks.iter().any(|check| check.is_about(policy.name(), key)) {
            return Err(ChecksError::Duplicate { policy: policy.name().clone() });
        }
        TooMuchWork::check(self.checks.iter().map(|check| &check.policy).chain([&policy]))?;
        Ok(Self { checks: self.checks.and(Check { policy, key, cost }) })
    }

    /// The checks of `length` policies with their keys and costs, which `check` returns: each policy is cloned to its place.
    ///
    /// # Panics
    ///
    /// If there are none, or the checks cannot be combined by [`and`](Self::and).
    // For a layer, whose policies were found to fit into one decision before.
    #[doc(hidden)]
    #[inline]
    pub fn of<'a>(length: usize, check: impl Fn(usize) -> (&'a Policy, Key, u64)) -> Self {
        let is_repeated = |index: usize| {
            let (policy, key, _) = check(index);
            (0..index).map(&check).any(|(other, of, _)| of == key && other.name() == policy.name())
        };
        let is_combined = length <= Self::MAX
            && !(1..length).any(is_repeated)
            && TooMuchWork::check((0..length).map(|index| check(index).0)).is_ok();
        assert!(length > 0 && is_combined, "the checks fit into one decision");
        let check = |index| {
            let (policy, key, cost) = check(index);
            Check { policy: policy.clone(), key, cost }
        };
        Self { checks: List::from_fn(length, check) }
    }

    /// The checks, in the order they were added.
    #[inline]
    pub fn iter(&self) -> core::slice::Iter<'_, Check> {
        self.checks.iter()
    }

    /// The number of checks, at least one.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "checks are never empty")]
    pub fn len(&self) -> usize {
        self.checks.len()
    }

    /// The key with the most [parts that distinguish clients](Key::own_parts), the first one if several have as many; `None`
    /// if all keys are [shared](Key::is_shared).
    ///
    /// It limits how many of the waiting requests may belong to one client.
    pub fn narrowest_key(&self) -> Option<Key> {
        let keys = self.checks.iter().map(|check| check.key).filter(|key| !key.is_shared());
        keys.reduce(|best, key| if key.own_parts() > best.own_parts() { key } else { best })
    }

    /// Replaces the policy of the check at `index` by one with another quota. For a store that decides it under the quota of a
    /// [grant](crate::overrides::Grant).
    ///
    /// Returns the checks unchanged if there is no such check, or if `policy` has another name.
    #[must_use]
    pub fn with_policy(mut self, index: usize, policy: Policy) -> Self {
        if let Some(check) = self.checks.get_mut(index).filter(|check| check.policy.name() == policy.name()) {
            check.policy = policy;
        }
        self
    }

    pub(crate) fn into_iter(self) -> list::IntoIter<Check> {
        self.checks.into_iter()
    }
}

impl<'a> IntoIterator for &'a Checks {
    type Item = &'a Check;
    type IntoIter = core::slice::Iter<'a, Check>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Why checks cannot be combined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChecksError {
    /// One policy and key appear twice in one decision.
    #[error("policy {policy} is checked for the same key twice in one decision: add the costs instead")]
    Duplicate {
        /// The policy.
        policy: PolicyName,
    },
    /// More checks than a decision may have.
    #[error("a decision may have at most {} policies", Checks::MAX)]
    TooMany,
    /// More work than a decision may have.
    #[error(transparent)]
    TooMuchWork(#[from] TooMuchWork),
}

#[cfg(test)]
mod tests;
