//! The keys with the most requests, in bounded memory.

/// A Space-Saving sketch: counts of the keys that come most often.
///
/// It has at most `capacity` entries. A key without an entry replaces the entry with the fewest requests, and takes over its number, which is
/// the key's error. So of `n` requests in all, an entry counts at most `n / capacity` too many and never too few, and each key with more than
/// `n / capacity` requests has an entry.
///
/// Entries are searched one by one: with 64 of them that is faster than a map and a heap.
///
/// Source: Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams" (2005).
#[derive(Debug)]
pub(crate) struct Sketch<K> {
    entries: Vec<Entry<K>>,
    capacity: usize,
}

/// The counts of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<K> {
    pub(crate) key: K,
    /// At least the requests of the key, and at most that and `error`.
    pub(crate) requests: u64,
    /// The requests of the key that were rejected since it has this entry.
    pub(crate) rejected: u64,
    pub(crate) error: u64,
}

impl<K: Copy + PartialEq> Sketch<K> {
    /// `capacity` is at least 1.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { entries: Vec::with_capacity(capacity), capacity }
    }

    /// Counts a request of a key.
    pub(crate) fn record(&mut self, key: K, is_rejected: bool) {
        let rejected = u64::from(is_rejected);
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) {
            entry.requests = entry.requests.saturating_add(1);
            entry.rejected = entry.rejected.saturating_add(rejected);
        } else if self.entries.len() < self.capacity {
            self.entries.push(Entry { key, requests: 1, rejected, error: 0 });
        } else if let Some(least) = self.entries.iter_mut().min_by_key(|entry| entry.requests) {
            let error = least.requests;
            *least = Entry { key, requests: error.saturating_add(1), rejected, error };
        }
    }

    /// The entries, in no particular order.
    pub(crate) fn entries(&self) -> &[Entry<K>] {
        &self.entries
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Few keys are frequent and many are rare.
    fn keys() -> impl Strategy<Value = Vec<(u32, bool)>> {
        let key = prop_oneof![0_u32..4, 0_u32..20, 0_u32..10_000];
        proptest::collection::vec((key, any::<bool>()), 0..600)
    }

    proptest! {
        #[test]
        fn no_count_errs_by_more_than_the_bound(requests in keys(), capacity in 1_usize..24) {
            let mut sketch = Sketch::new(capacity);
            let mut exact: HashMap<u32, u64> = HashMap::new();
            for (key, is_rejected) in &requests {
                sketch.record(*key, *is_rejected);
                *exact.entry(*key).or_default() += 1;
            }
            let bound = (requests.len() / capacity) as u64;
            prop_assert!(sketch.entries().len() <= capacity);
            for entry in sketch.entries() {
                let actual = exact[&entry.key];
                prop_assert!(entry.error <= bound && entry.rejected <= actual);
                prop_assert!((entry.requests - entry.error..=entry.requests).contains(&actual));
            }
            let is_listed = |key: u32| sketch.entries().iter().any(|entry| entry.key == key);
            for (key, actual) in exact {
                prop_assert!(actual <= bound || is_listed(key));
            }
            prop_assert_eq!(sketch.entries().iter().map(|entry| entry.requests).sum::<u64>(), requests.len() as u64);
        }
    }
}
