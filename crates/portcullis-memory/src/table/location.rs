//! Where a table keeps its entries, for calls that have not locked it yet.

use std::hash::{BuildHasher, RandomState};
// Not those of the scheduler that explores interleavings: no decision depends on them.
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{halves_of_id, scaled};
use crate::table::prefetch::prefetch;

/// The place of a table's buckets, which is read without a lock. A call that reads it while the table moves prefetches something useless.
#[derive(Debug)]
pub(crate) struct Location {
    /// The address of the first bucket.
    start: AtomicUsize,
    /// The size of all buckets in bytes.
    size: AtomicUsize,
    /// Odd. Random in each process, and different in each location.
    multiplier: u64,
}

impl Location {
    /// The location of a table without buckets.
    pub(crate) fn new() -> Self {
        let multiplier = RandomState::new().hash_one(()) | 1;
        Self { start: AtomicUsize::new(0), size: AtomicUsize::new(0), multiplier }
    }

    /// The number that the homes of ids depend on.
    pub(super) fn multiplier(&self) -> u64 {
        self.multiplier
    }

    /// Records where the buckets are now.
    pub(super) fn record<B>(&self, buckets: &[B]) {
        self.start.store(buckets.as_ptr().addr(), Ordering::Relaxed);
        self.size.store(size_of_val(buckets), Ordering::Relaxed);
    }

    /// Begins to load the first bucket for an id.
    #[inline]
    pub(crate) fn prefetch(&self, id: u128) {
        prefetch(self.address(id));
    }

    /// An address in the first bucket for an id: the bytes before it are to all bytes as the buckets before its own to all buckets.
    #[inline]
    fn address(&self, id: u128) -> usize {
        let hash = halves_of_id(id)[0].wrapping_mul(self.multiplier);
        let offset = scaled(hash, self.size.load(Ordering::Relaxed));
        self.start.load(Ordering::Relaxed).wrapping_add(offset)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Bucket, Table, Value};
    use super::*;

    /// The index of the bucket that would be prefetched for an id.
    fn prefetched<V: Value>(table: &Table<V>, id: u128) -> usize {
        let offset = table.location.address(id) - table.buckets.as_ptr().addr();
        offset / size_of::<Bucket<V>>()
    }

    #[test]
    fn first_bucket_for_an_id_is_prefetched() {
        let mut table = Table::new(10_000);
        for number in 0..10_000_u64 {
            let id = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            table.insert(id, number, 0);
            assert_eq!(prefetched(&table, id), table.home(halves_of_id(id)));
        }
    }

    #[test]
    fn replacing_table_has_the_same_location() {
        let mut table = Table::new(10);
        table.insert(1, 1_u8, 0);
        let mut other = table.replacement::<u64>(10);
        assert!(Arc::ptr_eq(&table.location, &other.location));
        assert_eq!(table.location.address(1), other.buckets.as_ptr().addr());
        for id in 0..10 {
            other.insert(id, 1, 0);
            assert_eq!(prefetched(&other, id), other.home(halves_of_id(id)));
        }
    }
}
