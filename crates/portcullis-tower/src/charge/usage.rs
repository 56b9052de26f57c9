//! The counter of the units that a response turns out to use.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use portcullis_core::PolicyName;
use smallvec::SmallVec;

use crate::OnAbort;
#[cfg(feature = "usage")]
use portcullis_usage::{Count, UsageReader};

/// Counts the units that the response to a request uses, for the settlement of its
/// [reservation](crate::Limit::reserve).
///
/// It is in the extensions of every request that a layer has counted under a policy with a reservation; with the feature `axum` it
/// is an extractor, and so is `Option<Usage>`. In Tonic it is in `request.extensions()`. A clone is the same counter, and may be
/// moved to a body or a task. It is counted without a lock. What is counted after the end of the response body has no effect.
///
/// With nested layers that both reserve, the extensions hold the innermost counter, and [`outer`](Usage::outer) returns the next
/// one.
///
/// See [`Limit::reserve`](crate::Limit::reserve) for an example.
#[derive(Clone)]
pub struct Usage {
    shared: Arc<Shared>,
    /// The index of the counter that this one is narrowed to.
    only: Option<usize>,
}

struct Shared {
    counters: SmallVec<[Counter; 1]>,
    outer: Option<Usage>,
}

/// The counter for one policy.
pub(super) struct Counter {
    policy: PolicyName,
    /// The index of the policy in the decisions about the request.
    pub(super) index: usize,
    pub(super) on_abort: OnAbort,
    /// The units plus 1; 0 if nothing was counted.
    count: AtomicU64,
    /// Where the response states its usage, and the units that are reserved.
    #[cfg(feature = "usage")]
    read: Option<(UsageReader, u64)>,
}

impl Usage {
    /// Returns `None` without a counter.
    pub(super) fn new(counters: SmallVec<[Counter; 1]>, outer: Option<Self>) -> Option<Self> {
        (!counters.is_empty()).then(|| Self { shared: Arc::new(Shared { counters, outer }), only: None })
    }

    /// Counts `units` more. The sum stays at `u64::MAX - 1` once it is reached. Adding 0 records that the handler counts, so that
    /// the reservation is refunded if nothing else is added.
    ///
    /// A counter that several policies share is counted for each of them; [`for_policy`](Self::for_policy) narrows it.
    #[inline]
    pub fn add(&self, units: u64) {
        for counter in self.counters() {
            counter.change(|count| count.max(1).saturating_add(units));
        }
    }

    /// Sets the count to `units`, regardless of what was counted before. For a total that is known at the end, such as the one that
    /// a language model reports with its last chunk.
    #[inline]
    pub fn set(&self, units: u64) {
        for counter in self.counters() {
            counter.set(units);
        }
    }

    /// Returns the units that were counted so far, the highest number if several policies have different ones. `None` if nothing
    /// was counted, not even 0.
    pub fn units(&self) -> Option<u64> {
        self.counters().iter().filter_map(Counter::units).max()
    }

    /// Returns this counter narrowed to one policy: operations on it affect no other policy. `None` if the request has no reservation
    /// under a policy of this name.
    ///
    /// For layers whose policies reserve different things, such as tokens and bytes.
    #[must_use]
    pub fn for_policy(&self, policy: &str) -> Option<Self> {
        let index = self.shared.counters.iter().position(|counter| counter.policy.as_str() == policy)?;
        let fits = self.only.is_none_or(|only| only == index);
        fits.then(|| Self { shared: Arc::clone(&self.shared), only: Some(index) })
    }

    /// The counter of the next outer layer that has reserved units for the request.
    pub fn outer(&self) -> Option<&Self> {
        self.shared.outer.as_ref()
    }

    #[inline]
    pub(super) fn counters(&self) -> &[Counter] {
        match self.only {
            None => &self.shared.counters,
            Some(index) => &self.shared.counters[index..=index],
        }
    }
}

impl Counter {
    pub(super) fn new(policy: PolicyName, index: usize, on_abort: OnAbort) -> Self {
        Self {
            policy,
            index,
            on_abort,
            count: AtomicU64::new(0),
            #[cfg(feature = "usage")]
            read: None,
        }
    }

    pub(super) fn units(&self) -> Option<u64> {
        self.count.load(Relaxed).checked_sub(1)
    }

    pub(super) fn set(&self, units: u64) {
        self.count.store(units.saturating_add(1), Relaxed);
    }

    fn change(&self, change: impl Fn(u64) -> u64) {
        // It never fails, because the closure always returns a number.
        let _ = self.count.fetch_update(Relaxed, Relaxed, |count| Some(change(count)));
    }
}

#[cfg(feature = "usage")]
impl Counter {
    /// Reads the usage from the response.
    pub(super) fn reading(self, reader: Option<&UsageReader>, reserved: u64) -> Self {
        Self { read: reader.map(|reader| (reader.clone(), reserved)), ..self }
    }

    pub(super) fn policy(&self) -> &PolicyName {
        &self.policy
    }

    pub(super) fn reader(&self) -> Option<&UsageReader> {
        self.read.as_ref().map(|(reader, _)| reader)
    }

    /// Counts what was read so far. The least that was used counts if it is more than is reserved.
    pub(super) fn set_read(&self, count: Count) {
        let reserved = self.read.as_ref().map_or(0, |(_, reserved)| *reserved);
        match count {
            Count::Total(units) => self.set(units),
            Count::AtLeast(units) if units > reserved => self.set(units),
            _ => self.count.store(0, Relaxed),
        }
    }
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counters().iter().map(|counter| (counter.policy.as_str(), counter.units()));
        f.write_str("Usage ")?;
        f.debug_map().entries(counts).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use smallvec::smallvec;

    use super::*;

    fn usage(policies: &[&str]) -> Usage {
        let name = |name: &str| PolicyName::new(name).unwrap();
        let counter = |(index, policy): (usize, &&str)| Counter::new(name(policy), index, OnAbort::Used);
        Usage::new(policies.iter().enumerate().map(counter).collect(), None).unwrap()
    }

    #[test]
    fn zero_is_counted_and_nothing_is_not() {
        let tokens = usage(&["tokens"]);
        assert_eq!(tokens.units(), None);
        tokens.add(0);
        assert_eq!(tokens.units(), Some(0));
        tokens.clone().add(7);
        tokens.add(3);
        assert_eq!(tokens.units(), Some(10));
        tokens.set(4);
        assert_eq!(tokens.units(), Some(4));
        assert!(Usage::new(smallvec![], None).is_none());
    }

    #[test]
    fn a_count_stays_at_the_largest_number() {
        let tokens = usage(&["tokens"]);
        for _ in 0..2 {
            tokens.add(u64::MAX);
            assert_eq!(tokens.units(), Some(u64::MAX - 1));
        }
        tokens.set(u64::MAX);
        assert_eq!(tokens.units(), Some(u64::MAX - 1));
    }

    #[test]
    fn a_narrowed_counter_counts_for_its_policy_only() {
        let both = usage(&["tokens", "bytes"]);
        let bytes = both.for_policy("bytes").unwrap();
        bytes.add(5);
        both.add(1);
        assert_eq!((bytes.units(), both.for_policy("tokens").unwrap().units()), (Some(6), Some(1)));
        assert_eq!(both.units(), Some(6));
        assert!(both.for_policy("rows").is_none() && bytes.for_policy("tokens").is_none());
        assert_eq!(format!("{both:?}"), r#"Usage {"tokens": Some(1), "bytes": Some(6)}"#);
    }

    #[test]
    fn all_threads_are_counted() {
        let tokens = usage(&["tokens"]);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| tokens.add(2)));
            }
        });
        assert_eq!(tokens.units(), Some(8_000));
    }
}
